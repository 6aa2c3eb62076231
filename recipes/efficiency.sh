#!/bin/sh
# Section 5.3: the cost of a training epoch with and without the budget, on two models.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/efficiency.sh
. "$(dirname -- "$0")/common.sh"

for model in ${MODEL:-$LLAMA $QWEN}; do
    for budget in all ""; do # all: always evaluate every retain; empty: the threshold
        train "$model" "$(data counterfact)" ${budget:+--budget "$budget"}
        evaluate efficiency --editors dr-ike
        set -- "$@" "$OUTCOMES"
    done
done
report efficiency "$@" --across budget
