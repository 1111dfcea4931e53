#!/usr/bin/env bash
# What a configuration reaches on a corpus in a given time, by the README's three lines; recipe=auto where none is given.
# Usage: benchmarks/recipe.sh FOLDER RUN TIME [option=value …], such as
#   benchmarks/recipe.sh tatoeba/en-de runs/auto 10m
#   benchmarks/recipe.sh tatoeba/en-de runs/mine 10m arch=transformer_small train.tokens=2048
# FOLDER holds train.en train.de (or .gz), dev.en dev.de, test.en test.de; PAIRS=5000 takes the first pairs alone.
# Prints the CPU seconds of training, which tell how much of the time the machine gave, and the scores of the test set.
set -euo pipefail
data=$1 run=$2 time=$3
shift 3
cat_() { for f in "$1" "$1.gz"; do if [ -e "$f" ]; then gzip -cdf "$f"; fi; done; }
mkdir -p "$run.data"
for side in en de; do
    cat_ "$data/train.$side" | { if [ -n "${PAIRS:-}" ]; then awk -v n="$PAIRS" 'NR <= n'; else cat; fi; } > "$run.data/train.$side"
done
TIMEFORMAT="training: %R s on the clock, %U + %S s of CPU time"
time s2s-train task=translation "task.train=[$run.data/train.en,$run.data/train.de]" \
    "task.valid=[$data/dev.en,$data/dev.de]" run="$run" train.budget="$time" "$@"
s2s-generate run="$run" input="$data/test.en" output="$run/test.hyp"
s2s-score task=translation hyp="$run/test.hyp" ref="$data/test.de"
