"""Training in several processes; each subpackage is a plugin of its own.

`launcher` starts the processes of train.devices, `ddp` joins processes started by it or by torchrun and sums their
gradients (train.strategy=ddp), `fsdp` shards the parameters among them (train.strategy=fsdp).
"""

from __future__ import annotations

__all__: list[str] = []
