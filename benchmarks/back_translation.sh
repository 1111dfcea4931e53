#!/usr/bin/env bash
# Tagged back-translation: a model of the other direction translates monolingual text of the target language, and the
# model is trained on the given pairs and on these, whose sources begin with a tag. If killed, the same command
# continues. Usage: benchmarks/back_translation.sh NAME SRC TGT DEV_SRC DEV_TGT MONO [option=value …]
# MONO has one sentence of the target language per line; options go to both trainings. SEARCH="search.beam=5": beam
# search instead of sampling. WEIGHT=2: how often a given pair is seen for each time a back-translated one is.
set -euo pipefail
name=$1 src=$2 tgt=$3 dev_src=$4 dev_tgt=$5 mono=$6
shift 6
run=runs/$name back=runs/$name-back
s2s-train task=translation "task.train=[$tgt,$src]" "task.valid=[$dev_tgt,$dev_src]" run="$back" "$@"
read -ra search <<<"${SEARCH:-search=sample}"
s2s-generate run="$back" input="$mono" output="$back/mono.tsv" format=tsv resume=true "${search[@]}"
[ -e "$back/pairs.tsv.gz" ] ||
    python -m s2s_translation.synthetic_pairs "$back/mono.tsv" --back --tag '<BT>' -o "$back/pairs.tsv.gz"
s2s-train task=translation "task.valid=[$dev_src,$dev_tgt]" run="$run" \
    "task.train={given: {files: [$src,$tgt], weight: ${WEIGHT:-1}}, back: $back/pairs.tsv.gz}" "$@"
