#!/bin/sh
# Table 8: temporal edits, and the numerical ones of CounterFact; with DATA, those edits alone.
# Settings: see common.sh. In minutes, on TinyFacts: MODEL=embedded sh recipes/table8.sh
. "$(dirname -- "$0")/common.sh"

model=${MODEL:-$LLAMA}
train "$model" "$(data temporal)"
evaluate table8 --editors ike,dr-ike
report table8-temporal "$OUTCOMES"

# TinyFacts has no numerical edits; and DATA is one set, the temporal edits' or CounterFact's in their place.
if [ "$model" != embedded ] && [ -z "${DATA:-}" ]; then
    EDITS='' TEST='' # there are fewer than 400 of them among the editable rows: a quarter tests, the others train
    train "$model" "$(data counterfact)" --subset numerical
    evaluate table8 --editors ike,dr-ike
    report table8-numerical "$OUTCOMES"
fi
