"""Training in several processes; each package in here is a plugin of its own.

`launcher` starts the processes of train.devices, `ddp` joins those that it or torchrun started and sums their gradients
(train.strategy=ddp), `fsdp` shards the parameters among them (train.strategy=fsdp).
"""

from __future__ import annotations

__all__: list[str] = []
