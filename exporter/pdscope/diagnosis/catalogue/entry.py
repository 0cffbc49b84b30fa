"""One remedy of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.model.finding import Verdict


@dataclass(frozen=True, slots=True)
class Entry:
    """What to do, what it costs, and when it helps.

    Attributes:
        action: what to do, without the spelling of an engine.
        cost: what it takes away.
        precondition: what has to be true for it to help; what the case tells is checked before it is offered.
        adds_instances: it adds prefill or decode.
        futile_while: verdicts beside which it is never offered: it would ask more of what is full, or hide it.
    """

    action: str
    cost: str
    precondition: str
    adds_instances: bool = False
    futile_while: frozenset[Verdict] = frozenset()


LINK_FULL = frozenset({Verdict.KV_TRANSFER_BANDWIDTH})
"""More prefill or decode only asks more of a link that is full."""

DECODE_FULL = frozenset({Verdict.DECODE_ADMISSION, Verdict.DECODE_KV_CAPACITY})
"""A longer deadline in front of a decode at its limit only hides the queue."""
