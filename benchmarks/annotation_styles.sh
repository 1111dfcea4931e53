#!/usr/bin/env bash
# GENIA divided by annotation style: three seeds, one model with CRAFT and the WSJ sample, and their votes; the same for CRAFT.
# Usage: benchmarks/annotation_styles.sh GENIA CRAFT WSJ [option=value …]
# Folders with train.clean.mrg (GENIA, CRAFT: .gz), dev.clean.mrg and test.clean.mrg; options go to s2s-train.
# If killed, the same command continues.
set -euo pipefail
genia=$1 craft=$2 wsj=$3
shift 3
out=runs/annotation_styles
mkdir -p $out

[ -f $out/styles.txt ] || {
    python -m s2s_parsing.find_styles "$genia/train.clean.mrg.gz" -o $out/styles --like "$genia/dev.clean.mrg" 2> $out/tmp ||
        { cat $out/tmp >&2; exit 2; }
    mv $out/tmp $out/styles.txt
}
styles="style1: $out/styles/style1.mrg.gz, style2: $out/styles/style2.mrg.gz"
for seed in 1 2 3; do
    s2s-train experiment=genia "task.train={$styles}" task.style=style2 task.valid="$genia/dev.clean.mrg" \
        search.beam=1 seed=$seed run=$out/genia$seed "$@"
    s2s-train experiment=craft task.train="$craft/train.clean.mrg.gz" task.valid="$craft/dev.clean.mrg" \
        search.beam=1 seed=$seed run=$out/craft$seed "$@"
done
s2s-train experiment=treebanks "task.train={$styles, craft: $craft/train.clean.mrg.gz, wsj: $wsj/train.clean.mrg}" \
    task.style=style2 "task.valid={genia: $genia/dev.clean.mrg, craft: $craft/dev.clean.mrg}" search.beam=1 run=$out/joint "$@"

parse() { # RUNS WORDS OUTPUT: eight outputs of each sentence in OUTPUT.jsonl, the best in OUTPUT.mrg
    s2s-generate run="$1" search.beam=8 threads=1 nbest=8 format=jsonl input_format=text raw=false resume=true input="$2" output="$3.jsonl"
    python -c 'import json, sys; print(*(json.loads(line)["hyp"] for line in sys.stdin), sep="\n")' < "$3.jsonl" > "$3.mrg"
}

for part in dev test; do
    python -m s2s_parsing.treebank --words "$genia/$part.clean.mrg" > $out/genia.$part.words
    python -m s2s_parsing.treebank --words "$craft/$part.clean.mrg" > $out/craft.$part.words
    sed 's/^/<craft> /' $out/craft.$part.words > $out/craft_marked.$part.words
    for treebank in genia craft; do
        for seed in 1 2 3; do
            parse $out/$treebank$seed $out/$treebank.$part.words $out/$treebank.$part.$seed
        done
        parse "[$out/${treebank}1,$out/${treebank}2,$out/${treebank}3]" $out/$treebank.$part.words $out/$treebank.$part.mean
    done
    parse $out/joint $out/genia.$part.words $out/genia.$part.joint
    parse $out/joint $out/craft_marked.$part.words $out/craft.$part.joint
    for treebank in genia craft; do
        of=$out/$treebank.$part
        for model in 1 2 3 joint; do
            python -m s2s_parsing.vote $of.$model.jsonl -o $of.vote_of_$model.mrg
        done
        python -m s2s_parsing.vote $of.{1,2,3}.jsonl -o $of.vote_of_seeds.mrg
        python -m s2s_parsing.vote $of.{1,2,3,joint}.jsonl -o $of.vote_of_all.mrg
    done
    for trees in $out/genia.$part.*.mrg; do s2s-score task=parsing hyp="$trees" ref="$genia/$part.clean.mrg"; done
    for trees in $out/craft.$part.*.mrg; do s2s-score task=parsing hyp="$trees" ref="$craft/$part.clean.mrg"; done
done
