#!/bin/sh
# Figures 4 and 5: how many retains DR-IKE keeps per edit, on two models.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/figure4.sh
. "$(dirname -- "$0")/common.sh"

for model in ${MODEL:-$LLAMA $QWEN}; do
    train "$model" "$(data counterfact)"
    evaluate figure4 --editors dr-ike
    set -- "$@" "$OUTCOMES"
done
report figure4 "$@"
