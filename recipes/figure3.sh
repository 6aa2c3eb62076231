#!/bin/sh
# Figure 3: the case study. Prompts and answers of one test edit (the first, or the id in CASE) under IKE and DR-IKE.
# Settings: see common.sh. In minutes, on TinyFacts: MODEL=embedded sh recipes/figure3.sh
. "$(dirname -- "$0")/common.sh"

train "${MODEL:-$LLAMA}" "$(data counterfact)"
CASE=${CASE:-$(sed -n 's/.*"test": \["\([^"]*\)".*/\1/p' "$RUN/split.json")}
"$DRIKE" case --run "$RUN" --case "$CASE"
