#!/usr/bin/env bash
# GENIA divided by annotation style: three seeds, one model with CRAFT and the WSJ sample, and their votes.
# Usage: benchmarks/annotation_styles.sh GENIA CRAFT WSJ [option=value …]
# Folders with train.clean.mrg (GENIA, CRAFT: .gz), dev.clean.mrg and test.clean.mrg; options go to s2s-train.
# If killed, the same command continues.
set -euo pipefail
genia=$1 craft=$2 wsj=$3
shift 3
out=runs/annotation_styles
mkdir -p $out
[ -f $out/styles.txt ] || {
    python -m s2s_parsing.find_styles "$genia/train.clean.mrg.gz" -o $out/styles --like "$genia/dev.clean.mrg" 2> $out/styles.tmp
    mv $out/styles.tmp $out/styles.txt
}
styles="style1: $out/styles/style1.mrg.gz, style2: $out/styles/style2.mrg.gz"
for seed in 1 2 3; do
    s2s-train experiment=genia "task.train={$styles}" task.style=style2 task.valid="$genia/dev.clean.mrg" \
        search.beam=1 seed=$seed run=$out/seed$seed "$@"
done
s2s-train experiment=genia "task.train={$styles, craft: $craft/train.clean.mrg.gz, wsj: $wsj/train.clean.mrg}" task.style=style2 \
    "task.valid={genia: $genia/dev.clean.mrg, craft: $craft/dev.clean.mrg}" search.beam=1 run=$out/joint \
    arch.d_model=256 schedule.lr=1.5e-3 schedule.warmup=500 train.steps=20000 valid.every=5000 "$@"
for part in dev test; do
    python -m s2s_parsing.treebank --words "$genia/$part.clean.mrg" > $out/$part.words
    python -m s2s_parsing.treebank --words "$craft/$part.clean.mrg" | sed 's/^/<craft> /' > $out/craft.$part.words
    for model in seed1 seed2 seed3 joint; do
        s2s-generate run=$out/$model threads=1 nbest=8 format=jsonl input_format=text resume=true \
            input=$out/$part.words output=$out/$model.$part.jsonl
        python -m s2s_parsing.vote $out/$model.$part.jsonl -o $out/$model.$part.mrg
    done
    s2s-generate run=$out/joint threads=1 resume=true input=$out/craft.$part.words output=$out/joint.craft.$part.mrg
    python -m s2s_parsing.vote $out/{seed1,seed2,seed3}.$part.jsonl -o $out/seeds.$part.mrg
    python -m s2s_parsing.vote $out/{seed1,seed2,seed3,joint}.$part.jsonl -o $out/all.$part.mrg
    for trees in seed1 seed2 seed3 joint seeds all; do
        s2s-score task=parsing hyp=$out/$trees.$part.mrg ref="$genia/$part.clean.mrg"
    done
    s2s-score task=parsing hyp=$out/joint.craft.$part.mrg ref="$craft/$part.clean.mrg"
done
