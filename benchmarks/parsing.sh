#!/usr/bin/env bash
# From a treebank to labelled F1. Usage: benchmarks/parsing.sh EXPERIMENT TRAIN DEV TEST [option=value …]
# TRAIN, DEV and TEST are files of trees; options go to s2s-train. If killed, the same command continues.
# The table has beam 1, 4 and 21, with and without the constraint; "mended" counts outputs that were not trees.
set -euo pipefail
experiment=$1 train=$2 dev=$3 test=$4
shift 4
run=runs/$experiment
s2s-train experiment="$experiment" task.train="$train" task.valid="$dev" run="$run" "$@"
python -m s2s_parsing.treebank "$test" > "$run/test.mrg"
python -m s2s_parsing.treebank --words "$test" > "$run/test.words"
for beam in 1 4 21; do
    for constrained in true false; do
        output=$run.test.beam$beam.$constrained.mrg
        s2s-generate run="$run" search.beam=$beam constrained=$constrained threads=1 raw=false resume=true \
            input="$run/test.words" output="$output"
        s2s-score task=parsing hyp="$output" ref="$run/test.mrg" | tee "$output.score"
    done
done
