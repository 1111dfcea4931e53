"""Values come from processes that are copies of this one, or from threads, and their failures are reported."""

from __future__ import annotations

import itertools
import os
import select
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from harness.forked_children import in_child
from s2s import ConfigError, UserError
from s2s.backend.memory import AvailableMemory
from s2s.config import GenerateConfig
from s2s.decoding import SourceSentence
from s2s.generation import processes, workers
from s2s.generation.acceleration import share_cores, torch_threads
from s2s.generation.processes import n_useful_processes, run_in_processes
from s2s.generation.threads import run_in_threads
from s2s.generation.workers import describe_workers, resolve_workers
from s2s.io import end_with_parent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def squares(*numbers: int) -> Iterator[list[float]]:
    for n in numbers:
        yield [n * n + 0.1, os.getpid()]


def test_all_values_come_and_each_part_has_a_process_of_its_own() -> None:
    found = list(run_in_processes([lambda i=i: squares(*range(i, 40, 3)) for i in range(3)]))  # type: ignore[misc]
    assert sorted(value for value, _ in found) == [n * n + 0.1 for n in range(40)]
    assert len({pid for _, pid in found} | {os.getpid()}) == 4


def test_large_values_come_whole() -> None:
    assert [len(value) for value in run_in_processes([lambda: ["ü" * 300_000, "x"]])] == [300_000, 1]


def test_a_failure_is_told_with_its_place() -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise ValueError("no such symbol")

    with pytest.raises(RuntimeError, match="no such symbol"):
        list(run_in_processes([fails]))


def test_a_killed_process_is_told() -> None:
    def dies() -> Iterator[int]:
        os.kill(os.getpid(), signal.SIGKILL)
        yield 1

    with pytest.raises(RuntimeError, match="ended before its work was done"):
        list(run_in_processes([dies, lambda: [2]]))


def test_workers_end_when_their_values_are_no_longer_read() -> None:
    def forever() -> Iterator[int]:
        while True:
            yield os.getpid()

    values = run_in_processes([forever])
    pid = next(values)
    values.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.parametrize("tells", [end_with_parent, lambda _: None], ids=["Linux", "elsewhere"])
