"""Work in flight, queues, balance, idleness, failures."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.analysis.board import Board
from pdscope.analysis.work import put_failed_share, put_failures, put_roles_answering, put_work
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window
from support.windows import NOW, Column, deployment, instance, observed, ramp, rising, window

PAIR = deployment()


def signals(of: Deployment, windows: Mapping[str, Window]) -> SignalSet:
    board = Board(of.name)
    members = observed(of, windows)
    put_work(board, of, members)
    put_failures(board, members)
    return board.finish()


def known(found: SignalSet, signal: SignalId, name: str | None = None) -> Signal:
    one = found.get(signal, None if name is None else instance_scope(name))
    assert one is not None, signal
    return one


@pytest.mark.parametrize(
    ("role", "gauges", "work", "queued"),
    [
        (
            Role.PREFILL,
            {
                Metric.RUNNING: 2.0,
                Metric.WAITING_CAPACITY: 3.0,
                Metric.PREFILL_BOOTSTRAP_QUEUE: 5.0,
                Metric.PREFILL_TRANSFER_QUEUE: 7.0,
                Metric.DECODE_TRANSFER_QUEUE: 100.0,
            },
            17.0,
            15.0,
        ),
        (
            Role.DECODE,
            {
                Metric.RUNNING: 2.0,
                Metric.WAITING_CAPACITY: 3.0,
                Metric.DECODE_ALLOCATION_QUEUE: 5.0,
                Metric.DECODE_TRANSFER_QUEUE: 7.0,
                Metric.PREFILL_TRANSFER_QUEUE: 100.0,
            },
            17.0,
            15.0,
        ),
        # all that wait contain those that wait for capacity
        (Role.DECODE, {Metric.RUNNING: 2.0, Metric.WAITING: 9.0, Metric.WAITING_CAPACITY: 3.0}, 11.0, 9.0),
        (Role.UNIFIED, {Metric.RUNNING: 2.0, Metric.WAITING: 9.0}, 11.0, 9.0),
        # a worker that counts what it has accepted
        (Role.DECODE, {Metric.IN_FLIGHT: 40.0, Metric.RUNNING: 2.0}, 40.0, None),
        (Role.DECODE, {Metric.RUNNING: 2.0}, 2.0, None),
        (Role.DECODE, {Metric.WAITING: 4.0}, 4.0, 4.0),
    ],
)
def test_each_request_counts_once(role: Role, gauges: dict[Metric, Column], work: float, queued: float | None) -> None:
    """Running, or in one of the queues of its role."""
    of = deployment(instance("x", role))
    found = signals(of, {"x": window(gauges)})
    assert known(found, SignalId.WORK_IN_FLIGHT, "x").value == work
    assert found.value(SignalId.QUEUED) == queued


def test_work_is_the_mean_what_is_queued_the_newest() -> None:
    """Balance is judged over the window, idleness now."""
    found = signals(PAIR, {"d0": window({Metric.RUNNING: 0.0, Metric.WAITING: ramp(1.0)})})
    assert known(found, SignalId.WORK_IN_FLIGHT, "d0").value == 6.0
    assert known(found, SignalId.QUEUED).value == 12.0


def test_queues_of_all_instances() -> None:
    """Also what a router holds, which does no work of its own."""
    of = deployment(*PAIR.instances, instance("r0", Role.ROUTER))
    found = signals(
        of,
        {
            "p0": window({Metric.WAITING: 1.0}),
            "d0": window({Metric.WAITING: 2.0}),
            "r0": window({Metric.PREFILL_PENDING: 4.0, Metric.DECODE_PENDING: 8.0}),
        },
    )
    assert known(found, SignalId.QUEUED).value == 15.0
    assert found.get(SignalId.WORK_IN_FLIGHT, instance_scope("r0")) is None


def test_nobody_says_what_waits() -> None:
    """Unknown, so nothing can be called idle by it."""
    found = signals(PAIR, {"d0": window({Metric.KV_USAGE: 0.5})})
    assert found.get(SignalId.QUEUED) is None
    assert found.get(SignalId.WORK_IN_FLIGHT, instance_scope("d0")) is None


def test_gauges_of_an_engine_that_sleeps_are_not_believed() -> None:
    """They froze at its last batch; its idle time did not."""
    frozen: dict[Metric, Column] = {Metric.RUNNING: 6.0, Metric.WAITING: 4.0, Metric.HTTP_ACTIVE: 0.0}
    asleep = signals(PAIR, {"d0": window(frozen | {Metric.IDLE: rising(1.0)})})
    assert known(asleep, SignalId.WORK_IN_FLIGHT, "d0").value == 0.0
    assert "frozen" in known(asleep, SignalId.WORK_IN_FLIGHT, "d0").source
    assert known(asleep, SignalId.QUEUED).value == 0.0
    awake = signals(PAIR, {"d0": window(frozen | {Metric.IDLE: rising(0.1)})})
    assert known(awake, SignalId.WORK_IN_FLIGHT, "d0").value == 10.0
    assert "frozen" not in known(awake, SignalId.WORK_IN_FLIGHT, "d0").source
    assert known(awake, SignalId.QUEUED).value == 4.0


def test_a_worker_that_counts_what_it_has_accepted() -> None:
    """Over the window, as with the queues."""
    found = signals(PAIR, {"d0": window({Metric.IN_FLIGHT: ramp(1.0)})})
    assert known(found, SignalId.WORK_IN_FLIGHT, "d0").value == 6.0


def test_counts_are_measured() -> None:
    """And balance is derived from them."""
    found = signals(FOUR, {name: window({Metric.RUNNING: 1.0, Metric.WAITING: 1.0}) for name in ("d0", "d1")})
    for signal in (SignalId.WORK_IN_FLIGHT, SignalId.SCRAPES, SignalId.DATA_AGE):
        assert known(found, signal, "d0").quality is Quality.MEASURED
    assert known(found, SignalId.QUEUED).quality is Quality.MEASURED
    assert known(found, SignalId.ROLE_IMBALANCE).quality is Quality.DERIVED


# balance


def held(counts: Mapping[str, float], of: Deployment) -> float | None:
    return signals(of, {name: window({Metric.IN_FLIGHT: count}) for name, count in counts.items()}).value(
        SignalId.ROLE_IMBALANCE
    )


FOUR = deployment(
    instance("p0", Role.PREFILL),
    instance("p1", Role.PREFILL),
    instance("d0", Role.DECODE),
    instance("d1", Role.DECODE),
)


@pytest.mark.parametrize(
    ("counts", "ratio"),
    [
        ({"p0": 4.0, "p1": 4.0, "d0": 40.0, "d1": 40.0}, 1.0),
        ({"p0": 4.0, "p1": 4.0, "d0": 60.0, "d1": 20.0}, 3.0),
        ({"p0": 9.0, "p1": 1.0, "d0": 60.0, "d1": 20.0}, 9.0),
        ({"d0": 60.0, "d1": 0.0}, 60.0),
        ({"d0": 0.5, "d1": 0.0}, 0.5),
        ({"p0": 1.0, "d0": 60.0}, None),
    ],
)
def test_balance_within_a_role(counts: dict[str, float], ratio: float | None) -> None:
    """The largest over roles of max / max(min, 1); prefill and decode are never compared with each other."""
    assert held(counts, FOUR) == ratio


@given(st.lists(st.floats(0, 1000), min_size=2, max_size=2), st.lists(st.floats(0, 1000), min_size=2, max_size=2))
def test_balance_is_the_worse_of_both_roles(prefill: list[float], decode: list[float]) -> None:
    """Whatever the other role holds."""
    both = held({"p0": prefill[0], "p1": prefill[1], "d0": decode[0], "d1": decode[1]}, FOUR)
    alone = [held({"p0": prefill[0], "p1": prefill[1]}, FOUR), held({"d0": decode[0], "d1": decode[1]}, FOUR)]
    assert both == max(ratio for ratio in alone if ratio is not None)


# freshness


def test_scrapes_and_their_age() -> None:
    """Of every instance; one that never answered has none, and no age."""
    found = signals(PAIR, {"d0": window({Metric.RUNNING: 1}, end=NOW - 7)})
    assert known(found, SignalId.SCRAPES, "d0").value == 13.0
    assert known(found, SignalId.DATA_AGE, "d0").value == 7.0
    assert known(found, SignalId.SCRAPES, "p0").value == 0.0
    assert found.get(SignalId.DATA_AGE, instance_scope("p0")) is None


def test_scrapes_are_those_of_the_source_that_answered_most() -> None:
    """A page that was refused once does not make the other one thin."""
    board = Board("pd")
    put_work(board, PAIR, observed(PAIR, {"d0": [window(scrapes=2), window()]}))
    assert known(board.finish(), SignalId.SCRAPES, "d0").value == 13.0


# failures


def test_failures_of_both_kinds() -> None:
    """Transfers and bootstraps, by instance."""
    found = signals(
        PAIR,
        {
            "p0": window({Metric.TRANSFER_FAILURES: rising(0.5), Metric.BOOTSTRAP_FAILURES: rising(0.25)}),
            "d0": window(lazy=[Metric.TRANSFER_FAILURES]),
        },
    )
    rate = known(found, SignalId.FAILURES_PER_SECOND, "p0")
    assert (rate.value, rate.quality) == (0.75, Quality.MEASURED)
    assert rate.source == "rate of engine transfer_failures of p0 + rate of engine bootstrap_failures of p0"
    assert known(found, SignalId.FAILURES_PER_SECOND, "d0").value == 0.0


def test_an_engine_that_counts_no_failures() -> None:
    """May have any number of them."""
    assert (
        signals(PAIR, {"d0": window({Metric.RUNNING: 1})}).get(SignalId.FAILURES_PER_SECOND, instance_scope("d0"))
        is None
    )


def failed_share(
    rates: Mapping[str, float], served: float | None, recomputed: float | None = None, arrive: float | None = None
) -> Signal | None:
    """Of a board on which just these figures are."""
    board = Board(PAIR.name)
    for name, rate in rates.items():
        board.put(SignalId.FAILURES_PER_SECOND, rate, Quality.MEASURED, "", scope=instance_scope(name))
    board.put(SignalId.REQUESTS_PER_SECOND, served, Quality.MEASURED, "")
    board.put(SignalId.ARRIVALS_PER_SECOND, arrive, Quality.MEASURED, "")
    board.put(SignalId.RECOMPUTED_SHARE, recomputed, Quality.MEASURED, "", scope=instance_scope("d0"))
    put_failed_share(board, PAIR)
    return board.finish().get(SignalId.FAILED_SHARE)


@pytest.mark.parametrize(
    ("rates", "served", "recomputed", "share"),
    [
        ({"p0": 0.0, "d0": 0.0}, 4.0, None, 0.0),
        ({"d0": 1.0}, 3.0, None, 0.25),
        ({"p0": 1.0, "d0": 0.9}, 3.0, None, 0.25),  # the same requests on both sides
        ({"p0": 0.5, "d0": 1.0}, 0.0, None, 1.0),
        ({"d0": 1.0}, 3.0, 0.25, 0.0),  # computed again, and answered
        ({"d0": 1.0}, 3.0, 0.001, 0.249),  # the one token that decode computes of every prompt
    ],
)
def test_failed_requests_by_all_that_end(
    rates: dict[str, float], served: float, recomputed: float | None, share: float
) -> None:
    found = failed_share(rates, served, recomputed)
    assert found is not None
    assert found.value == pytest.approx(share)
    assert found.quality is Quality.DERIVED


@pytest.mark.parametrize(("rates", "served"), [({}, 4.0), ({"d0": 1.0}, None), ({"d0": 0.0}, 0.0)])
def test_no_share_of_nothing_and_none_of_what_nobody_counts(rates: dict[str, float], served: float | None) -> None:
    assert failed_share(rates, served) is None


def test_where_decode_is_gone_what_arrives_stands_for_all_that_ends() -> None:
    found = failed_share({"p0": 2.0}, None, arrive=2.5)
    assert found is not None
    assert (found.value, found.quality) == (pytest.approx(0.8), Quality.ESTIMATED)


@pytest.mark.parametrize(
    ("silent", "answers", "share"),
    [
        ({"p0": 0, "d0": 0}, {}, 1.0),
        ({"p0": 0, "d0": 2}, {"d0": 0}, 1.0),
        ({"p0": 0, "d0": 3}, {"d0": 0}, 0.5),
        ({"p0": 0, "d0": 9}, {"d0": 1}, 1.0),  # it serves, but has lost its telemetry
        ({"p0": 5, "d0": 5}, {"p0": 0, "d0": 0}, 0.0),
    ],
)
def test_roles_that_answer(silent: dict[str, float], answers: dict[str, float], share: float) -> None:
    board = Board(PAIR.name)
    for name, count in silent.items():
        board.put(SignalId.SILENT_SCRAPES, count, Quality.MEASURED, "", scope=instance_scope(name))
        board.put(SignalId.ANSWERS, answers.get(name, 1.0), Quality.MEASURED, "", scope=instance_scope(name))
    put_roles_answering(board, PAIR)
    assert known(board.finish(), SignalId.ROLES_ANSWERING).value == share


def test_of_what_was_recorded_nobody_knows_who_answers() -> None:
    board = Board(PAIR.name)
    put_roles_answering(board, PAIR)
    assert board.finish().get(SignalId.ROLES_ANSWERING) is None
