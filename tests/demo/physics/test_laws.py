"""Laws that hold in every draw: Little's, conservation of bytes and tokens, and the roofline of the devices."""

from __future__ import annotations

from math import isclose, isnan

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pdscope.demo.physics.draw import Decode, Deployment, Draw, Engine, Frontend, Link, Prefill, Traffic
from pdscope.demo.physics.observer import DecodeSteps, Observer
from pdscope.demo.physics.request import End, Request
from pdscope.demo.physics.simulation import Simulation
from pdscope.demo.physics.transfer import padded

SECONDS = 12.0

LINKS = st.builds(
    Link,
    nic_bytes_per_second=st.sampled_from([None, 2e8, 2e9]),
    path_bytes_per_second=st.sampled_from([None, None, 4e8]),
    shared_bytes_per_second=st.sampled_from([None, None, 3e9]),
    page_tokens=st.sampled_from([1, 16, 64]),
    handshake_seconds=st.floats(0.0, 1.0),
    threads=st.integers(4, 12),
    queues=st.integers(1, 4),
    failing_pairs=st.sampled_from([(), (), ((0, 0),)]),
    bootstrap_timeout_seconds=st.sampled_from([300.0, 2.0]),
    waiting_timeout_seconds=st.sampled_from([300.0, 2.0]),
    lease_seconds=st.sampled_from([30.0, 0.5]),
    lease_renewed=st.booleans(),
    loss_policy=st.sampled_from(["fail", "recompute", "late_read"]),
)
TRAFFICS = st.builds(
    Traffic,
    requests_per_second=st.floats(0.5, 12.0),
    burst_factor=st.sampled_from([1.0, 3.0]),
    concurrency=st.sampled_from([None, None, 8]),
    prompt_tokens=st.floats(50.0, 6000.0),
    output_tokens=st.floats(3.0, 400.0),
    shared_tokens=st.sampled_from([0, 512]),
    orphan_share=st.sampled_from([0.0, 0.2]),
)
DRAWS = st.builds(
    Draw,
    engine=st.sampled_from(["sglang", "vllm"]),
    hardware=st.sampled_from(["H100 SXM", "H200 SXM", "A100-80 SXM"]),
    model=st.sampled_from(["meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-30B-A3B"]),
    deployment=st.one_of(
        st.builds(
            Deployment,
            prefill_instances=st.integers(1, 3),
            decode_instances=st.integers(1, 3),
            prefill_devices=st.sampled_from([2, 4]),
            decode_devices=st.sampled_from([2, 4]),
        ),
        st.just(Deployment(0, 0, 2, 2, 2)),
    ),
    link=LINKS,
    prefill=st.builds(
        Prefill,
        batch_tokens=st.sampled_from([300, 2048, 8192]),
        slow_rank=st.sampled_from([1.0, 0.5]),
        prefix_cache=st.booleans(),
        pool_tokens=st.sampled_from([None, 9000]),
    ),
    decode=st.builds(
        Decode,
        slots=st.sampled_from([3, 32, 256]),
        reserved_tokens=st.sampled_from([0, 512]),
        pool_tokens=st.sampled_from([None, 9000, 3000]),
        graph_ceiling=st.sampled_from([4, 256]),
    ),
    frontend=st.builds(
        Frontend,
        detokenize_seconds_per_token=st.sampled_from([0.0, 1e-5, 1e-3]),
        affinity=st.sampled_from([0.0, 1.0]),
    ),
    traffic=TRAFFICS,
    seed=st.integers(0, 9),
)