def test_workers_end_when_the_parent_is_killed(tells: Callable[[int], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """They would wait for a reader of more than a pipe holds, and keep the lock of the output."""
    monkeypatch.setattr(processes, "end_with_parent", tells)
    reading, writing = os.pipe()  # as long as one of the processes lives, it is open for writing

    def forever() -> Iterator[str]:
        while True:
            yield "x" * 100_000

    def works() -> None:
        os.close(reading)
        values = run_in_processes([forever] * 3)
        next(values)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(works) == -signal.SIGKILL
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert select.select([pipe], [], [], 20)[0], "one of them works on"


def test_workers_that_a_thread_has_started_outlive_it() -> None:
    values, first = run_in_processes([lambda: (i for i in range(5))] * 2), list[int]()
    thread = threading.Thread(target=lambda: first.append(next(values)))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert sorted([*first, *values]) == sorted([*range(5)] * 2)


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_processes_than_asked_for(most: int) -> None:
    assert 1 <= n_useful_processes(most, lambda: time.sleep(0.002)) <= most


CPU = torch.device("cpu")


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A machine of seven idle cores; gives the most processes that were tried on it."""
    most, before = list[int](), torch.get_num_threads()
    monkeypatch.setattr(workers, "n_useful_processes", lambda n, _: most.append(n) or n)
    monkeypatch.setattr(workers, "usable_cores", lambda: 7)
    torch.set_num_threads(3)
    yield most
    torch.set_num_threads(before)


def completed(device: torch.device = CPU, **options: Any) -> GenerateConfig:
    return share_cores(GenerateConfig(**options), device)


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "in.txt"
    path.write_text("a sentence of words\n" * 1000)
    return str(path)


def test_a_file_of_input_is_shared_by_all_idle_cores_where_nothing_is_said(cores: list[int], source: str) -> None:
    assert completed(input=source).n_processes == 7
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    "options",
    [
        {"threads": 1},
        {"threads": 2},
        {"workers": 1},
        {"backend": "ctranslate2"},
        {"input": "-"},
        {"precision": "bf16"},
        {"matmul": "torch"},
    ],
    ids=str,
)
def test_it_is_not_where_something_else_is_said(cores: list[int], source: str, options: dict[str, Any]) -> None:
    assert completed(**{"input": source} | options).n_processes == 1
    assert (cores, torch.get_num_threads()) == ([], 3)


def test_a_rank_of_several_keeps_to_itself(cores: list[int], source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert completed(input=source).n_processes == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "1")
    assert completed(input=source).n_processes == 7


def test_some_lines_are_searched_by_one_process(cores: list[int], tmp_path: Path) -> None:
    path = tmp_path / "in.txt"
    path.write_text("a sentence of words\n" * 100)
    assert completed(input=str(path)).n_processes == 1
    path.write_text("a sentence of words\n" * 101)
    assert completed(input=str(path)).n_processes == 2  # one for each 1,000 bytes


def test_threads_share_a_file_where_functions_in_c_search_it(cores: list[int], source: str) -> None:
    """One for each core, busy or not, since a thread that waits for a core costs nothing."""
    config = resolve_workers(GenerateConfig(input=source), "cpu", search_in_c=True)
    assert (config.n_processes, config.n_search_threads, cores) == (1, 7, [])


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"workers": 2}, (2, 1)), ({"workers": 0}, (7, 1)), ({"threads": 3}, (1, 3)), ({"input": "-"}, (1, 1))],
    ids=str,
)
def test_given_workers_are_processes_there_too(
    cores: list[int], source: str, options: dict[str, Any], expected: tuple[int, int]
) -> None:
    config = resolve_workers(GenerateConfig(**{"input": source} | options), "cpu", search_in_c=True)
    assert (config.n_processes, config.n_search_threads) == expected


def test_processes_are_no_default_where_a_fork_is_unsafe(
    cores: list[int], source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers.sys, "platform", "darwin")
    assert completed(input=source).n_processes == 1
    assert resolve_workers(GenerateConfig(input=source), "cpu", search_in_c=True).n_search_threads == 7


def test_a_gpu_is_not_shared(cores: list[int], source: str) -> None:
    assert completed(torch.device("cuda"), input=source).n_processes == 1
    assert cores == []


@pytest.mark.parametrize(("n_bytes", "n_processes"), [(2**29 * 3 + 1, 3), (2**29 * 2 - 1, 1), (2**40, 5)])
def test_no_more_search_at_a_time_than_memory_has_room_for(
    n_bytes: int, n_processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked once the weights are loaded; one process needs none beside it."""
    monkeypatch.setattr(workers, "available_memory", lambda: AvailableMemory(n_bytes, "the machine"))
    sentences = [SourceSentence(i, [3]) for i in range(100)]
    parts = workers._shares(sentences, 5)
    assert len(parts) == n_processes
    assert sorted(sentence.index for part in parts for sentence in part) == list(range(100))


def test_what_a_user_can_mend_is_told_as_such() -> None:
    def refuses() -> Iterator[int]:
        raise ConfigError("give a shorter input")
        yield 1

    with pytest.raises(UserError, match=r"^give a shorter input$"):
        list(run_in_processes([refuses]))


def test_all_values_come_and_each_part_has_a_thread_of_its_own() -> None:
    together = threading.Barrier(3, timeout=60)

    def part(i: int) -> Iterator[tuple[int, int]]:
        together.wait()
        for n in range(i, 40, 3):
            yield n, threading.get_ident()

    found = list(run_in_threads([lambda i=i: part(i) for i in range(3)]))  # type: ignore[misc]
    assert sorted(n for n, _ in found) == list(range(40))
    assert len({thread for _, thread in found} | {threading.get_ident()}) == 4


def test_a_failure_in_a_thread_is_raised_here_and_ends_the_others() -> None:
    n_given = 0

    def forever() -> Iterator[int]:
        nonlocal n_given
        while True:
            n_given += 1
            yield n_given

    def fails() -> Iterator[int]:
        yield 1
        raise ConfigError("give a shorter input")

    with pytest.raises(ConfigError, match=r"^give a shorter input$"):
        list(run_in_threads([forever, fails]))
    n_then = n_given
    time.sleep(0.05)
    assert n_given == n_then


def test_threads_end_when_the_values_are_no_longer_wanted() -> None:
    values, before = run_in_threads([itertools.count] * 2), threading.active_count()
    assert next(values) == 0
    assert threading.active_count() == before + 2
    values.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("options", "n_searching", "n_of_products", "said"),
    [
        ({"threads": 3}, 3, 1, "3 threads"),
        ({"threads": 1}, 1, 1, ""),
        ({}, 1, 1, ""),
        ({"threads": 3, "precision": "bf16"}, 1, 3, ""),
        ({"threads": 3, "matmul": "torch"}, 1, 3, ""),
        ({"threads": 3, "backend": "ctranslate2"}, 1, 3, ""),
        ({"workers": 4}, 1, 1, "4 processes"),
    ],
    ids=str,
)
def test_threads_search_where_an_output_does_not_depend_on_others(
    options: dict[str, Any], n_searching: int, n_of_products: int, said: str
) -> None:
    config = GenerateConfig(**options)
    before = torch.get_num_threads()
    with torch_threads(config, CPU):
        n_torch = torch.get_num_threads()
    torch.set_num_threads(before)
    assert (config.n_search_threads, n_torch, describe_workers(config)) == (n_searching, n_of_products, said)


def test_torch_keeps_its_threads_for_a_model_on_a_gpu() -> None:
    before = torch.get_num_threads()
    try:
        for device, n in ((CPU, 1), (torch.device("cuda"), 3)):
            with torch_threads(GenerateConfig(threads=3), device):
                assert torch.get_num_threads() == n
    finally:
        torch.set_num_threads(before)
