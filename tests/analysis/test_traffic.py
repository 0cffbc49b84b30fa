"""How much is asked and served, each figure on one role."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.traffic import put_traffic, total_rate
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import Window
from support.windows import INF, NAN, NOW, VLLM, deployment, histogram, instance, observed, ramp, rising, window

PAIR = deployment()
ROUTED = deployment(*PAIR.instances, instance("r0", Role.ROUTER))


def signals(of: Deployment, windows: Mapping[str, Window]) -> SignalSet:
    board = Board(of.name)
    put_traffic(board, of, observed(of, windows))
    return board.finish()


def known(found: SignalSet, signal: SignalId) -> Signal:
    one = found.get(signal)
    assert one is not None, signal
    return one


def test_prefill_and_decode_count_the_same_request_once() -> None:
    """Each of them sees every request; users are served by decode."""
    found = signals(
        PAIR,
        {
            "p0": window({Metric.REQUESTS_FINISHED: rising(7.0), Metric.GENERATED_TOKENS: rising(7.0)}),
            "d0": window({Metric.REQUESTS_FINISHED: rising(5.0), Metric.GENERATED_TOKENS: rising(900.0)}),
        },
    )
    assert known(found, SignalId.REQUESTS_PER_SECOND).value == 5.0
    assert known(found, SignalId.REQUESTS_PER_SECOND).quality is Quality.MEASURED
    assert known(found, SignalId.REQUESTS_FINISHED).value == 300.0
    assert known(found, SignalId.GENERATION_TOKENS_PER_SECOND).value == 900.0
    assert known(found, SignalId.GENERATION_TOKENS_PER_SECOND).quality is Quality.MEASURED


def test_prefill_alone_serves_nobody() -> None:
    """Its one token a request is no generation, and what it finishes is not what users got."""
    counters = {Metric.REQUESTS_FINISHED: rising(7.0), Metric.GENERATED_TOKENS: rising(7.0)}
    found = signals(PAIR, {"p0": window(counters)})
    assert found.get(SignalId.REQUESTS_PER_SECOND) is None
    assert found.get(SignalId.GENERATION_TOKENS_PER_SECOND) is None


def test_instances_of_a_role_add_up() -> None:
    """All that decode."""
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE), instance("u0", Role.UNIFIED))
    found = signals(
        of, {name: window({Metric.REQUESTS_FINISHED: rising(rate)}) for name, rate in {"d0": 2.0, "u0": 3.0}.items()}
    )
    one = known(found, SignalId.REQUESTS_PER_SECOND)
    assert one.value == 5.0
    assert one.source == "rate of engine requests_finished of d0 and 1 more"


def test_a_router_stands_in_for_engines_that_count_nothing() -> None:
    """Not quite the same: it counts answers, errors among them."""
    found = signals(
        ROUTED, {"r0": window({Metric.REQUESTS_FINISHED: rising(4.0), Metric.GENERATED_TOKENS: rising(100.0)})}
    )
    for signal in (SignalId.REQUESTS_PER_SECOND, SignalId.REQUESTS_FINISHED, SignalId.GENERATION_TOKENS_PER_SECOND):
        assert known(found, signal).quality is Quality.DERIVED


def test_total_of_nothing_is_unknown() -> None:
    """A role without the counter is not at zero."""
    members = observed(PAIR, {"d0": window({Metric.RUNNING: 1})})
    assert total_rate(members, Metric.REQUESTS_FINISHED, Role.DECODE) is None
    assert total_rate(members, Metric.REQUESTS_FINISHED) is None


def test_the_total_is_as_old_as_its_oldest_part() -> None:
    """A sum of an old and a new figure is old."""
    of = deployment(instance("d0", Role.DECODE), instance("d1", Role.DECODE))
    counter = {Metric.REQUESTS_FINISHED: rising(1.0)}
    total = total_rate(
        observed(of, {"d0": window(counter, end=NOW - 20), "d1": window(counter)}),
        Metric.REQUESTS_FINISHED,
        Role.DECODE,
    )
    assert total is not None
    assert (total.per_second, total.age_seconds) == (2.0, 20.0)


# arrivals


def test_arrivals_are_the_routers_where_it_counts_them() -> None:
    """Under overload more than what any engine finishes."""
    found = signals(
        ROUTED,
        {
            "r0": window({Metric.REQUESTS_ARRIVED: rising(114.0)}),
            "p0": window({Metric.REQUESTS_FINISHED: rising(84.0)}),
            "d0": window({Metric.REQUESTS_FINISHED: rising(80.0)}),
        },
    )
    arrivals = known(found, SignalId.ARRIVALS_PER_SECOND)
    assert (arrivals.value, arrivals.quality) == (114.0, Quality.MEASURED)


def test_without_a_router_arrivals_are_what_prefill_takes_on() -> None:
    """A request that has not left yet has arrived all the same: finishes plus the growth of the transfer queue."""
    found = signals(
        PAIR,
        {
            "p0": window({Metric.REQUESTS_FINISHED: rising(5.0), Metric.PREFILL_TRANSFER_QUEUE: ramp(2.0)}),
            "d0": window({Metric.REQUESTS_FINISHED: rising(5.0)}),
        },
    )
    arrivals = known(found, SignalId.ARRIVALS_PER_SECOND)
    assert arrivals.value == pytest.approx(5.4)
    assert arrivals.quality is Quality.DERIVED
    assert "growth" in arrivals.source


def test_a_transfer_queue_that_drains() -> None:
    """More leave than come; fewer than none cannot come."""
    for finished, expected in ((5.0, 4.6), (0.0, 0.0)):
        counters = {Metric.REQUESTS_FINISHED: rising(finished), Metric.PREFILL_TRANSFER_QUEUE: ramp(-2.0, 24.0)}
        found = signals(PAIR, {"p0": window(counters)})
        assert known(found, SignalId.ARRIVALS_PER_SECOND).value == pytest.approx(expected)


def test_a_transfer_queue_that_was_seen_once_has_not_grown() -> None:
    """As far as anybody knows."""
    queue = [NAN] * 12 + [40.0]
    found = signals(PAIR, {"p0": window({Metric.REQUESTS_FINISHED: rising(5.0), Metric.PREFILL_TRANSFER_QUEUE: queue})})
    assert known(found, SignalId.ARRIVALS_PER_SECOND).value == 5.0


def test_an_engine_that_finishes_before_the_transfer_needs_no_growth() -> None:
    """Its finishes are its arrivals, whatever is in transfer."""
    of = deployment(instance("p0", Role.PREFILL, VLLM), instance("d0", Role.DECODE, VLLM))
    counters = {Metric.REQUESTS_FINISHED: rising(5.0), Metric.PREFILL_TRANSFER_QUEUE: ramp(2.0)}
    found = signals(of, {"p0": window(counters)})
    assert known(found, SignalId.ARRIVALS_PER_SECOND).value == 5.0


def test_a_prefill_that_counts_arrivals_only() -> None:
    """They are as good, and hold what waits."""
    found = signals(
        PAIR, {"p0": window({Metric.REQUESTS_ARRIVED: rising(6.0), Metric.PREFILL_TRANSFER_QUEUE: ramp(2.0)})}
    )
    assert known(found, SignalId.ARRIVALS_PER_SECOND).value == 6.0


def test_for_lack_of_arrivals_what_is_served() -> None:
    """An estimate: under overload it is too low."""
    found = signals(PAIR, {"d0": window({Metric.REQUESTS_FINISHED: rising(5.0)})})
    arrivals = known(found, SignalId.ARRIVALS_PER_SECOND)
    assert (arrivals.value, arrivals.quality) == (5.0, Quality.ESTIMATED)


def test_arrivals_of_nothing_are_unknown() -> None:
    """Not zero."""
    assert signals(PAIR, {"d0": window({Metric.RUNNING: 1})}).get(SignalId.ARRIVALS_PER_SECOND) is None


# prompt length


LENGTHS = (100.0, 1000.0, 10_000.0, INF)


def test_prompt_length_is_decodes() -> None:
    """Exact, by the sum; prefill's and the router's are not asked."""
    found = signals(
        ROUTED,
        {
            name: window(histograms={Metric.PROMPT_LENGTH: histogram(LENGTHS, [length] * 4)})
            for name, length in {"p0": 50.0, "d0": 4000.0, "r0": 70.0}.items()
        },
    )
    length = known(found, SignalId.PROMPT_TOKENS_PER_REQUEST)
    assert (length.value, length.quality, length.samples) == (4000.0, Quality.MEASURED, 4)


@pytest.mark.parametrize(
    ("name", "quality"), [("d0", Quality.MEASURED), ("r0", Quality.MEASURED), ("p0", Quality.DERIVED)]
)
def test_prompt_length_of_whoever_knows_it(name: str, quality: Quality) -> None:
    """Prefill's is worth less: some prompts never pass it."""
    lengths = window(histograms={Metric.PROMPT_LENGTH: histogram(LENGTHS, [4000.0, 5000.0])})
    length = known(signals(ROUTED, {name: lengths}), SignalId.PROMPT_TOKENS_PER_REQUEST)
    assert (length.value, length.quality) == (4500.0, quality)


