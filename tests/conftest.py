"""What all tests share: one thread each, since several tests run side by side on few cores."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the commands that tests start, too

import torch

torch.set_num_threads(1)
