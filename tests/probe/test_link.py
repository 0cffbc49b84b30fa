"""Both ends over 127.0.0.1: real sockets, few bytes, and strangers who do not keep to the protocol."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from pdscope.errors import UsageError
from pdscope.probe.client import Server, probe
from pdscope.probe.plan import Blocks, Plan, make_plan
from pdscope.probe.server import Limits, ProbeServer
from pdscope.probe.wire import ProbeError, deadline_in, proof, receive_into, receive_message, send_message

SMALL = make_plan(Blocks(1024, 64), max_bytes=4 * 2**20, seconds=0.2, streams=3)
OPEN = {"kind": "open", "transport": "tcp", "region_bytes": 4096, "max_bytes": 4096, "proof": ""}


@contextmanager
def serving(limits: Limits | None = None, token: bytes = b"") -> Iterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = ProbeServer(listener, limits=limits or Limits(), token=token)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield Server("127.0.0.1", port, token)
    finally:
        server.stop()
        thread.join(10)
        assert not thread.is_alive()


@contextmanager
def dialled(server: Server) -> Iterator[tuple[socket.socket, str]]:
    with socket.create_connection((server.host, server.port), timeout=5) as connection:
        hello = receive_message(connection, deadline_in(5))
        assert hello["kind"] == "hello"
        yield connection, hello["nonce"]


def say(connection: socket.socket, message: dict[str, object]) -> dict[str, Any]:
    send_message(connection, message, deadline_in(5))
    return dict(receive_message(connection, deadline_in(5)))


def succeeds(server: Server, plan: Plan = SMALL) -> None:
    """The server still serves. The client before may not be gone yet, so a busy server is asked again."""
    for _ in range(1000):
        try:
            assert probe(server, plan, "tcp").bytes_per_second > 0
        except ProbeError as error:
            if "busy" not in str(error):
                raise
        else:
            return
    pytest.fail("the server stays busy")


def test_a_probe_measures() -> None:
    """One request at a time, several, coarser blocks; within the bytes and with a word before every round."""
    told = []
    with serving() as server:
        result = probe(server, SMALL, "tcp", lambda step, number: told.append((step.name, number)))
    assert [(level.name, level.in_flight) for level in result.levels] == [
        ("single", 1),
        ("aggregate", 3),
        ("coarse", 1),
    ]
    assert [level.block_bytes for level in result.levels] == [1024, 1024, 8192]
    assert sum(level.total_bytes for level in result.levels) < SMALL.total_bytes <= 4 * 2**20
    assert all(second > 0 for level in result.levels for second in level.seconds)
    assert len(told) == sum(len(level.seconds) for level in result.levels)


def test_time_ends_a_step_but_not_before_its_first_round() -> None:
    plan = make_plan(Blocks(1024, 64), max_bytes=4 * 2**20, seconds=1e-9, streams=2)
    with serving() as server:
        assert [len(level.seconds) for level in probe(server, plan, "tcp").levels] == [1, 1, 1]


def test_one_client_after_another_but_not_two() -> None:
    with serving() as server:
        with dialled(server) as (first, _):
            assert say(first, OPEN)["kind"] == "opened"
            with pytest.raises(ProbeError, match="busy with another client"):
                probe(server, SMALL, "tcp")
        succeeds(server)


def test_the_server_has_a_cap_of_its_own() -> None:
    with (
        serving(Limits(max_bytes=2**20)) as server,
        pytest.raises(ProbeError, match="more than the 1048576 B that this server lets go"),
    ):
        probe(server, SMALL, "tcp")


def test_the_token_must_be_shared() -> None:
    """It proves itself against a fresh nonce: an answer heard before is worth nothing."""
    with serving(token=b"secret") as server:
        for wrong in (b"", b"guess"):
            with pytest.raises(ProbeError, match="the token is not that of this server"):
                probe(Server(server.host, server.port, wrong), SMALL, "tcp")
        with dialled(server) as (_, heard), dialled(server) as (second, nonce):
            assert heard != nonce
            with pytest.raises(ProbeError, match="the token is not"):
                say(second, OPEN | {"proof": proof(b"secret", heard)})
        succeeds(server)


def raw(body: bytes) -> bytes:
    return struct.pack("!4sHI", b"PDSL", 1, len(body)) + body


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n" + b"x" * 5000, "does not speak the protocol"),
        (struct.pack("!4sHI", b"PDSL", 2, 0), "version 2"),
        (struct.pack("!4sHI", b"PDSL", 1, 2**32 - 1), "too long"),
        (raw(b"\xff"), "no JSON"),
        (raw(b'{"kind": "shutdown"}'), "expected open"),
        (raw(b'{"kind": "join", "session": "\\ud800"}'), "session must be text"),
        (raw(b'{"kind": "join", "session": "00"}'), "no such session"),
        *(
            (raw(json.dumps(OPEN | changed).encode()), why)
            for changed, why in (
                ({"region_bytes": 2**40}, "region_bytes must be a whole number"),
                ({"region_bytes": -1}, "region_bytes must be a whole number"),
                ({"max_bytes": 2**62}, "lets go"),
                ({"max_bytes": None}, "max_bytes must be a whole number"),
                ({"transport": "rdma\n"}, r"no transport 'rdma\\n'; there are tcp, nixl"),
                ({"transport": 1}, "transport must be text"),
            )
        ),
    ],
)
def test_a_stranger_is_told_and_the_server_goes_on(data: bytes, why: str) -> None:
    with serving() as server:
        with dialled(server) as (connection, _):
            connection.sendall(data)
            with pytest.raises(ProbeError, match=why):
                receive_message(connection, deadline_in(5))
        succeeds(server)


def test_silent_clients_are_hung_up_on() -> None:
    """Before they have said what they want, and after."""
    with serving(Limits(handshake_seconds=0.05)) as server, dialled(server) as (connection, _):
        assert connection.recv(1) == b""
    with serving(Limits(idle_seconds=0.05)) as server, dialled(server) as (connection, _):
        assert say(connection, OPEN)["kind"] == "opened"
        assert connection.recv(1) == b""
    with serving(Limits(session_seconds=0.05)) as server, dialled(server) as (connection, _):
        assert say(connection, OPEN)["kind"] == "opened"
        assert connection.recv(1) == b""


def test_no_byte_more_than_granted() -> None:
    """Neither more pulls than announced, nor more bytes than a pull has asked for, nor blocks that are none."""
    with serving() as server, dialled(server) as (control, _):
        session = say(control, OPEN)["session"]
        for blocks, size in ((1, 1), (1, 0), (0, 1), (1, 4097), (2**62, 1)):
            with dialled(server) as (data, _):
                assert say(data, {"kind": "join", "session": session})["kind"] == "joined"
                data.sendall(struct.pack("!QQ", size, blocks))
                assert data.recv(1) == b"", "nothing was granted"
        assert say(control, {"kind": "pull", "bytes": 4096})["kind"] == "go"
        with dialled(server) as (data, _):
            say(data, {"kind": "join", "session": session})
            data.sendall(struct.pack("!QQ", 1024, 4))
            receive_into(data, memoryview(bytearray(4096)), deadline_in(5))
            data.sendall(struct.pack("!QQ", 1, 1))
            assert data.recv(1) == b"", "all is spent"
        with pytest.raises(ProbeError, match="1 B are more than the 0 B that are left"):
            say(control, {"kind": "pull", "bytes": 1})


def test_a_session_that_ends_breaks_off_its_streams() -> None:
    with serving() as server, dialled(server) as (data, _):
        with dialled(server) as (control, _):
            session = say(control, OPEN)["session"]
            assert say(data, {"kind": "join", "session": session})["kind"] == "joined"
            send_message(control, {"kind": "end"}, deadline_in(5))
            assert control.recv(1) == b""
        assert data.recv(1) == b""
        with dialled(server) as (late, _), pytest.raises(ProbeError, match="no such session"):
            say(late, {"kind": "join", "session": session})


@contextmanager
def impostor(*answers: bytes) -> Iterator[Server]:
    """A server that gives the same answers to whoever comes first."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(ConnectionError):  # the client may leave before it has read all
                connection.sendall(b"".join(answers))
                connection.settimeout(5)
                while connection.recv(65536):
                    pass

        thread = threading.Thread(target=answer)
        thread.start()
        yield Server("127.0.0.1", listener.getsockname()[1])
        thread.join(10)


HELLO = raw(b'{"kind": "hello", "nonce": "00"}')


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ((b"SSH-2.0-OpenSSH_9.2\r\n",), "does not speak"),
        ((raw(b'{"kind": "hello"}'),), "nonce must be text"),
        ((HELLO, raw(b'{"kind": "go"}')), "expected opened, got go"),
        ((HELLO, raw(b'{"kind": "opened"}')), "session must be text"),
    ],
)
def test_the_client_believes_nothing(answers: tuple[bytes, ...], why: str) -> None:
    with impostor(*answers) as server, pytest.raises(ProbeError, match=why):
        probe(server, SMALL, "tcp")


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ProbeError, match=f"127.0.0.1:{port}: Connection refused"):
        probe(Server("127.0.0.1", port), SMALL, "tcp")


@pytest.mark.parametrize("address", ["host", "host:0", "host:65536", ":9838", "a b:1", "::1:9838"])
def test_addresses(address: str) -> None:
    with pytest.raises(UsageError, match="write host:port"):
        Server.at(address)
    assert Server.at("[::1]:9838") == Server("::1", 9838)
