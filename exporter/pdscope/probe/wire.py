"""What the two ends say to each other: small JSON messages behind a header of magic, version and length.

Every length is checked before anything is allocated, and every wait has an end. Nothing is ever unpickled.
"""

from __future__ import annotations

import hmac
import json
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any, Final

from pdscope.errors import PdscopeError

VERSION: Final = 1
MAX_BODY_BYTES: Final = 256 * 1024
_MAGIC: Final = b"PDSL"
_HEADER: Final = struct.Struct("!4sHI")
_SHOWN: Final = 200


class ProbeError(PdscopeError):
    """The other end, or the way to it, does not do what a probe needs."""


def deadline_in(seconds: float) -> float:
    """A moment of the monotonic clock."""
    return time.monotonic() + seconds


def send_message(connection: socket.socket, message: Mapping[str, object], deadline: float) -> None:
    """Send one message.

    Raises:
        OSError: it could not be sent by `deadline`.
    """
    body = json.dumps(message).encode()
    connection.settimeout(_left(deadline))
    connection.sendall(_HEADER.pack(_MAGIC, VERSION, len(body)) + body)


def receive_message(connection: socket.socket, deadline: float) -> Mapping[str, Any]:
    """Receive one message.

    Raises:
        ProbeError: it is none, or the other end reports an error.
        OSError: it has not come by `deadline`, or the connection is lost.
    """
    header = bytearray(_HEADER.size)
    receive_into(connection, memoryview(header), deadline)
    magic, version, length = _HEADER.unpack(header)
    if magic != _MAGIC:
        raise ProbeError("the other end does not speak the protocol of probe-link")
    if version != VERSION:
        raise ProbeError(f"the other end speaks version {version} of the protocol, this one version {VERSION}")
    if length > MAX_BODY_BYTES:
        raise ProbeError(f"a message of {length} B is too long")
    body = bytearray(length)
    receive_into(connection, memoryview(body), deadline)
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise ProbeError("a message is no JSON") from None
    if not isinstance(message, dict):
        raise ProbeError("a message is no mapping")
    if message.get("kind") == "error":
        raise ProbeError(f"the other end says: {printable(message.get('why'))}")
    return message


def receive_into(connection: socket.socket, target: memoryview, deadline: float) -> None:
    """Fill `target`.

    Raises:
        OSError: it is not full by `deadline`, or the connection ends before.
    """
    while target:
        connection.settimeout(_left(deadline))
        count = connection.recv_into(target)
        if not count:
            raise ConnectionError("the other end has closed the connection")
        target = target[count:]


def expect(message: Mapping[str, Any], kind: str) -> None:
    """Refuse a message of another kind.

    Raises:
        ProbeError: it is one.
    """
    if message.get("kind") != kind:
        raise ProbeError(f"expected {kind}, got {printable(message.get('kind'))}")


def text(message: Mapping[str, Any], key: str) -> str:
    """A text of a message; all of them are ASCII.

    Raises:
        ProbeError: it is missing or none.
    """
    value = message.get(key)
    if not isinstance(value, str) or not value.isascii():
        raise ProbeError(f"{key} must be text in ASCII")
    return value


def whole(message: Mapping[str, Any], key: str, low: int, high: int) -> int:
    """A whole number of a message, within bounds.

    Raises:
        ProbeError: it is missing, none or out of them.
    """
    value = message.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ProbeError(f"{key} must be a whole number from {low} to {high}")
    return value


def proof(token: bytes, nonce: str) -> str:
    """What only a holder of `token` can answer to `nonce`; the token itself never crosses the network."""
    return hmac.new(token, nonce.encode(), "sha256").hexdigest()


def printable(value: object) -> str:
    """What a stranger wrote, cut short and fit for one line of a terminal."""
    plain = isinstance(value, str) and value.isascii() and value.isprintable()
    return (str(value) if plain else ascii(value))[:_SHOWN]


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left
