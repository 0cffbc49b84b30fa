"""What is said of the transfers where no verdict can be had."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.base import Case
from pdscope.diagnosis.transfer_wait import transfer_wait
from pdscope.model.signal import SignalId
from pdscope.model.topology import Slo
from support.signals import CALM, Changes, changed, deployment, signal_set

LATE = changed(CALM, {SignalId.TTFT_P50: 10.0, SignalId.TRANSFER_TIME: 5.0, SignalId.TRANSFER_TTFT_SHARE: 0.5})


def test_how_long_and_what_to_look_at() -> None:
    """The configured figure, or that there is none."""
    told = transfer_wait(Case(deployment(), signal_set(LATE)))
    assert told == "transfers take 5 s, 50 % of TTFT; check interconnect.bandwidth (by it the link carries 40 GB/s)"
    nothing = changed(LATE, {SignalId.LINK_CAPACITY: None})
    assert transfer_wait(Case(deployment(), signal_set(nothing))).endswith("; set interconnect.bandwidth")


@pytest.mark.parametrize(
    "changes",
    [
        {SignalId.TRANSFER_TTFT_SHARE: 0.19},
        {SignalId.TRANSFER_TTFT_SHARE: None},
        {SignalId.TRANSFER_TIME: None},
        {SignalId.TTFT_P50: 2.0},
        {SignalId.TTFT_P50: None},
    ],
)
def test_nothing_is_said_of_transfers_that_hurt_nobody(changes: Changes) -> None:
    """Or of which nothing is known."""
    assert transfer_wait(Case(deployment(), signal_set(changed(LATE, changes)))) == ""
    assert transfer_wait(Case(deployment(slo=Slo()), signal_set(LATE))) == ""
