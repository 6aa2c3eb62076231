#!/bin/sh
# Table 2: the ablation. IKE-All, Rank-All, Rank-50% and DR-IKE; and DR-IKE at fixed sigmas: S against length.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/table2.sh
. "$(dirname -- "$0")/common.sh"

for model in ${MODEL:-$LLAMA $QWEN}; do
    train "$model" "$(data counterfact)"
    evaluate table2 --editors ike,rank-all,rank-50,dr-ike --sigmas .03,.06,.1,.15,.2
    set -- "$@" "$OUTCOMES"
done
report table2 "$@"
