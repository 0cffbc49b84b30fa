"""One remedy of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.model.finding import Verdict
from pdscope.model.topology import Role


@dataclass(frozen=True, slots=True)
class Entry:
    """What to do, what it costs, and when it helps.

    Attributes:
        action: what to do, without the spelling of an engine.
        cost: what it takes away.
        precondition: what has to be true for it to help; what the case tells is checked before it is offered.
        at: roles of the programs that have the setting; a unified engine has those of both roles. None: it is done
            elsewhere, and no program spells it.
        adds_instances: it adds prefill or decode.
        futile_while: verdicts beside which it is never offered: it would ask more of what is full, or hide it.
        undoes: remedies that it works against, said on one side of each pair; the two are never offered together.
    """

    action: str
    cost: str
    precondition: str
    at: tuple[Role, ...] = ()
    adds_instances: bool = False
    futile_while: frozenset[Verdict] = frozenset()
    undoes: frozenset[str] = frozenset()


PREFILL = (Role.PREFILL,)
DECODE = (Role.DECODE,)
BOTH = (Role.PREFILL, Role.DECODE)
ROUTER = (Role.ROUTER,)
EVERYWHERE = (Role.PREFILL, Role.DECODE, Role.ROUTER)

LINK_FULL = frozenset({Verdict.KV_TRANSFER_BANDWIDTH})
"""More prefill or decode only asks more of a link that is full."""

LEASE_IS_NOT_SHORT = frozenset({Verdict.DECODE_ADMISSION, Verdict.DECODE_KV_CAPACITY, Verdict.KV_PINNED})
"""A longer deadline in front of a decode at its limit hides the queue, and pins prompts that nobody fetches longer."""