def test_prompt_length_by_two_counters() -> None:
    """Tokens by requests, of the same role."""
    found = signals(
        PAIR,
        {
            "p0": window({Metric.PROMPT_TOKENS: rising(9e9)}),
            "d0": window({Metric.PROMPT_TOKENS: rising(8000.0), Metric.REQUESTS_FINISHED: rising(2.0)}),
        },
    )
    length = known(found, SignalId.PROMPT_TOKENS_PER_REQUEST)
    assert (length.value, length.quality) == (4000.0, Quality.DERIVED)


def test_prompt_length_of_a_single_request() -> None:
    """One is enough for a mean."""
    counters = {Metric.PROMPT_TOKENS: rising(3000 / 60), Metric.REQUESTS_FINISHED: rising(1 / 60)}
    length = known(signals(PAIR, {"d0": window(counters)}), SignalId.PROMPT_TOKENS_PER_REQUEST)
    assert length.value == pytest.approx(3000.0)


@pytest.mark.parametrize("finished", [rising(0.0), [NAN] * 13])
def test_prompt_length_of_no_request(finished: list[float]) -> None:
    """Nothing finished, or nobody counts: unknown."""
    found = signals(PAIR, {"d0": window({Metric.PROMPT_TOKENS: rising(8000.0), Metric.REQUESTS_FINISHED: finished})})
    assert found.get(SignalId.PROMPT_TOKENS_PER_REQUEST) is None
