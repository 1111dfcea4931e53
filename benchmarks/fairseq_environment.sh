#!/usr/bin/env bash
# An environment of its own for fairseq 0.12.2, a peer of train.py written for older Python, omegaconf and hydra.
# Usage: benchmarks/fairseq_environment.sh
set -euo pipefail
cd "$(dirname "$0")/.."
peer=build/fairseq
[ -d $peer ] || python3.11 -m venv $peer
$peer/bin/pip install -q -c constraints.txt -e ".[train,plots]" transformers
$peer/bin/pip install -q -c constraints.txt antlr4-python3-runtime==4.9.3 bitarray tqdm
# READTHEDOCS: no extensions in C++ and Cython, which neither the model nor the loss nor Adam needs
READTHEDOCS=1 $peer/bin/pip install -q --no-deps hydra-core==1.3.2 fairseq==0.12.2
# From 3.11 on, the default of a dataclass's field must be hashable, and these defaults are dataclasses themselves
fairseq=$($peer/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/fairseq
sed -i 's/^@dataclass$/@dataclass(unsafe_hash=True)/' \
  "$fairseq/dataclass/configs.py" "$fairseq/models/transformer/transformer_config.py"
$peer/bin/python -c "
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.models.transformer import TransformerModel
from fairseq.optim.adam import Adam
"
echo "$peer/bin/python benchmarks/train.py arch=base corpus=multi30k --peer"
