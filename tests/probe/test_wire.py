"""Messages of strangers."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.probe.wire import ProbeError, deadline_in, printable, proof, receive_message, send_message, text, whole


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        yield left, right


def frame(body: bytes, magic: bytes = b"PDSL", version: int = 1, length: int | None = None) -> bytes:
    return struct.pack("!4sHI", magic, version, len(body) if length is None else length) + body


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5)


@given(st.dictionaries(st.text().filter(lambda key: key != "kind"), JSON, max_size=5))
def test_what_is_sent_arrives(message: dict[str, object]) -> None:
    left, right = socket.socketpair()
    with left, right:
        send_message(left, message, deadline_in(5))
        assert receive_message(right, deadline_in(5)) == message


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "does not speak the protocol"),
        (frame(b"{}", version=7), "version 7"),
        (frame(b"", length=2**32 - 1), "too long"),
        (frame(b"\x80\x04."), "no JSON"),
        (frame(b"[" * 100_000), "no JSON"),
        (frame(b"9" * 5000), "no JSON"),
        (frame(b"[]"), "no mapping"),
        (frame(json.dumps({"kind": "error", "why": "no\x1b[31m"}).encode()), r"the other end says: 'no\\x1b\[31m'"),
    ],
)
def test_what_is_no_message_is_told(ends: tuple[socket.socket, socket.socket], data: bytes, why: str) -> None:
    ends[0].sendall(data)
    with pytest.raises(ProbeError, match=why):
        receive_message(ends[1], deadline_in(5))


def test_silence_and_a_lost_connection_are_os_errors(ends: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(TimeoutError):
        receive_message(ends[1], deadline_in(0))
    ends[0].sendall(frame(b"{}")[:5])
    with pytest.raises(TimeoutError):
        receive_message(ends[1], deadline_in(0.01))
    ends[0].close()
    with pytest.raises(ConnectionError):
        receive_message(ends[1], deadline_in(5))


@pytest.mark.parametrize("value", [None, True, 0, 11, 1.0, "1", 10**30])
def test_numbers_have_bounds(value: object) -> None:
    with pytest.raises(ProbeError, match="blocks must be a whole number from 1 to 10"):
        whole({"blocks": value}, "blocks", 1, 10)


@pytest.mark.parametrize("value", [None, 1, "\ud800", "é"])
def test_texts_are_ascii(value: object) -> None:
    with pytest.raises(ProbeError, match="session must be text"):
        text({"session": value}, "session")


def test_a_proof_depends_on_token_and_nonce() -> None:
    assert len({proof(b"a", "1"), proof(b"a", "2"), proof(b"b", "1")}) == 3
    assert len(printable("x" * 1000)) == 200
