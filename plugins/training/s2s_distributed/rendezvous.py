"""A key-value store that only the processes of one start share, whatever earlier starts left in torchrun's store.

After a restart the keys of the previous start are still there, and a process group that reads them may hang.
TORCHELASTIC_RESTART_COUNT does not distinguish starts, since each machine's agent counts its own restarts. So rank 0
draws a prefix for the start and sends it to each rank that requests it; every request carries a new random id, so
that a reply to an earlier start is never taken for a reply to this one.
"""

from __future__ import annotations

__all__ = ["STORE", "check_collectives", "private_store"]

import time
import uuid
from typing import TYPE_CHECKING

from torch.distributed import DistStoreError
from torch.distributed.distributed_c10d import PrefixStore

from s2s import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def check_collectives(store: PrefixStore, rank: int, size: int, name: str, seconds: float) -> None:
    """Raise ConfigError on all ranks unless all have collectives of the same `name`: others never find each other.

    Rank 0 raises last, since its process may host the store. Raises DistStoreError naming the ranks that are missing.
    """
    deadline = time.monotonic() + seconds
    store.set(f"collectives/{rank}", name)
    if rank == 0:
        _wait(store, "collectives", range(size), deadline)
        names = [store.get(f"collectives/{other}").decode() for other in range(size)]
        other = next((other for other in range(size) if names[other] != name), None)
        store.set("verdict/0", "" if other is None else _clash(other, name, names[other]))
    _wait(store, "verdict", [0], deadline)
    verdict = store.get("verdict/0").decode()
    store.set(f"read/{rank}", "")
    if verdict and rank == 0:
        _wait(store, "read", range(size), deadline)
    if verdict:
        raise ConfigError(verdict)


def _clash(rank: int, first: str, name: str) -> str:
    return (
        f"ranks 0 and {rank} were given different things: the collectives of their devices are {first} and {name}; "
        "give all ranks train.device=TYPE, a type that all machines have"
    )


def _wait(store: PrefixStore, key: str, ranks: Iterable[int], deadline: float) -> None:
    """Wait until each of the ranks has set its key."""
    missing = list(ranks)
    while missing := [rank for rank in missing if not store.check([f"{key}/{rank}"])]:
        _sleep(deadline, missing)


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
