#!/bin/sh
# Table 5: zsRE and WikiData-counterfact, both from KnowEdit (see benchmarks/notes/methods.md).
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/table5.sh
. "$(dirname -- "$0")/common.sh"

for rows in $(data "zsre-knowedit wiki-counterfact"); do
    train "${MODEL:-$LLAMA}" "$rows"
    evaluate table5 --editors ike,dr-ike
    set -- "$@" "$OUTCOMES"
done
report table5 "$@" --across data
