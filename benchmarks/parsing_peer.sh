#!/usr/bin/env bash
# supar's parser on the trees of a treebank, for MINUTES of CPU time, in an environment of its own, scored as s2s's is.
# Usage: benchmarks/parsing_peer.sh TRAIN DEV TEST MINUTES [option=value …]; options go to parsing_peer.py
set -euo pipefail
train=$1 dev=$2 test=$3 minutes=$4
shift 4
here=$(dirname "$0") peer=build/supar
[ -d $peer ] || python3 -m venv $peer
$peer/bin/pip install -q -c "$here/../constraints.txt" supar==1.1.4
export OMP_NUM_THREADS=1
$peer/bin/python "$here/parsing_peer.py" "$train" "$dev" "$test" build/supar.mrg "$minutes" "$@"
s2s-score task=parsing hyp=build/supar.mrg ref="$test"
