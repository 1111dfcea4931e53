#!/usr/bin/env bash
# Multi30k English-German from raw files to the score reported in the literature (text only: 41.0 BLEU on
# test_2016_flickr, lower-cased and tokenised). Usage: benchmarks/multi30k.sh FOLDER [option=value …]
# FOLDER contains train.en train.de.gz val.en val.de test_2016_flickr.en test_2016_flickr.de; options go to s2s-train.
set -euo pipefail
data=$1
shift
run=runs/multi30k_en_de
s2s-train experiment=multi30k_en_de "task.train=[$data/train.en,$data/train.de.gz]" \
    "task.valid=[$data/val.en,$data/val.de]" run=$run "$@"
s2s-generate run=$run input="$data/test_2016_flickr.en" output=$run.test_2016_flickr.hyp
s2s-score task=translation task.tgt_lang=de task.lowercase=true hyp=$run.test_2016_flickr.hyp \
    ref="$data/test_2016_flickr.de" \
    'metrics=[{name: bleu_moses, normalize: true, split_hyphens: false}, bleu, chrf, ter]'
