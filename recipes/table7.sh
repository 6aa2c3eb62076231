#!/bin/sh
# Table 7: sensitivity to the order of the retains in the prompt; benchmarks/studies.py delays and falsifies rewards.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/table7.sh
. "$(dirname -- "$0")/common.sh"

train "${MODEL:-$LLAMA}" "$(data counterfact)"
evaluate orders --editors rank-all,rank-50,dr-ike --order similarity,reversed,shuffled
report table7 "$OUTCOMES"
