"""What is said of the transfers where no verdict can be had: how long they take, and what to look at."""

from __future__ import annotations

from pdscope.diagnosis.base import Case
from pdscope.model.finding import Truth
from pdscope.model.signal import SignalId
from pdscope.model.units import format_quantity

_COUNTS = 0.2
"""Share of TTFT from which a stage counts, as in the rules on the transfer."""


def transfer_wait(case: Case) -> str:
    """One clause where a TTFT that is over is spent in transfers to a good part; else empty."""
    share, seconds = (case.signals.value(s) for s in (SignalId.TRANSFER_TTFT_SHARE, SignalId.TRANSFER_TIME))
    if share is None or seconds is None or share < _COUNTS or case.broken("ttft") is not Truth.TRUE:
        return ""
    capacity = case.signals.value(SignalId.LINK_CAPACITY)
    advice = (
        "set interconnect.bandwidth"
        if capacity is None
        else f"check interconnect.bandwidth (by it the link carries {_text(SignalId.LINK_CAPACITY, capacity)})"
    )
    took, part = _text(SignalId.TRANSFER_TIME, seconds), _text(SignalId.TRANSFER_TTFT_SHARE, share)
    return f"transfers take {took}, {part} of TTFT; {advice}"


def _text(signal: SignalId, value: float) -> str:
    return format_quantity(value, signal.unit)
