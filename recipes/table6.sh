#!/bin/sh
# Table 6: budget controllers in place of the threshold rule.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/table6.sh
. "$(dirname -- "$0")/common.sh"

for budget in "" scores scores-query query query-context; do
    train "${MODEL:-$LLAMA_3B}" "$(data counterfact)" ${budget:+--budget "$budget"}
    evaluate table6 --editors dr-ike
    set -- "$@" "$OUTCOMES"
done
report table6 "$@" --across budget
