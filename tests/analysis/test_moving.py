"""What crosses the link while something is in flight, what it takes at least of TTFT, and the time of a piece."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.handover import put_handover
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet
from pdscope.model.topology import Deployment, Interconnect, Role
from support.windows import deployment, instance, observed

Changes = Mapping[SignalId, float | None]
LINK = Interconnect(10e9, efficiency=0.8)
FACTS: Mapping[SignalId, float] = {
    SignalId.KV_ACHIEVED: 0.4e9,
    SignalId.LINK_CAPACITY: 8e9,
    SignalId.TRANSFER_IN_FLIGHT: 0.1,
    SignalId.KV_BYTES_PER_REQUEST: 8e8,
    SignalId.TTFT_MEAN: 0.5,
}
"""Of a pair that could have 8 GB/s: one transfer of 0.8 GB every two seconds."""
PAGED = deployment(
    instance("p0", Role.PREFILL, tp=1, page_tokens=16), instance("d0", Role.DECODE, tp=1), interconnect=LINK
)


def known(found: SignalSet, signal: SignalId) -> Signal:
    one = found.get(signal)
    assert one is not None, signal
    return one


def handed_over(changes: Changes | None = None, of: Deployment = PAGED) -> SignalSet:
    """What follows from these figures; None takes one away."""
    board = Board(of.name)
    for signal, value in {**FACTS, **(changes or {})}.items():
        board.put(signal, value, Quality.MEASURED, "test")
    put_handover(board, of, observed(of, {}))
    return board.finish()


@pytest.mark.parametrize(
    ("facts", "share"),
    [
        ({}, 0.5),
        ({SignalId.TRANSFER_IN_FLIGHT: 1.0}, 0.05),
        ({SignalId.TRANSFER_IN_FLIGHT: 20.0}, 0.05),
        ({SignalId.REQUESTS_PER_SECOND: 0.5, SignalId.TRANSFER_TIME: 0.4}, 0.25),
        ({SignalId.REQUESTS_PER_SECOND: 0.5, SignalId.TRANSFER_TIME: 0.1}, 1.0),
        ({SignalId.REQUESTS_PER_SECOND: 0.5, SignalId.TRANSFER_TIME: 0.4, SignalId.TRANSFER_IN_FLIGHT: None}, 0.25),
        ({SignalId.REQUESTS_PER_SECOND: 0.5, SignalId.TRANSFER_TIME: 0.4, SignalId.TRANSFER_IN_FLIGHT: 0.0}, 0.25),
        ({SignalId.REQUESTS_PER_SECOND: 0.5, SignalId.TRANSFER_TIME: 4.0}, 0.05),
        ({SignalId.LINK_CAPACITY: 4e9}, 1.0),
    ],
    ids=[
        "it rests nine tenths of the time",
        "it never rests",
        "many share it",
        "more by rate and time than by the gauge",
        "one that is quick while it is alone",
        "no gauge",
        "a gauge that saw none",
        "rate and time of more than one",
        "the link is less than the pair",
    ],
)
def test_moving(facts: Changes, share: float) -> None:
    """The rate while anything is under way, by what carries it."""
    found = known(handed_over(facts), SignalId.MOVING_SHARE)
    assert found.value == pytest.approx(share)
    assert found.quality is Quality.DERIVED


@pytest.mark.parametrize(("flying", "share"), [(0.5, 0.1), (1.5, 0.8 / 12), (2.0, 0.05), (9.0, 0.05)])
def test_as_many_pairs_carry_as_there_are_transfers(flying: float, share: float) -> None:
    """One transfer never has more than its pair, and all of them never more than the link."""
    moved = 0.8e9 if flying >= 1 else 0.4e9
    facts = {SignalId.KV_ACHIEVED: moved, SignalId.LINK_CAPACITY: 16e9, SignalId.TRANSFER_IN_FLIGHT: flying}
    found = handed_over(facts)
    assert found.value(SignalId.MOVING_SHARE) == pytest.approx(share)


@pytest.mark.parametrize(
    "facts",
    [
        {SignalId.KV_ACHIEVED: None},
        {SignalId.KV_ACHIEVED: 0.0},
        {SignalId.LINK_CAPACITY: None},
        {SignalId.TRANSFER_IN_FLIGHT: None},
        {SignalId.TRANSFER_IN_FLIGHT: 0.0},
        {SignalId.TRANSFER_IN_FLIGHT: None, SignalId.REQUESTS_PER_SECOND: 1.0},
        {SignalId.TRANSFER_IN_FLIGHT: None, SignalId.TRANSFER_TIME: 1.0},
    ],
)
def test_nothing_is_said_of_what_does_not_move(facts: Changes) -> None:
    """No bytes, no capacity, or nobody knows how much is in flight."""
    assert handed_over(facts).get(SignalId.MOVING_SHARE) is None
    assert handed_over(of=deployment(*PAGED.instances)).get(SignalId.MOVING_SHARE) is None


@pytest.mark.parametrize(
    ("facts", "share"),
    [
        ({}, 0.2),
        ({SignalId.TTFT_MEAN: 0.05}, 2.0),
        ({SignalId.TRANSFER_IN_FLIGHT: 4.0}, 0.8),
        ({SignalId.TRANSFER_IN_FLIGHT: 4.0, SignalId.LINK_CAPACITY: 64e9}, 0.2),
        ({SignalId.TRANSFER_IN_FLIGHT: None, SignalId.REQUESTS_PER_SECOND: 4.0, SignalId.TRANSFER_TIME: 0.5}, 0.4),
        ({SignalId.TRANSFER_IN_FLIGHT: None}, 0.2),
        ({SignalId.TTFT_MEAN: None}, None),
        ({SignalId.KV_BYTES_PER_REQUEST: None}, None),
        ({SignalId.LINK_CAPACITY: None}, None),
    ],
    ids=[
        "alone",
        "short TTFT",
        "four share it",
        "room for four",
        "by rate and time",
        "no gauge",
        "no TTFT",
        "no bytes",
        "no link",
    ],
)
def test_least_share_of_ttft(facts: Changes, share: float | None) -> None:
    """What the bytes of a request take at its share of a link at its full rate, whether or not anything moves."""
    still: Changes = {SignalId.KV_ACHIEVED: None}
    for moving in ({}, still):
        value = handed_over({**facts, **moving}).value(SignalId.LINK_FLOOR_SHARE)
        assert value == (None if share is None else pytest.approx(share))


@pytest.mark.parametrize(
    ("of", "facts", "seconds"),
    [
        (PAGED, {}, 65_536 / 4e9),
        (PAGED, {SignalId.TRANSFER_IN_FLIGHT: 9.0}, 65_536 / 0.4e9),
        (PAGED, {SignalId.LINK_CAPACITY: None}, 65_536 / 4e9),
        (
            deployment(
                *(instance(f"p{n}", Role.PREFILL, tp=4, page_tokens=16) for n in range(2)),
                *(instance(f"d{n}", Role.DECODE, tp=2, page_tokens=16) for n in range(3)),
            ),
            {SignalId.TRANSFER_IN_FLIGHT: 9.0},
            65_536 / 4 * 2 * 2 / 0.4e9,
        ),
    ],
    ids=["alone", "many on one pair", "no capacity", "two ranks on two pairs"],
)
def test_time_of_a_piece(of: Deployment, facts: Changes, seconds: float) -> None:
    """On one rank: ranks and pairs post at the same time, and no link is needed to know how fast."""
    found = known(handed_over(facts, of), SignalId.DESCRIPTOR_TIME)
    assert found.value == pytest.approx(seconds)
    assert found.quality is Quality.ESTIMATED


def test_no_time_of_a_piece() -> None:
    """Where its size is unknown, where nothing moves, and without two sides."""
    assert handed_over(of=deployment(interconnect=LINK)).get(SignalId.DESCRIPTOR_TIME) is None
    assert handed_over({SignalId.KV_ACHIEVED: None}).get(SignalId.DESCRIPTOR_TIME) is None
    lonely = deployment(instance("p0", Role.PREFILL, page_tokens=16), interconnect=LINK)
    assert handed_over(of=lonely).get(SignalId.DESCRIPTOR_TIME) is None