class Watch(Observer):
    """Looks at the pools at every event."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.tokens = 0
        self.ended_requests: list[Request] = []

    def stepped(self, instance: int, steps: DecodeSteps) -> None:
        self.tokens += steps.requests * len(steps.ended_at)
        assert (steps.gap_seconds >= -1e-9).all()
        assert (steps.delivered_at >= steps.ended_at - 1e-9).all()
        decode = self.simulation.decodes[instance]
        assert decode.held_tokens <= decode.pool.tokens

    def stamped(self, request: Request, stamp: str) -> None:
        for prefill in self.simulation.prefills:
            assert 0 <= prefill.held_tokens <= prefill.pool_tokens

    def ended(self, request: Request) -> None:
        self.ended_requests.append(request)


def seconds_between(requests: list[Request], start: str, end: str, now: float) -> float:
    """Sum of the time from one stamp to another, up to now where the second has not come."""
    total = 0.0
    for request in requests:
        since = getattr(request, start)
        until = getattr(request, end)
        if not isnan(since):
            total += (request.ended_at if isnan(until) and request.is_over else now if isnan(until) else until) - since
    return total


def ran(draw: Draw) -> tuple[Simulation, Watch]:
    """A draw after some seconds, watched."""
    simulation = Simulation(draw)
    watch = Watch(simulation)
    simulation.watch(watch)
    simulation.run(SECONDS)
    return simulation, watch


@settings(max_examples=40, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(DRAWS)
def test_in_every_draw_the_laws_hold(draw: Draw) -> None:
    simulation, watch = ran(draw)
    check_little(simulation)
    check_places(simulation)
    check_bytes(simulation)
    check_devices(simulation)
    check_requests(simulation, watch)


def check_little(simulation: Simulation) -> None:
    """Requests in a place, integrated over time, are the sum of the times that they spent there."""
    requests, now = simulation.requests, simulation.now_seconds
    served = sum(level.area for level in simulation.router.decode_load)
    spent = seconds_between(requests, "routed_at", "ended_at", now)
    assert isclose(served, spent, rel_tol=1e-9, abs_tol=1e-6)
    waiting = sum(prefill.waiting.area for prefill in simulation.prefills)
    waited = seconds_between(requests, "prefill_queued_at", "prefill_started_at", now)
    assert isclose(waiting, waited, rel_tol=1e-9, abs_tol=1e-6)


def check_places(simulation: Simulation) -> None:
    """Every living request that decode knows is in one place; the pool is free when nobody holds it."""
    for decode in simulation.decodes:
        state = decode.state()
        assert min(state.queued, state.transferring, state.ready, state.local, state.running, state.retracted) >= 0
        assert 0 <= state.pending_tokens <= state.held_tokens <= state.pool_tokens
        assert state.running <= state.slots
        if not state.transferring + state.ready + state.local + state.running:
            assert state.held_tokens == 0
    for prefill in simulation.prefills:
        places = prefill.state()
        assert min(places.bootstrapping, places.waiting, places.running, places.inflight) >= 0
        if not places.running + places.inflight:
            assert places.held_tokens == 0


def check_bytes(simulation: Simulation) -> None:
    """What left one side came in on the other; whole pages of every prompt, once; no port above its capacity."""
    draw, network = simulation.draw, simulation.network
    sent = sum(network.sent_bytes(("prefill", one.number)) for one in simulation.prefills)
    received = sum(network.received_bytes(("decode", one.number)) for one in simulation.decodes)
    assert isclose(sent, received, rel_tol=1e-9, abs_tol=1.0)
    assert sent >= network.delivered_bytes * (1 - 1e-6) - 10.0
    confirmed = sum(engine.bytes for engine in simulation.transfers)
    assert confirmed == sum(request.transfer_bytes for request in simulation.requests)
    assert confirmed <= network.delivered_bytes
    for prefill in simulation.prefills:
        limit = prefill.machine.nic_bytes_per_second
        if draw.link.path_bytes_per_second is not None:
            limit = min(limit, draw.link.path_bytes_per_second)
        assert network.sent_bytes(("prefill", prefill.number)) <= limit * SECONDS * (1 + 1e-9)
    for request in simulation.requests:
        if request.end is End.FINISHED and not isnan(request.transferred_at):
            kv_bytes = simulation.decodes[request.decode].stepper.machine.model.kv_bytes_per_token
            assert request.transfer_bytes == padded(request.prompt_tokens, draw.link.page_tokens) * kv_bytes


def check_devices(simulation: Simulation) -> None:
    """No kernel is faster than the peak of its device, and none runs longer than there was time."""
    activities = [one.activity for one in simulation.prefills] + [one.stepper.activity for one in simulation.decodes]
    for activity in activities:
        for rank in activity.ranks(0.0, 0.0):
            assert rank.tensor_seconds <= rank.graphics_seconds + 1e-9
            assert rank.dram_seconds <= rank.graphics_seconds + 1e-9
            assert rank.sm_seconds <= rank.graphics_seconds + 1e-9
            assert rank.graphics_seconds <= SECONDS + 1e-9
    for prefill in simulation.prefills:
        model = prefill.machine.model
        assert prefill.activity.flop >= 2.0 * model.active_parameters * prefill.computed_tokens


def check_requests(simulation: Simulation, watch: Watch) -> None:
    """Everybody has an end at most once, stamps do not go back, and tokens are what was asked for."""
    ended = watch.ended_requests
    assert len(ended) == len(set(ended)) == sum(request.is_over for request in simulation.requests)
    for request in ended:
        if request.end is End.FINISHED:
            assert request.generated_tokens == request.output_tokens
            assert request.arrived_at <= request.routed_at <= request.joined_at <= request.first_token_at
            assert request.first_token_at <= request.finished_at
            computed = request.cached_tokens + request.computed_tokens
            assert computed == request.prompt_tokens or not simulation.prefills
    finished = sum(request.output_tokens for request in ended if request.end is End.FINISHED)
    extra = sum(decode.preemptions for decode in simulation.decodes) + len(simulation.requests)
    assert watch.tokens + extra >= finished


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_computed_prompt_stays_in_prefills_pool_until_it_has_been_moved(engine: Engine) -> None:
    """With a link that carries next to nothing, the pool fills and nothing is computed any more."""
    link = Link(nic_bytes_per_second=1e6)
    draw = Draw(engine=engine, link=link, prefill=Prefill(pool_tokens=40_000), traffic=Traffic(requests_per_second=8.0))
    simulation, _ = ran(draw)
    state = simulation.prefills[0].state()
    assert state.inflight > 0
    assert state.held_tokens > 30_000
    assert state.waiting > 0
