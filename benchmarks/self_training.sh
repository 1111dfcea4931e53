#!/usr/bin/env bash
# Self-training (section 6.3's semi-supervised setting, with our own parser): train on gold trees, parse raw text, keep
# the half with the best scores, train anew on both. If killed, the same command continues.
# Usage: benchmarks/self_training.sh EXPERIMENT GOLD DEV RAW [option=value …]
# RAW has one sentence per line, with words separated by spaces; options go to both trainings.
set -euo pipefail
experiment=$1 gold=$2 dev=$3 raw=$4
shift 4
teacher=runs/$experiment-teacher
student=runs/$experiment-student
s2s-train experiment="$experiment" task.train="$gold" task.valid="$dev" run="$teacher" "$@"
# A score that sentences of any length can be compared by: the mean log-probability of a symbol.
s2s-generate run="$teacher" input="$raw" output="$teacher/raw.tsv" format=tsv resume=true \
    search.length_penalty=power search.alpha=1
[ -e "$teacher/silver.mrg.gz" ] ||
    python -m s2s_parsing.silver "$teacher/raw.tsv" --keep 0.5 --without "$dev" -o "$teacher/silver.mrg.gz"
s2s-train experiment="$experiment" task.valid="$dev" run="$student" \
    task.train="{gold: $gold, silver: {files: $teacher/silver.mrg.gz, weight: 0.5}}" "$@"
