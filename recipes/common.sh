# Shared by all recipes, which source this file.
#
# A recipe repeats one table or figure of the paper. Its models, data and settings are the defaults; override them with:
#
#   MODEL      another model for all steps; MODEL=embedded uses TinyFacts and small sizes and takes minutes, offline;
#              MODEL=smollm2 or gemma-270m is a small real model, whose defaults are those of benchmarks/real_models.py
#   DATA       another data set: a name that drike knows, a path (also of a file in .gz) or an address
#   EDITS TEST EPOCHS SEED    sizes and seed; default: 300, 100, 5 as in the paper, and 0 (it names no seed); small real
#              models: 300, 200, 3
#   POLICY_ENCODER            the encoder under the head; default: the paper's 4-layer BERT; small models: drike's own
#   MAX_COST PRICE_IN PRICE_OUT    for models behind an API: spending limit for all runs under RUNS together, and the
#              prices of a million prompt tokens and of a million generated tokens
#   RUNS       folder for runs; default: runs/ beside recipes/
#   DRIKE      the drike command; default: .venv/bin/drike beside recipes/, or the one on the PATH
#
# A step already finished with the same settings is skipped, so recipes share their training runs. A stopped step is
# resumed. Folders are named after model, data, options, sizes and seed; with another POLICY_ENCODER, set RUNS as well.
# shellcheck shell=sh disable=SC2034

set -eu

if [ $# -gt 0 ]; then
    echo "a recipe takes no arguments; set variables (see recipes/common.sh), for example: MODEL=embedded sh $0" >&2
    exit 2
fi
ROOT=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
RUNS=${RUNS:-$ROOT/runs}
if [ -z "${DRIKE:-}" ]; then
    DRIKE=$ROOT/.venv/bin/drike
    [ -x "$DRIKE" ] || DRIKE=$(command -v drike) || {
        echo "drike is neither in $ROOT/.venv/bin nor on the PATH: run make demo, or pip install -e '.[offline]'" >&2
        exit 1
    }
fi

LLAMA=meta-llama/Llama-3.1-8B-Instruct
LLAMA_3B=meta-llama/Llama-3.2-3B-Instruct
MISTRAL=mistralai/Mistral-7B-Instruct-v0.2
QWEN=Qwen/Qwen2.5-7B-Instruct
QWEN_1B=Qwen/Qwen2.5-1.5B
SMOL=HuggingFaceTB/SmolLM2-1.7B

SEED=${SEED:-0}
case ${MODEL:-} in
embedded)
    EDITS=${EDITS:-40} TEST=${TEST:-20} EPOCHS=${EPOCHS:-2}
    ;;
smollm2 | gemma-270m)
    EDITS=${EDITS:-300} TEST=${TEST:-200} EPOCHS=${EPOCHS:-3}
    ;;
*)
    EDITS=${EDITS:-300} TEST=${TEST:-100} EPOCHS=${EPOCHS:-5}
    POLICY_ENCODER=${POLICY_ENCODER:-google/bert_uncased_L-4_H-512_A-8}
    ;;
esac

# A packed file of data is unpacked beside the runs, once.
case ${DATA:-} in
*.gz)
    mkdir -p "$RUNS"
    unpacked=$RUNS/$(basename "$DATA" .gz)
    [ -s "$unpacked" ] || gunzip -c "$DATA" >"$unpacked"
    DATA=$unpacked
    ;;
esac

# data NAMES: print the data to use where the paper uses NAMES. The embedded model only knows the facts of TinyFacts.
data() {
    if [ "${MODEL:-}" = embedded ]; then echo "${DATA:-tinyfacts}"; else echo "${DATA:-$1}"; fi
}

# name_of MODEL: print a model's name in a form for folder names.
name_of() {
    printf '%s' "$1" | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9' '-' | sed 's/^-//; s/-$//'
}

# begun FOLDER: succeed if FOLDER holds a run with records; drike starts any other run afresh.
begun() {
    [ -e "$1/run.json" ] || return 1
    for record in "$1"/episodes.jsonl "$1"/outcomes/*.jsonl; do
        [ ! -e "$record" ] || return 0
    done
    return 1
}

# left_for FOLDER: MAX_COST minus what the other runs spent; drike itself subtracts what a resumed run spent before.
left_for() {
    for usage in "$RUNS"/*/usage.json; do
        [ ! -e "$usage" ] || [ "$usage" = "$1/usage.json" ] || cat "$usage"
    done | awk -F '[:,]' -v most="$MAX_COST" '/"money"/ { most -= $2 } END { print (most > 0 ? most : 0) }'
}

# once FOLDER COMMAND [OPTION...]: call drike with --out FOLDER unless that is finished; a stopped run is resumed with
# its original options.
once() {
    folder=$1
    shift
    if [ -e "$folder/.finished" ]; then
        echo "$folder is finished, skipping: drike $*"
        return
    fi
    command=$1
    if begun "$folder"; then
        set -- "$command" --resume "$folder"
    else
        set -- "$@" --out "$folder"
    fi
    [ -z "${MAX_COST:-}" ] || set -- "$@" --max-cost "$(left_for "$folder")" \
        ${PRICE_IN:+--price-in "$PRICE_IN"} ${PRICE_OUT:+--price-out "$PRICE_OUT"}
    echo "drike $*"
    "$DRIKE" "$@" || return
    : >"$folder/.finished"
}

# train MODEL DATA [OPTION...]: train on DATA with these options; sets $RUN to the run's folder.
train() {
    model=$1 rows=$2
    shift 2
    RUN=$RUNS/$(name_of "$model $rows $* ${EDITS:-all}x$EPOCHS test${TEST:-} seed$SEED")
    once "$RUN" train --model "$model" --data "$rows" ${EDITS:+--edits "$EDITS"} ${TEST:+--test "$TEST"} \
        --epochs "$EPOCHS" --seed "$SEED" ${POLICY_ENCODER:+--policy-encoder "$POLICY_ENCODER"} "$@"
}

# evaluate LABEL [OPTION...]: evaluate the run in $RUN with these options; sets $OUTCOMES to the folder of outcomes.
evaluate() {
    OUTCOMES=$RUN-$1
    shift
    once "$OUTCOMES" evaluate --run "$RUN" "$@"
}

# report NAME EVALUATION... [--across SETTING]: compare evaluations and their training runs with the paper's figures in
# $RUNS/NAME.html and .md. SETTING is the one in which they differ.
report() {
    page=$RUNS/$1.html
    shift
    "$DRIKE" report "$@" --out "$page"
}
