#!/bin/sh
# Section 5.3: what an epoch of training costs with and without the budget, on two models.
# Settings: see common.sh. In minutes, on TinyFacts: MODEL=embedded sh recipes/efficiency.sh
. "$(dirname -- "$0")/common.sh"

for model in ${MODEL:-$LLAMA $QWEN}; do
    for budget in all ""; do # all: every retain is always tried; else the threshold
        train "$model" "$(data counterfact)" ${budget:+--budget "$budget"}
        evaluate efficiency --editors dr-ike
        set -- "$@" "$OUTCOMES"
    done
done
report efficiency "$@" --across budget
