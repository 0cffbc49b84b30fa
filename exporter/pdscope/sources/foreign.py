"""Texts that pages state: what a stranger has written enters the model in a form that harms nobody who reads it."""

from __future__ import annotations

_MAX_LENGTH = 256
"""Names of hosts and pods have up to 253 characters."""
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def tame(text: str) -> str:
    """The text without what a terminal or a log would take for an order, and no longer than a name may be.

    Control characters, line breaks of every kind and characters that turn the direction of writing are replaced, not
    dropped: two names stay two, and the reader sees that something was there.
    """
    shown = text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"
    return shown if shown.isprintable() else "".join(c if c.isprintable() else _REPLACEMENT for c in shown)
