"""The model: what must hold whatever the traffic, and what each scenario is there to show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import mean, median
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdscope.demo.scenario import SCENARIOS, Scenario, Workload
from pdscope.demo.simulation import Simulation
from pdscope.demo.timeline import Request

if TYPE_CHECKING:
    from conftest import Rig

WINDOW_SECONDS = 30.0

scenarios = st.builds(
    lambda link, rate, limit: replace(
        SCENARIOS["healthy"],
        link_bytes_per_second=link,
        workload=Workload(arrivals_per_second=rate, concurrency_limit=limit),
    ),
    st.floats(1e9, 20e9),
    st.floats(0.5, 8.0),
    st.integers(1, 60),
)
seeds = st.integers(0, 2**32)


@settings(max_examples=8)
@given(scenarios, seeds)
def test_every_request_is_in_exactly_one_place_on_each_side(rig: type[Rig], scenario: Scenario, seed: int) -> None:
    """And the two sides agree on where."""
    run = rig(scenario, seed)
    for tenth in range(200):
        run.simulation.advance(tenth / 10)
        prefill, decode = run.simulation.prefill.state(), run.simulation.decode.state()
        population = run.simulation.population
        assert 0 <= population <= scenario.workload.concurrency_limit
        assert decode.allocating + decode.transferring + decode.ready + decode.running == population
        assert prefill.bootstrapping == decode.allocating
        assert prefill.waiting + prefill.running + prefill.inflight == decode.transferring
        assert run.simulation.arrived - run.simulation.refused - len(run.decode_log.answers) == population


@settings(max_examples=8)
@given(scenarios, seeds)
def test_pools_hold_what_requests_need(rig: type[Rig], scenario: Scenario, seed: int) -> None:
    """Whole pages of every request with memory, and never more than there is."""
    run = rig(scenario, seed)
    pool = scenario.machines.pool_tokens
    for second in range(20):
        run.simulation.advance(float(second))
        prefill, decode = run.simulation.prefill.state(), run.simulation.decode.state()
        assert prefill.held_tokens + prefill.cached_tokens <= pool
        assert decode.pending_tokens <= decode.held_tokens <= pool
        running = decode.held_tokens - decode.pending_tokens
        assert decode.context_tokens <= running < decode.context_tokens + 64 * max(decode.running, 1)


@settings(max_examples=8)
@given(scenarios, seeds)
def test_the_link_never_carries_more_than_its_bandwidth(rig: type[Rig], scenario: Scenario, seed: int) -> None:
    """A transfer follows the one before it, and its own prefill, by at least the time that its bytes take."""
    run = rig(scenario, seed)
    run.simulation.advance(30.0)
    transfers = run.prefill_log.transfers
    for request in transfers:
        needed = request.kv_bytes / scenario.link_bytes_per_second
        assert request.transferred_at - request.prefill_finished_at >= needed - 1e-9
    for before, after in pairwise(transfers):
        needed = after.kv_bytes / scenario.link_bytes_per_second
        assert after.transferred_at - before.transferred_at >= needed - 1e-9


@settings(max_examples=8)
@given(scenarios, seeds)
def test_stages_follow_one_another(rig: type[Rig], scenario: Scenario, seed: int) -> None:
    """No stage of an answered request begins before the one that it waits for has ended."""
    run = rig(scenario, seed)
    run.simulation.advance(30.0)
    for request in run.decode_log.answers:
        times = (
            *(request.arrived_at, request.queued_at, request.handshaken_at, request.allocated_at),
            *(request.prefill_started_at, request.prefill_finished_at, request.transferred_at),
            *(request.joined_at, request.first_token_at, request.finished_at),
        )
        assert list(times) == sorted(times)
        assert request.generated_tokens == request.output_tokens


@settings(max_examples=8)
@given(scenarios, seeds, st.lists(st.floats(0, 20)))
def test_how_time_is_cut_changes_nothing(rig: type[Rig], scenario: Scenario, seed: int, stops: Sequence[float]) -> None:
    """A page at 20 s is the same text however often the simulation was asked before."""
    once, often = rig(scenario, seed), rig(scenario, seed)
    once.simulation.advance(20.0)
    for stop in sorted(stops):
        often.simulation.advance(stop)
    often.simulation.advance(20.0)
    assert [server.metrics() for server in often.servers] == [server.metrics() for server in once.servers]


def test_the_seed_decides() -> None:
    """Another seed is other traffic."""
    counts = set()
    for seed in range(5):
        simulation = Simulation(SCENARIOS["healthy"], seed)
        simulation.advance(60.0)
        counts.add((simulation.arrived, simulation.decode.state()))
    assert len(counts) == 5


def test_scenarios_ask_the_same_of_different_links(long_run: Callable[[str], Rig]) -> None:
    """They differ in the link alone."""
    healthy, slow = SCENARIOS["healthy"], SCENARIOS["slow-link"]
    assert (healthy.workload, healthy.machines) == (slow.workload, slow.machines)
    prompts = [
        {request.number: request.prompt_tokens for request in long_run(name).prefill_log.accepted_requests}
        for name in ("healthy", "slow-link")
    ]
    shared = prompts[0].keys() & prompts[1].keys()
    assert len(shared) > 1000
    assert all(prompts[0][number] == prompts[1][number] for number in shared)


def test_traffic_is_as_described(long_run: Callable[[str], Rig]) -> None:
    """Three prompts a second of 4000 tokens, answers of 180, one in ten not streamed."""
    run = long_run("healthy")
    requests = run.prefill_log.accepted_requests
    assert run.simulation.arrived / 660 == pytest.approx(3.0, rel=0.1)
    assert mean(request.prompt_tokens for request in requests) == pytest.approx(4000, rel=0.05)
    assert mean(request.output_tokens for request in requests) == pytest.approx(180, rel=0.05)
    assert mean(request.is_streaming for request in requests) == pytest.approx(0.9, abs=0.03)


@pytest.mark.parametrize("name", SCENARIOS)
def test_littles_law_holds_for_the_transfer(rig: type[Rig], name: str) -> None:
    """Mean number in transfer = rate x mean time, each measured on its own."""
    run = rig(SCENARIOS[name])
    run.simulation.advance(60.0)
    before = len(run.prefill_log.transfers)
    counts = []
    for tick in range(1, 30_001):
        run.simulation.advance(60.0 + tick * 0.02)
        counts.append(run.simulation.prefill.state().inflight)
    transfers = run.prefill_log.transfers[before:]
    mean_seconds = mean(request.transferred_at - request.prefill_finished_at for request in transfers)
    assert mean(counts) == pytest.approx(len(transfers) / 600 * mean_seconds, rel=0.05)


def windows(run: Rig) -> list[list[Request]]:
    """Admitted requests by the window of their first token, after a minute of filling up."""
    starts = [60.0 + WINDOW_SECONDS * place for place in range(20)]
    return [
        [request for request in run.decode_log.admissions if start <= request.first_token_at < start + WINDOW_SECONDS]
        for start in starts
    ]


def ttft_p50_seconds(requests: Sequence[Request]) -> float:
    return median(request.first_token_at - request.arrived_at for request in requests)


def link_share(run: Rig, requests: Sequence[Request]) -> float:
    return sum(request.kv_bytes for request in requests) / WINDOW_SECONDS / run.scenario.link_bytes_per_second


def step_p50_seconds(run: Rig) -> float:
    return median(step.seconds for step in run.decode_log.steps)


def test_healthy_keeps_its_promises_in_every_window(long_run: Callable[[str], Rig]) -> None:
    """TTFT far under 2 s, ITL far under 40 ms, a link nearly empty, nobody turned away."""
    run = long_run("healthy")
    for requests in windows(run):
        assert ttft_p50_seconds(requests) < 1.0
        assert link_share(run, requests) < 0.1
    assert 0.018 < step_p50_seconds(run) < 0.026
    assert run.simulation.refused == 0
    busy = sum(batch.seconds for batch in run.prefill_log.done_batches) / 660
    assert 0.3 < busy < 0.7


def test_slow_link_breaks_ttft_and_nothing_else_in_every_window(long_run: Callable[[str], Rig]) -> None:
    """The link is full, the wait for it is most of TTFT, ITL is that of the healthy deployment."""
    run = long_run("slow-link")
    for requests in windows(run):
        assert ttft_p50_seconds(requests) > 2.0
        assert link_share(run, requests) > 0.9
        waits = [request.transferred_at - request.prefill_finished_at for request in requests]
        assert median(waits) > 0.8 * ttft_p50_seconds(requests)
    assert step_p50_seconds(run) == pytest.approx(step_p50_seconds(long_run("healthy")), rel=0.05)
    assert run.simulation.refused > 0


def test_slow_link_queues_on_the_link_and_stays_bounded(rig: type[Rig]) -> None:
    """Nothing waits for prefill or for decode's memory, and the gateway's limit is the bound."""
    run = rig(SCENARIOS["slow-link"], seed=1)
    inflight, waiting = [], []
    for second in range(60, 660):
        run.simulation.advance(float(second))
        prefill = run.simulation.prefill.state()
        inflight.append(prefill.inflight)
        waiting.append(prefill.waiting + prefill.bootstrapping)
    assert mean(inflight) > 8
    assert max(inflight) <= SCENARIOS["slow-link"].workload.concurrency_limit
    assert mean(waiting) < 1


def test_scenarios_are_described_in_one_line() -> None:
    """The terminal shows title and description."""
    for name, scenario in SCENARIOS.items():
        assert scenario.name == name
        assert scenario.title
        assert "watch" in scenario.description
        assert "\n" not in scenario.description


def test_the_router_asks_both_legs_at_once(long_run: Callable[[str], Rig]) -> None:
    """Every request that the gateway lets in reaches both instances, in the same order."""
    run = long_run("healthy")
    assert run.prefill_log.accepted_requests == run.decode_log.accepted_requests
    assert len(run.decode_log.accepted_requests) == run.simulation.arrived - run.simulation.refused
