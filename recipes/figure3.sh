#!/bin/sh
# Figure 3: the case study. Prompts and answers of test edits under IKE and DR-IKE, side by side: the page's Cases.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/figure3.sh
. "$(dirname -- "$0")/common.sh"

train "${MODEL:-$LLAMA}" "$(data counterfact)"
evaluate figure3 --editors ike,dr-ike
report figure3 "$OUTCOMES"
