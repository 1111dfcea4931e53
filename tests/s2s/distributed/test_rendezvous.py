from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import DistStoreError, HashStore, PrefixStore

from s2s.errors import ConfigError
from s2s_distributed.rendezvous import check_collectives, private_store


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


def test_ranks_with_other_collectives_are_named_before_they_would_wait_for_each_other() -> None:
    def join(rank: int, name: str) -> str:
        try:
            check_collectives(private_store(store, rank, 3, 20), rank, 3, name, 20)
        except ConfigError as error:
            return str(error)
        return ""

    for names, said in ((["gloo"] * 3, ""), (["gloo", "gloo", "nccl"], "ranks 0 and 2 were given different things")):
        store = HashStore()
        with ThreadPoolExecutor(3) as pool:
            (message,) = set(pool.map(join, range(3), names))
        assert message.startswith(said)
        assert bool(message) == bool(said)


def test_a_rank_that_does_not_say_what_collectives_it_has_is_named() -> None:
    with pytest.raises(DistStoreError, match="rank 1 did not join"):
        check_collectives(PrefixStore("x", HashStore()), 0, 2, "gloo", 0.1)
