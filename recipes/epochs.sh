#!/bin/sh
# Section 5.1: the edit success rate after each epoch of training, on two models.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/epochs.sh
. "$(dirname -- "$0")/common.sh"

for model in ${MODEL:-$LLAMA $QWEN}; do
    train "$model" "$(data counterfact)"
    evaluate epochs --editors dr-ike
    set -- "$@" "$OUTCOMES"
done
report epochs "$@"
