#!/usr/bin/env bash
# The effect of each option for small corpora: one small model, a few thousand pairs of Tatoeba English-German, one row per
# option, equal numbers of updates. Usage: benchmarks/few_pairs.sh FOLDER RESULTS [ROW …]
# FOLDER contains train.en.gz train.de.gz test.en test.de; the first PAIRS=5000 of the training pairs are used, for
# back-translation the next MONO=20000 lines as monolingual text, and the first TEST=2000 test sentences. RESULTS gets
# ROW-SEED.json for each row; existing rows are not made again. STEPS=2000 updates are some 40 epochs.
# PRECISION=bf16, VOCAB=4000, WIDTH=128, LR=2.5e-3, TOKENS=2500 and TEACHER=2000 (updates of the back-translation model) are
# options, too.
set -euo pipefail
data=$1 results=$2
shift 2
pairs=${PAIRS:-5000} width=${WIDTH:-96} mono=${MONO:-20000} test=${TEST:-2000} seed=${SEED:-1} steps=${STEPS:-2000}
work=runs/few_pairs_$pairs
mkdir -p "$work" "$results"
for side in en de; do # sed reads all of its input, which head would not
    [ -e "$work/train.$side" ] || zcat "$data/train.$side.gz" | sed -n "1,${pairs}p" >"$work/train.$side"
    [ -e "$work/mono.$side" ] || zcat "$data/train.$side.gz" | sed -n "$((pairs + 1)),$((pairs + mono))p" >"$work/mono.$side"
    sed -n "1,${test}p" "$data/test.$side" >"$work/test.$side"
done
there="[$work/train.en,$work/train.de]" back="[$work/train.de,$work/train.en]"

train() { # RUN CORPORA UPDATES [option …]
    s2s-train task=translation "task.train=$2" task.vocab_size=${VOCAB:-2000} arch=transformer arch.n_encoder_layers=2 \
        arch.n_decoder_layers=2 arch.d_model="$width" arch.d_ff=$((2 * width)) arch.n_heads=4 arch.dropout=0.2 arch.norm=pre \
        schedule=cosine schedule.lr="${LR:-4e-3}" schedule.warmup=200 train.steps="$3" train.tokens="${TOKENS:-1500}" train.clip=1 \
        train.threads=1 train.precision="${PRECISION:-fp32}" valid.every=0 checkpoint.every="$3" log.tensorboard=false seed="$seed" run="$work/$1" "${@:4}" --quiet
}

row() {
    local run=$1-$seed
    case $1 in
    baseline) train "$run" "$there" "$steps" ;;
    bpe_dropout) train "$run" "$there" "$steps" task.subword_sampling=0.1 ;;
    unigram) train "$run" "$there" "$steps" task.subword=unigram ;;
    unigram_sampling) train "$run" "$there" "$steps" task.subword=unigram task.subword_sampling=0.2 ;;
    word_dropout) train "$run" "$there" "$steps" arch.src_word_dropout=0.1 arch.tgt_word_dropout=0.1 ;;
    dropout_01) train "$run" "$there" "$steps" arch.dropout=0.1 ;;
    dropout_03) train "$run" "$there" "$steps" arch.dropout=0.3 ;;
    smoothing_03) train "$run" "$there" "$steps" objective.eps=0.3 ;;
    rdrop) train "$run" "$there" "$steps" objective=rdrop ;;
    simcut) train "$run" "$there" "$steps" objective=simcut ;;
    bidirectional_start) # a third of the updates on both directions, the rest on one (Ding et al., 2021)
        train "both-$seed" "{there: $there, back: $back}" $((steps / 3))
        train "$run" "$there" $((steps - steps / 3)) "train.init_from=$work/both-$seed" train.init_replay=0 train.init_weight=0
        ;;
    back_translation) # of twice as many lines as there are pairs, tagged
        train "back-$seed" "$back" "${TEACHER:-$steps}"
        s2s-generate run="$work/back-$seed" input="$work/mono.de" output="$work/back-$seed.tsv" format=tsv resume=true search=greedy
        python -m s2s_translation.synthetic_pairs "$work/back-$seed.tsv" --back --tag '<BT>' -o "$work/back-$seed.pairs.tsv.gz"
        train "$run" "{gold: {files: $there, weight: 2}, back: $work/back-$seed.pairs.tsv.gz}" "$steps"
        ;;
    *)
        echo "no row is called $1" >&2
        return 2
        ;;
    esac
    s2s-generate run="$work/$run" input="$work/test.en" output="$work/$run.hyp" resume=true search.beam=4 --quiet
    s2s-score task=translation task.tgt_lang=de "hyp=$work/$run.hyp" "ref=$work/test.de" format=json >"$results/$1-$seed.tmp"
    mv "$results/$1-$seed.tmp" "$results/$1-$seed.json"
}

[ $# -gt 0 ] || set -- baseline bpe_dropout word_dropout simcut rdrop bidirectional_start back_translation dropout_01 dropout_03 smoothing_03 \
    unigram unigram_sampling
for name in "$@"; do
    [ -e "$results/$name-$seed.json" ] || row "$name"
done
