"""Which server a process on a device belongs to: the TCP ports on which it or an ancestor of it listens.

An engine computes in workers that its HTTP server has started, so the ports are found up the line of parents. Processes
that have gone meanwhile and sockets that may not be seen are ordinary.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pdscope.sources.nvml.snapshot import Process

_PROC: Final = Path("/proc")
_MOST_ANCESTORS: Final = 64
"""No line of parents is as long; process numbers that are used anew while it is walked could make a circle."""
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")
# sl local_address rem_address st tx:rx tr:tm->when retrnsmt uid timeout inode; state 0A listens
_LISTENING: Final = re.compile(
    rb"^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A (?:\S+ +){5}(\d+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class ProcessMap:
    """What is known of processes, by pid.

    Attributes:
        hidden: pids without a port, where some sockets on the way may not be seen.
        absent: pids that /proc does not have: they have ended, or belong to another pid namespace.
    """

    processes: dict[int, Process] = field(default_factory=dict)
    hidden: frozenset[int] = frozenset()
    absent: frozenset[int] = frozenset()


@dataclass(slots=True)
class _Seen:
    """What one look has read so far: processes share ancestors and network namespaces."""

    own_ports: dict[int, frozenset[int]] = field(default_factory=dict)
    listening: dict[str, dict[int, int]] = field(default_factory=dict)
    hidden: set[int] = field(default_factory=set)


def look(pids: Iterable[int], root: Path = _PROC) -> ProcessMap:
    """Names and ports of processes; one that cannot be read has its pid only. `root` is where /proc is mounted."""
    seen = _Seen()
    processes: dict[int, Process] = {}
    hidden, absent = set[int](), set[int]()
    for pid in sorted(set(pids)):
        line = list(_line_of_parents(pid, root))
        ports = frozenset[int]().union(*(_own_ports(ancestor, root, seen) for ancestor, _ in line))
        processes[pid] = Process(pid, line[0][1] if line else "", tuple(sorted(ports)))
        if not line:
            absent.add(pid)
        elif not ports and any(ancestor in seen.hidden for ancestor, _ in line):
            hidden.add(pid)
    return ProcessMap(processes, frozenset(hidden), frozenset(absent))


def _line_of_parents(pid: int, root: Path) -> Iterator[tuple[int, str]]:
    """The process and its ancestors with their names, as far as they can be read."""
    for _ in range(_MOST_ANCESTORS):
        if pid <= 0:
            return
        try:
            stat = (root / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        # The name stands in parentheses and may hold parentheses and spaces itself.
        name, _, rest = stat.partition("(")[2].rpartition(")")
        fields = rest.split()
        if len(fields) < 2 or not fields[1].isdecimal():
            return
        yield pid, name
        pid = int(fields[1])


def _own_ports(pid: int, root: Path, seen: _Seen) -> frozenset[int]:
    """Ports of the listening sockets that the process itself holds."""
    if pid not in seen.own_ports:
        try:
            sockets = set(_sockets(root / str(pid) / "fd"))
            listening = _listening(pid, root, seen) if sockets else {}
        except PermissionError:
            seen.hidden.add(pid)
            sockets, listening = set(), {}
        except OSError:  # it has ended
            sockets, listening = set(), {}
        seen.own_ports[pid] = frozenset(port for inode, port in listening.items() if inode in sockets)
    return seen.own_ports[pid]


def _sockets(folder: Path) -> Iterator[int]:
    """Inodes of the sockets among the open files."""
    for name in os.listdir(folder):  # noqa: PTH208 - a Path for each of thousands of files costs more than the look
        try:
            target = os.readlink(f"{folder}/{name}")  # noqa: PTH115 - likewise
        except FileNotFoundError:  # closed meanwhile
            continue
        if match := _SOCKET.fullmatch(target):
            yield int(match[1])


def _listening(pid: int, root: Path, seen: _Seen) -> dict[int, int]:
    """Inode -> port of all listening sockets of the process's network namespace."""
    folder = root / str(pid)
    try:
        namespace = str((folder / "ns" / "net").readlink())
    except OSError:  # not even told where other users' processes live; their sockets may be readable all the same
        namespace = str(pid)
    if namespace not in seen.listening:
        found: dict[int, int] = {}
        for name in ("tcp", "tcp6"):
            try:
                table = (folder / "net" / name).read_bytes()
            except FileNotFoundError:  # a kernel without IPv6
                continue
            found.update((int(inode), int(port, 16)) for port, inode in _LISTENING.findall(table))
        seen.listening[namespace] = found
    return seen.listening[namespace]
