"""Kinds of arguments that scripts take: each reads a text or says what it takes, as argparse wants it."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from urllib.parse import urlsplit

_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_LEAST, _MOST = 1e-6, 1e6
_MOST_SECONDS = 366 * 86400.0
_LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
_HOST_PORT = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+):(\d{1,5})")


def factor(text: str) -> float:
    """A number over 0; not `nan` or `inf`, and of a size that makes sense."""
    number = float(text) if _NUMBER.fullmatch(text) else 0.0
    if not _LEAST <= number <= _MOST:
        raise ArgumentTypeError(f"{text}: takes a factor over 0, from {_LEAST:g} to {_MOST:g}")
    return number


def seconds(text: str) -> float:
    """A duration over 0, in seconds, without a unit."""
    number = float(text) if _NUMBER.fullmatch(text) else 0.0
    if not 0.001 <= number <= _MOST_SECONDS:
        raise ArgumentTypeError(f"{text}: takes seconds, a number from 0.001 to {_MOST_SECONDS:.0f}")
    return number


def seed(text: str) -> int:
    """A whole number of at least 0."""
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ArgumentTypeError(f"{text}: takes a whole number of at least 0")
    return int(text)


def port(text: str) -> int:
    """A port; 0 is any free one."""
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) > 65535:
        raise ArgumentTypeError(f"{text}: takes a port, from 0 (any free one) to 65535")
    return int(text)


def host_port(text: str) -> str:
    """`HOST:PORT` of something that listens."""
    match = _HOST_PORT.fullmatch(text)
    if match is None or not 0 < int(match[1]) <= 65535:
        raise ArgumentTypeError(f"{text}: takes HOST:PORT, such as 127.0.0.1:9836")
    return text


def url(text: str) -> str:
    """An address that can stand in a template of Prometheus and in a quoted text; ending slashes are cut off."""
    try:
        is_address = text.startswith(("http://", "https://")) and bool(urlsplit(text).hostname)
    except ValueError:
        is_address = False
    if not is_address or not text.isprintable() or any(sign in text for sign in " \"'`\\{}<>"):
        raise ArgumentTypeError(f"{text}: takes an address, http:// or https://, without spaces, quotes and braces")
    return text.rstrip("/")


def label(text: str) -> str:
    """The name of a label, as Prometheus takes it."""
    if not _LABEL.fullmatch(text):
        raise ArgumentTypeError(f"{text}: takes the name of a label, of letters, digits and _")
    return text


def labels(text: str) -> tuple[str, ...]:
    """Names of labels, joined by commas; none is none."""
    names = tuple(text.split(",")) if text else ()
    if not all(_LABEL.fullmatch(name) for name in names):
        raise ArgumentTypeError(f"{text}: takes names of labels, of letters, digits and _, joined by commas")
    if len(set(names)) != len(names):
        raise ArgumentTypeError(f"{text}: names a label twice")
    return names
