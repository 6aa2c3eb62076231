#!/bin/sh
# Table 8: temporal edits, and the numerical ones of CounterFact; with DATA, those edits alone.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/table8.sh
. "$(dirname -- "$0")/common.sh"

model=${MODEL:-$LLAMA}
train "$model" "$(data temporal)"
evaluate table8 --editors ike,dr-ike
report table8-temporal "$OUTCOMES"

# TinyFacts has no numerical edits, and DATA replaces both data sets by one.
if [ "$model" != embedded ] && [ -z "${DATA:-}" ]; then
    EDITS='' TEST='' # fewer than 400 editable rows are numerical: a quarter for testing, the rest for training
    train "$model" "$(data counterfact)" --subset numerical
    evaluate table8 --editors ike,dr-ike
    report table8-numerical "$OUTCOMES"
fi
