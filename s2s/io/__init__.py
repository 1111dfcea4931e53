"""Files, threads and processes: atomic writes, locks, prefetching, workers, and the exit status of a process."""
