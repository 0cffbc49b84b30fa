"""The pulling end: runs a plan against a server and keeps the duration of every round."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from pdscope.errors import UsageError
from pdscope.probe.nixl import NixlPuller, check_nixl
from pdscope.probe.plan import WARM_UP_ROUNDS, Plan, Step
from pdscope.probe.result import Level, Result
from pdscope.probe.tcp import TcpPuller
from pdscope.probe.transport import Puller
from pdscope.probe.wire import (
    ProbeError,
    deadline_in,
    expect,
    proof,
    receive_message,
    send_message,
    text,
)

TRANSPORTS = ("nixl", "tcp")

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:\s]+)):(?P<port>[0-9]{1,5})")
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 15.0
_ROUND_SECONDS = 45.0
"""Less than a server waits for the next word."""

Progress = Callable[[Step, int], None]
"""Called before each counted round, with its number from 0."""


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server is, and what it wants to see.

    Attributes:
        host: name or address.
        port: of TCP.
        token: shared with it; empty: none.
    """

    host: str
    port: int
    token: bytes = b""

    @classmethod
    def at(cls, address: str, token: bytes = b"") -> Server:
        """Of `host:port`.

        Raises:
            UsageError: it is no such thing.
        """
        match = _ADDRESS.fullmatch(address)
        if match is None or not 1 <= int(match["port"]) <= 65535:
            raise UsageError(f"{address!r} is no address: write host:port, such as 10.0.0.1:9838")
        return cls(match["v6"] or match["host"], int(match["port"]), token)


def probe(server: Server, plan: Plan, transport: str, on_round: Progress = lambda _step, _number: None) -> Result:
    """Run all steps of a plan.

    Args:
        server: to pull from.
        plan: what to pull.
        transport: `nixl` or `tcp`.
        on_round: told of each round before it begins.

    Raises:
        UsageError: the transport is not installed.
        ProbeError: the server cannot be reached, refuses, or the transfer fails.
    """
    if transport == "nixl":
        check_nixl()
    try:
        with ExitStack() as stack:
            control, nonce = _connect(server)
            stack.enter_context(control)
            order = {
                "kind": "open",
                "transport": transport,
                "region_bytes": plan.region_bytes,
                "max_bytes": plan.total_bytes,
                "proof": proof(server.token, nonce) if server.token else "",
            }
            opened = _ask(control, order, "opened")
            puller = stack.enter_context(closing(_puller(server, plan, transport, opened)))
            levels = tuple(_run(step, control, puller, on_round) for step in plan.steps)
            send_message(control, {"kind": "end"}, deadline_in(_ANSWER_SECONDS))
            return Result(transport, levels, plan.wanted_blocks)
    except OSError as error:
        raise ProbeError(f"{server.host}:{server.port}: {error.strerror or error}") from error


def _run(step: Step, control: socket.socket, puller: Puller, on_round: Progress) -> Level:
    """The rounds of one step, as many as its time allows, and at least one."""
    puller.prepare(step)
    for _ in range(WARM_UP_ROUNDS):
        _round(step, control, puller)
    puller.check(step)
    end = time.monotonic() + step.seconds
    seconds: list[float] = []
    while len(seconds) < step.rounds and (not seconds or time.monotonic() < end):
        on_round(step, len(seconds))
        seconds.append(_round(step, control, puller))
    return Level(step.name, step.block_bytes, step.blocks, step.in_flight, tuple(seconds))


def _round(step: Step, control: socket.socket, puller: Puller) -> float:
    _ask(control, {"kind": "pull", "bytes": step.round_bytes}, "go")
    return puller.pull(step, deadline_in(_ROUND_SECONDS))


def _puller(server: Server, plan: Plan, transport: str, opened: Mapping[str, Any]) -> Puller:
    if transport == "nixl":
        details = opened.get("details")
        if not isinstance(details, dict):
            raise ProbeError("details must be a mapping")
        return NixlPuller(details, plan.region_bytes)
    return TcpPuller(partial(_join, server, text(opened, "session")), plan.region_bytes)


def _join(server: Server, session: str) -> socket.socket:
    """One data connection."""
    with ExitStack() as stack:
        connection, _ = _connect(server)
        stack.enter_context(connection)
        _ask(connection, {"kind": "join", "session": session}, "joined")
        stack.pop_all()
        return connection


def _connect(server: Server) -> tuple[socket.socket, str]:
    """A connection, and the server's nonce."""
    with ExitStack() as stack:
        connection = socket.create_connection((server.host, server.port), timeout=_CONNECT_SECONDS)
        stack.enter_context(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        hello = receive_message(connection, deadline_in(_CONNECT_SECONDS))
        expect(hello, "hello")
        nonce = text(hello, "nonce")
        stack.pop_all()
        return connection, nonce


def _ask(connection: socket.socket, message: Mapping[str, object], answer: str) -> Mapping[str, Any]:
    deadline = deadline_in(_ANSWER_SECONDS)
    send_message(connection, message, deadline)
    received = receive_message(connection, deadline)
    expect(received, answer)
    return received
