"""Whether threads can be started, as under ulimit -v and -u they may not: sentencepiece would then end the process."""

from __future__ import annotations

__all__ = ["check_threads"]

from threading import Event, Thread


def check_threads(n: int) -> None:
    """Raise MemoryError unless `n` threads can run at the same time; they are started, and end at once."""
    over, threads = Event(), list[Thread]()
    try:
        for _ in range(n if n > 1 else 0):
            thread = Thread(target=over.wait, daemon=True)
            thread.start()
            threads.append(thread)
    except RuntimeError as error:
        what = f"{n} threads of sentencepiece cannot be started ({error})"
        raise MemoryError(f"{what}: allow more addresses (ulimit -v) or processes (ulimit -u)") from None
    finally:
        over.set()
        for thread in threads:
            thread.join()
