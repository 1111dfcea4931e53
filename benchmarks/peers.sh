#!/usr/bin/env bash
# An environment with all peers of decode.py and train.py: CTranslate2, transformers, and fairseq 0.12.2, which was
# written for older Python, omegaconf and hydra and cannot be installed alongside s2s unmodified. Usage: benchmarks/peers.sh
set -euo pipefail
cd "$(dirname "$0")/.."
peers=build/peers
[ -d $peers ] || python3.11 -m venv $peers
$peers/bin/pip install -q -c constraints.txt -e ".[train,plots,serve]" ctranslate2 transformers
$peers/bin/pip install -q -c constraints.txt antlr4-python3-runtime==4.9.3 bitarray tqdm
# READTHEDOCS: no extensions in C++ and Cython, which neither the model nor the loss nor Adam needs
READTHEDOCS=1 $peers/bin/pip install -q --no-deps hydra-core==1.3.2 fairseq==0.12.2
# From 3.11 on, the default of a dataclass's field must be hashable, and these defaults are dataclasses themselves
fairseq=$($peers/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/fairseq
sed -i 's/^@dataclass$/@dataclass(unsafe_hash=True)/' \
  "$fairseq/dataclass/configs.py" "$fairseq/models/transformer/transformer_config.py"
$peers/bin/python -c "
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.models.transformer import TransformerModel
from fairseq.optim.adam import Adam
"
echo "$peers/bin/python benchmarks/train.py arch=base corpus=multi30k --peer"
