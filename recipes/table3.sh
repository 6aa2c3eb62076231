#!/bin/sh
# Table 3: DR-IKE on six models. A model that cannot be opened is told at the end; the others go on.
# Settings: see common.sh. In minutes, on TinyFacts: MODEL=embedded sh recipes/table3.sh
. "$(dirname -- "$0")/common.sh"

for model in ${MODEL:-$LLAMA $LLAMA_3B $MISTRAL $QWEN $QWEN_1B $SMOL}; do
    set -- "$@" --model "$model"
done
failed=0
ALL=$RUNS/$(name_of "${MODEL:-six models} $(data counterfact) table3 ${EDITS}x$EPOCHS test$TEST seed$SEED")
once "$ALL" models "$@" --data "$(data counterfact)" --edits "$EDITS" --test "$TEST" --epochs "$EPOCHS" \
    --seed "$SEED" ${POLICY_ENCODER:+--policy-encoder "$POLICY_ENCODER"} || failed=$?
[ ! -e "$ALL/summary.json" ] || report table3 "$ALL" # of the models that could be opened
exit "$failed"
