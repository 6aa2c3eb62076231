#!/bin/sh
# Table 3: DR-IKE and IKE on six models, on the same edits. A model that fails is skipped and named at the end; run the
# recipe again to retry it and to resume stopped runs.
# Settings: see common.sh. A run of minutes on TinyFacts: MODEL=embedded sh recipes/table3.sh
. "$(dirname -- "$0")/common.sh"

failed=''
for model in ${MODEL:-$LLAMA $LLAMA_3B $MISTRAL $QWEN $QWEN_1B $SMOL}; do
    if train "$model" "$(data counterfact)" && evaluate table3 --editors ike,dr-ike; then
        set -- "$@" "$OUTCOMES"
    else
        failed="$failed $model"
    fi
done
[ $# -eq 0 ] || report table3 "$@"
[ -z "$failed" ] || {
    echo "These models failed, see their errors above:$failed" >&2
    exit 1
}
