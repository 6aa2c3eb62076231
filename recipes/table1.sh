#!/bin/sh
# Table 1: FactPrompt, EditCoT, IKE and DR-IKE on two models.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/table1.sh
. "$(dirname -- "$0")/common.sh"

for model in ${MODEL:-$LLAMA $QWEN}; do
    train "$model" "$(data counterfact)"
    evaluate table1 --editors unedited,factprompt,editcot,ike,dr-ike
    set -- "$@" "$OUTCOMES"
done
report table1 "$@"
