"""The addresses on which a command's processes listen, according to the kernel, and a free port."""

from __future__ import annotations

import socket
from pathlib import Path

IPV4_LOOPBACK = "0100007F"
LOOPBACK = {IPV4_LOOPBACK, "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
"""127.0.0.1, ::1 and ::ffff:127.0.0.1, as /proc/net writes them"""


def family(pid: int) -> list[int]:
    """A process, its children, and theirs."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in family(int(child)))]


def listening(pid: int) -> set[str]:
    """Addresses, in the kernel's hexadecimal, on which a process accepts TCP connections."""
    sockets = {str(file.readlink()) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()}
    tables = (Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:] for table in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table]
    return {row[1].partition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


def free_port() -> int:
    """A TCP port of this machine on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
