#!/bin/sh
# Table 4: a black-box model, in the paper Gemini 2.0 Flash. MODEL can name any other that drike can open.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/table4.sh
. "$(dirname -- "$0")/common.sh"

for model in ${MODEL:-gemini:gemini-2.0-flash}; do
    train "$model" "$(data counterfact)"
    evaluate table4 --editors ike,dr-ike
    set -- "$@" "$OUTCOMES"
done
report table4 "$@"
