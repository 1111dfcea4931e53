"""What all tests share: one thread each, since several tests run side by side on few cores."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the commands that tests start, too

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

# An example's time says more about who else is at work on the machine than about the code.
settings.register_profile("shared machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared machine")
