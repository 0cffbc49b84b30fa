"""Ports of processes, on a small /proc and on the real one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from pdscope.sources.nvml.processes import look

HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def process(
    proc: Path, pid: int, parent: int, name: str, *, sockets: Iterable[int] = (), namespace: str = "net:[1]"
) -> None:
    """A process with open sockets by inode, and no connections yet."""
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    (folder / "net").mkdir()
    (folder / "ns").mkdir()
    (folder / "ns" / "net").symlink_to(namespace)
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} {pid} {pid} 0 -1 4194560\n")
    (folder / "fd" / "0").symlink_to("/dev/null")
    (folder / "fd" / "1").symlink_to("pipe:[11]")
    for number, inode in enumerate(sockets, 3):
        (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
    (folder / "net" / "tcp").write_text(HEADER)


def listen(proc: Path, pid: int, ports: Mapping[int, int], *, name: str = "tcp", state: str = "0A") -> None:
    """Sockets, inode -> port, in the process's table."""
    address = "00000000" if name == "tcp" else "0" * 32
    rows = "".join(
        f"{row:4d}: {address}:{port:04X} {address}:0000 {state} 00000000:00000000 00:00000000 00000000"
        f"  1000        0 {inode} 1 0000000000000000 100 0 0 10 0\n"
        for row, (inode, port) in enumerate(ports.items())
    )
    path = proc / str(pid) / "net" / name
    path.write_text((path.read_text() if path.exists() else HEADER) + rows)


def test_ancestors(tmp_path: Path) -> None:
    """An engine's worker has the ports of the server that started it, and not those of a neighbour."""
    process(tmp_path, 1, 0, "init")
    process(tmp_path, 10, 1, "python3", sockets=(101, 102))
    process(tmp_path, 20, 10, "VLLM::EngineCor")
    process(tmp_path, 30, 20, "VLLM::Worker_TP")
    process(tmp_path, 40, 1, "another", sockets=(103,))
    for pid in (10, 20, 30, 40):
        listen(tmp_path, pid, {101: 8000, 102: 5557, 103: 9000})
    found = look([30, 40, 30], tmp_path)
    assert found.processes[30].ports == (5557, 8000)
    assert found.processes[30].name == "VLLM::Worker_TP"
    assert found.processes[40].ports == (9000,)
    assert found.hidden == found.absent == frozenset()


def test_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    """9000 before 10000, and each port once, though both tables have it."""
    process(tmp_path, 10, 0, "server", sockets=(1, 2, 3))
    listen(tmp_path, 10, {1: 10000, 2: 9000})
    listen(tmp_path, 10, {3: 9000}, name="tcp6")
    assert look([10], tmp_path).processes[10].ports == (9000, 10000)


def test_only_listening_sockets(tmp_path: Path) -> None:
    """A connection has a local port too."""
    process(tmp_path, 10, 0, "client", sockets=(1, 2))
    listen(tmp_path, 10, {1: 40000}, state="01")
    listen(tmp_path, 10, {2: 8000})
    assert look([10], tmp_path).processes[10].ports == (8000,)


def test_network_namespaces(tmp_path: Path) -> None:
    """Each container has tables of its own."""
    process(tmp_path, 10, 0, "a", sockets=(1,), namespace="net:[1]")
    process(tmp_path, 20, 0, "b", sockets=(1,), namespace="net:[2]")
    listen(tmp_path, 10, {1: 8000})
    listen(tmp_path, 20, {1: 9000})
    found = look([10, 20], tmp_path).processes
    assert (found[10].ports, found[20].ports) == ((8000,), (9000,))


@pytest.mark.parametrize("name", ["a b", "a) S 99 (b", "(", ""])
def test_names_with_parentheses(tmp_path: Path, name: str) -> None:
    """The name of a process may be anything."""
    process(tmp_path, 10, 0, "server", sockets=(1,))
    listen(tmp_path, 10, {1: 8000})
    process(tmp_path, 20, 10, name)
    found = look([20], tmp_path).processes[20]
    assert found.name == name
    assert found.ports == (8000,)


def test_processes_that_have_ended(tmp_path: Path) -> None:
    """They are known by their number."""
    process(tmp_path, 20, 10, "orphan")
    found = look([20, 99], tmp_path)
    assert found.processes[20].name == "orphan"
    assert found.processes[99].name == ""
    assert found.absent == {99}


def test_an_unreadable_stat(tmp_path: Path) -> None:
    """A process that ends while it is read."""
    process(tmp_path, 20, 10, "x")
    (tmp_path / "20" / "stat").write_text("")
    assert look([20], tmp_path).absent == {20}


def test_a_circle_of_parents(tmp_path: Path) -> None:
    """Numbers that are given anew may make one; the walk ends."""
    process(tmp_path, 10, 20, "a", sockets=(1,))
    process(tmp_path, 20, 10, "b")
    listen(tmp_path, 10, {1: 8000})
    assert look([20], tmp_path).processes[20].ports == (8000,)


def test_files_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without permission ports are unknown, unless a port was found elsewhere on the line."""
    process(tmp_path, 10, 0, "root's")
    process(tmp_path, 20, 10, "server", sockets=(1,))
    listen(tmp_path, 20, {1: 8000})
    process(tmp_path, 30, 10, "alone")
    listdir = os.listdir

    def guarded(folder: Path) -> list[str]:
        if folder == tmp_path / "10" / "fd":
            raise PermissionError(13, "Permission denied", str(folder))
        return listdir(folder)

    monkeypatch.setattr(os, "listdir", guarded)
    found = look([20, 30], tmp_path)
    assert found.processes[20].ports == (8000,)
    assert found.hidden == {30}


def test_this_process() -> None:
    """The real /proc, by a socket of this very process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = look([os.getpid()])
        assert server.getsockname()[1] in found.processes[os.getpid()].ports
