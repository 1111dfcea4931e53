"""A key-value store that only the processes of one start share, whatever earlier starts left in torchrun's store.

After a restart the keys of the previous start are still there, and a process group that reads them may hang.
TORCHELASTIC_RESTART_COUNT does not distinguish starts, since each machine's agent counts its own restarts. So rank 0
draws a prefix for the start and sends it to each rank that requests it; every request carries a new random id, so
that a reply to an earlier start is never taken for a reply to this one.
"""

from __future__ import annotations

__all__ = ["STORE", "private_store"]

import time
import uuid
from typing import TYPE_CHECKING

from torch.distributed import DistStoreError
from torch.distributed.distributed_c10d import PrefixStore

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

STORE = "S2S_STORE"
"""Environment variable with which our launcher names the file through which the ranks of one machine meet"""
POLL_SECONDS = 0.02


def private_store(store: Store, rank: int, size: int, seconds: float) -> PrefixStore:
    """The same store under a prefix that all `size` ranks of this start agree on.

    Raises DistStoreError naming the ranks that did not join within `seconds`.
    """
    requests, deadline = PrefixStore("rendezvous", store), time.monotonic() + seconds
    prefix = _request_prefix(requests, rank, deadline) if rank else _send_prefix(requests, size, deadline)
    return PrefixStore(prefix, store)


def _request_prefix(store: PrefixStore, rank: int, deadline: float) -> str:
    """On ranks other than 0: request the prefix under a new id, and acknowledge it."""
    request = uuid.uuid4().hex
    store.set(f"request/{rank}", request)
    while not store.check([f"reply/{request}"]):
        _sleep(deadline, [0])
    prefix = store.get(f"reply/{request}").decode()
    store.set(f"{prefix}/{rank}", "")
    return prefix


def _send_prefix(store: PrefixStore, size: int, deadline: float) -> str:
    """On rank 0: draw a prefix and reply to requests, even from earlier starts, until all ranks acknowledge it."""
    prefix = uuid.uuid4().hex
    replied: set[str] = set()
    missing = list(range(1, size))
    while missing:
        requesting = [rank for rank in missing if store.check([f"request/{rank}"])]
        requests = {store.get(f"request/{rank}").decode() for rank in requesting} - replied
        for request in requests:
            store.set(f"reply/{request}", prefix)
        replied |= requests
        missing = [rank for rank in missing if not store.check([f"{prefix}/{rank}"])]
        if missing:
            _sleep(deadline, missing)
    return prefix


def _sleep(deadline: float, missing: list[int]) -> None:
    if time.monotonic() > deadline:
        raise DistStoreError(f"rank {', '.join(map(str, missing))} did not join the start of the run")
    time.sleep(POLL_SECONDS)
