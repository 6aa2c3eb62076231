#!/bin/sh
# Figure 3: the case study. Prompts and answers of one test edit (the first, or the id in CASE) under IKE and DR-IKE:
# printed, and saved in $RUNS/figure3-CASE.txt.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/figure3.sh
. "$(dirname -- "$0")/common.sh"

train "${MODEL:-$LLAMA}" "$(data counterfact)"
CASE=${CASE:-$(sed -n 's/.*"test": \["\([^"]*\)".*/\1/p' "$RUN/split.json")}
shown=$RUNS/figure3-$(name_of "$CASE").txt
"$DRIKE" case --run "$RUN" --case "$CASE" --show-prompt >"$shown.part"
mv -- "$shown.part" "$shown"
cat -- "$shown"
echo "The case study is in $shown"
