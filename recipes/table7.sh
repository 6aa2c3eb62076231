#!/bin/sh
# Table 7: sensitivity to delayed and noisy rewards in training, and to the order of the retains in the prompt.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/table7.sh
. "$(dirname -- "$0")/common.sh"

model=${MODEL:-$LLAMA} rows=$(data counterfact)
train "$model" "$rows"
evaluate orders --editors rank-all,rank-50,dr-ike --order similarity,reversed,shuffled
report table7-orders "$OUTCOMES"

evaluate table7 --editors dr-ike
set -- "$OUTCOMES"
for delay in 10 50; do
    train "$model" "$rows" --delay "$delay"
    evaluate table7 --editors dr-ike
    set -- "$@" "$OUTCOMES"
done
for noise in .1 .3; do
    train "$model" "$rows" --noise "$noise"
    evaluate table7 --editors dr-ike
    set -- "$@" "$OUTCOMES"
done
report table7 "$@" --across delay --across noise
