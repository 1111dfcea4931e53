"""A part of the store for the processes of one start alone, whatever earlier starts have left in it.

After a restart the keys of the start before are still there, and a group that finds them may hang. The number of the
restart does not tell them apart, since the agent of each machine counts its own. So the first process draws a name
and answers whoever asks for it; everybody asks under a word of his own, which no earlier answer fits.
"""

from __future__ import annotations

__all__ = ["private"]

import time
import uuid
from typing import TYPE_CHECKING

from torch.distributed import DistStoreError
from torch.distributed.distributed_c10d import PrefixStore

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

POLL = 0.02
"""Seconds between two looks"""


def private(store: Store, rank: int, size: int, seconds: float) -> PrefixStore:
    """The same store under a prefix that all `size` processes of this start know, and none of before.

    Whoever does not come within `seconds` is named in a DistStoreError.
    """
    meeting, until = PrefixStore("meeting", store), time.monotonic() + seconds
    name = _ask(meeting, rank, until) if rank else _answer(meeting, size, until)
    return PrefixStore(name, store)


def _ask(meeting: PrefixStore, rank: int, until: float) -> str:
    """The name that the first process gives."""
    word = uuid.uuid4().hex
    meeting.set(f"asks/{rank}", word)
    while not meeting.check([f"answer/{word}"]):
        _wait(until, [0])
    name = meeting.get(f"answer/{word}").decode()
    meeting.set(f"{name}/{rank}", "")
    return name


def _answer(meeting: PrefixStore, size: int, until: float) -> str:
    """A new name, once all others have it; what is asked may be a word of an earlier start, and is answered, too."""
    name = uuid.uuid4().hex
    answered: set[str] = set()
    missing = list(range(1, size))
    while missing:
        asked = [rank for rank in missing if meeting.check([f"asks/{rank}"])]
        words = {meeting.get(f"asks/{rank}").decode() for rank in asked} - answered
        for word in words:
            meeting.set(f"answer/{word}", name)
        answered |= words
        missing = [rank for rank in missing if not meeting.check([f"{name}/{rank}"])]
        if missing:
            _wait(until, missing)
    return name


def _wait(until: float, missing: list[int]) -> None:
    if time.monotonic() > until:
        raise DistStoreError(f"rank {', '.join(map(str, missing))} did not come to the start of the run")
    time.sleep(POLL)
