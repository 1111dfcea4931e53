from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import DistStoreError, HashStore

from s2s_distributed.rendezvous import private_store


def start(store: HashStore, size: int) -> set[str]:
    """The prefixes that the ranks of one start are given; the last ranks request first."""
    with ThreadPoolExecutor(size) as pool:
        found = list(pool.map(lambda rank: private_store(store, rank, size, 20), reversed(range(size))))
    for rank, one in enumerate(found):
        one.set(f"here/{rank}", "")
    assert all(one.check([f"here/{rank}" for rank in range(size)]) for one in found), "more than one prefix"
    return {key.partition("/")[0] for key in store.list_keys() if "/here/" in key}


@pytest.mark.parametrize("size", [2, 5])
def test_every_start_has_a_prefix_of_its_own(size: int) -> None:
    store = HashStore()
    for n_starts in (1, 2, 3, 4):
        assert len(start(store, size)) == n_starts


def test_a_request_of_an_earlier_start_does_not_count_as_joined() -> None:
    store = HashStore()
    start(store, 2)
    with pytest.raises(DistStoreError, match="rank 1 did not join"):
        private_store(store, 0, 2, 0.1)


def test_a_reply_to_an_earlier_start_is_not_taken_for_this_one() -> None:
    store = HashStore()
    start(store, 2)
    with pytest.raises(DistStoreError, match="rank 0 did not join"):
        private_store(store, 1, 2, 0.1)
