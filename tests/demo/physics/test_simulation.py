"""A seed fixes a run; looking does not change it; each engine has its own order of things; and it is fast."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import isnan

import pytest

from pdscope.demo.physics.clock import Clock, Level
from pdscope.demo.physics.draw import Decode, Deployment, Draw, Engine, Frontend, Link, LossPolicy, Prefill, Traffic
from pdscope.demo.physics.network import Network
from pdscope.demo.physics.observer import DecodeSteps, Observer
from pdscope.demo.physics.outcome import Outcome, run
from pdscope.demo.physics.request import End, Request
from pdscope.demo.physics.simulation import Simulation
from pdscope.errors import UsageError

ENGINES: tuple[Engine, ...] = ("sglang", "vllm")
POLICIES: tuple[LossPolicy, ...] = ("fail", "recompute", "late_read")


def history(simulation: Simulation) -> list[tuple[float, float, float, int]]:
    """What can be told apart of a run."""
    return [(one.arrived_at, one.first_token_at, one.finished_at, one.decode) for one in simulation.requests]


@pytest.mark.parametrize("engine", ENGINES)
def test_looking_often_or_once_is_the_same_run(engine: Engine) -> None:
    draw = Draw(engine=engine, decode=Decode(pool_tokens=40_000))
    once, often = Simulation(draw), Simulation(draw)
    once.run(30.0)
    for tick in range(1, 301):
        often.run(tick / 10)
        for decode in often.decodes:
            decode.state()
    assert repr(history(once)) == repr(history(often))  # repr: NaN is not equal to itself
    assert once.decodes[0].stepper.steps == often.decodes[0].stepper.steps
    assert once.decodes[0].stepper.context_token_steps == often.decodes[0].stepper.context_token_steps


def test_another_seed_is_another_run() -> None:
    one, other = Simulation(Draw(seed=1)), Simulation(Draw(seed=2))
    one.run(20.0)
    other.run(20.0)
    assert history(one) != history(other)


def test_a_relief_leaves_the_users_as_they_were() -> None:
    """Counterfactuals compare the same requests: arrivals and lengths do not hang on the deployment."""
    slow, fast = Simulation(Draw(prefill=Prefill(compute_factor=0.3))), Simulation(Draw())
    slow.run(30.0)
    fast.run(30.0)
    told = [[(one.arrived_at, one.prompt_tokens, one.output_tokens) for one in run_.requests] for run_ in (slow, fast)]
    assert told[0] == told[1]


def test_sglang_allocates_before_it_computes_and_vllm_after() -> None:
    for engine in ENGINES:
        simulation = Simulation(Draw(engine=engine))
        simulation.run(30.0)
        done = [one for one in simulation.requests if one.end is End.FINISHED]
        assert done
        for one in done:
            if engine == "sglang":
                assert one.handshaken_at <= one.allocated_at <= one.prefill_started_at
                assert one.joined_at <= one.first_token_at < one.finished_at
            else:
                assert one.prefill_ended_at <= one.decode_arrived_at <= one.allocated_at <= one.handshaken_at
            assert one.prefill_started_at < one.prefill_ended_at <= one.transferred_at <= one.transfer_seen_at
            assert one.transfer_posted_at <= one.transferred_at
            assert one.transfer_seen_at <= one.joined_at


def test_unified_instances_move_nothing() -> None:
    simulation = Simulation(Draw(deployment=Deployment(0, 0, 2, 4, 4)))
    simulation.run(30.0)
    done = [one for one in simulation.requests if one.end is End.FINISHED]
    assert len(done) > 20
    assert all(isnan(one.transferred_at) and one.prefill == -1 for one in done)
    assert not simulation.network.moved_bytes()


class Gaps(Observer):
    """Keeps what one instance delivered, and who was preempted."""

    def __init__(self) -> None:
        self.delivered: list[float] = []
        self.taken: list[Request] = []

    def stepped(self, instance: int, steps: DecodeSteps) -> None:
        self.delivered += steps.delivered_at.tolist()

    def preempted(self, request: Request) -> None:
        self.taken.append(request)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_pool_that_overflows_takes_memory_back(engine: Engine) -> None:
    """SGLang brings back what it retracted, vLLM computes it again; both finish it in the end."""
    draw = Draw(
        engine=engine,
        decode=Decode(pool_tokens=12_000, reserved_tokens=16),
        traffic=Traffic(prompt_tokens=1000.0, output_tokens=600.0, requests_per_second=2.0),
    )
    simulation, gaps = Simulation(draw), Gaps()
    simulation.watch(gaps)
    simulation.run(90.0)
    decode = simulation.decodes[0]
    assert decode.preemptions == len(gaps.taken) > 0
    assert any(one.end is End.FINISHED for one in gaps.taken)
    assert (decode.local_prefill.tokens > 0) == (engine == "vllm")
    assert all(later >= earlier for earlier, later in pairwise(gaps.delivered))


def test_an_expired_lease_fails_or_is_computed_again_or_read_late() -> None:
    """Without heartbeats, behind few slots: what happens to the lost prompt is a policy of vLLM."""
    base = Draw(engine="vllm", decode=Decode(slots=4), warm_up_seconds=0.0)
    ends: dict[str, Outcome] = {}
    for policy in POLICIES:
        link = Link(lease_seconds=1.0, lease_renewed=False, loss_policy=policy)
        ends[policy] = run(replace(base, link=link), 60.0)
    assert ends["fail"].failed[End.LEASE_EXPIRED] > 5
    assert not ends["recompute"].failed
    assert not ends["late_read"].failed
    assert ends["recompute"].simulation.decodes[0].local_prefill.tokens > 0
    assert ends["late_read"].simulation.decodes[0].local_prefill.tokens == 0


def test_timeouts_name_what_was_waited_for() -> None:
    """SGLang: prefill waits for decode's memory, decode for the KV."""
    few = Draw(decode=Decode(slots=2), link=Link(bootstrap_timeout_seconds=3.0), warm_up_seconds=0.0)
    assert run(few, 30.0).failed.keys() == {End.BOOTSTRAP_TIMEOUT}
    slow = Draw(prefill=Prefill(compute_factor=0.1), link=Link(waiting_timeout_seconds=3.0), warm_up_seconds=0.0)
    assert run(slow, 30.0).failed.keys() == {End.WAITING_TIMEOUT}


def outcome(**parts: object) -> Outcome:
    """A run of the default draw with parts replaced."""
    return run(replace(Draw(), **parts), 30.0)  # type: ignore[arg-type]


def test_each_fault_moves_what_it_should() -> None:
    base = outcome()
    assert outcome(decode=Decode(host_seconds=0.03)).itl(0.5) > base.itl(0.5) + 0.025
    assert outcome(decode=Decode(hbm_factor=0.5)).itl(0.5) > 1.7 * base.itl(0.5)
    slow_rank = outcome(decode=Decode(slow_rank=0.5))
    assert slow_rank.itl(0.5) > 1.5 * base.itl(0.5)
    ranks = slow_rank.simulation.decodes[0].stepper.activity.ranks(0.0, 0.0)
    assert [rank.clock for rank in ranks] == [0.5, 1.0, 1.0, 1.0]
    assert ranks[0].sm_seconds == pytest.approx(2 * ranks[1].sm_seconds)
    assert outcome(frontend=Frontend(router_seconds=0.3)).ttft(0.5) > base.ttft(0.5) + 0.25
    narrow = outcome(link=Link(nic_bytes_per_second=1.2e9 / 4))
    assert narrow.utilisation["nic"] > 0.95
    assert narrow.itl(0.5) == pytest.approx(base.itl(0.5), rel=0.1)
    cold = outcome(prefill=Prefill(prefix_cache=False), traffic=Traffic(shared_tokens=2000, groups=1))
    warm = outcome(traffic=Traffic(shared_tokens=2000, groups=1))
    assert cold.input_tokens_per_second > 1.5 * warm.input_tokens_per_second
    assert cold.transferred_bytes_per_second == pytest.approx(warm.transferred_bytes_per_second, rel=0.1)


def test_flows_share_a_port_fairly_and_the_fabric_bounds_all() -> None:
    """Two flows out of one port halve it; a third pair takes what the fabric leaves."""
    clock = Clock()
    done: dict[str, float] = {}

    def arrived(name: str) -> None:
        done[name] = clock.now_seconds

    network = Network(clock, lambda _: 100.0, 150.0)
    for name, source, target in (("a", 0, 0), ("b", 0, 1), ("c", 1, 2)):
        network.send(("prefill", source), ("decode", target), 1000, partial(arrived, name))
    clock.run(100.0)
    assert done == pytest.approx({"a": 20.0, "b": 20.0, "c": 20.0}, rel=0.01)


def test_the_clock_refuses_the_past() -> None:
    clock = Clock()
    clock.run(2.0)
    with pytest.raises(ValueError, match="too late"):
        clock.at(1.0, lambda: None)
    with pytest.raises(ValueError, match="does not go back"):
        clock.run(1.0)


def test_a_level_is_integrated() -> None:
    clock = Clock()
    level = Level(clock)
    level.add()
    clock.run(2.0)
    level.add(2)
    clock.run(3.0)
    level.drop(3)
    clock.run(9.0)
    assert (level.area, level.value, level.entered) == (5.0, 0, 3)


@pytest.mark.parametrize(
    ("draw", "place"),
    [
        (Draw(model="no-such"), "draw.model"),
        (Draw(hardware="no-such"), "draw.hardware"),
        (Draw(hardware="MI300X"), "draw.link"),
        (Draw(deployment=Deployment(prefill_devices=1)), "draw.model"),
    ],
)
def test_a_draw_that_is_no_deployment_says_where(draw: Draw, place: str) -> None:
    with pytest.raises(UsageError, match=place):
        Simulation(draw)


def test_bursts_keep_the_mean_rate() -> None:
    traffic = Traffic(
        requests_per_second=20.0, burst_factor=4.0, burst_seconds=0.5, prompt_tokens=50.0, output_tokens=3.0
    )
    simulation = Simulation(Draw(traffic=traffic))
    simulation.run(200.0)
    assert len(simulation.requests) == pytest.approx(4000, rel=0.2)
    per_second = [0] * 200
    for one in simulation.requests:
        per_second[min(199, int(one.arrived_at))] += 1
    assert max(per_second) > 60


def test_device_counters_run_while_a_pass_runs() -> None:
    """A prefill pass takes longer than a device exporter's sample: its work is spread over its time."""
    simulation = Simulation(Draw(traffic=Traffic(requests_per_second=6.0)))
    simulation.run(10.0)
    before = simulation.prefill_devices(0)[0]
    for tick in range(1, 21):
        simulation.run(10.0 + tick * 0.05)
        after = simulation.prefill_devices(0)[0]
        assert after.tensor_seconds - before.tensor_seconds < 0.05
        assert after.tensor_seconds > before.tensor_seconds
        before = after
    assert simulation.decode_devices(0)[0].dram_seconds > 1.0
    assert simulation.decode_devices(0)[0].nic_received_bytes == pytest.approx(before.nic_sent_bytes)
    load = simulation.router.decode_load[0]
    assert 0.0 < load.occupied_seconds < simulation.now_seconds


@pytest.mark.bench
@pytest.mark.parametrize("engine", ENGINES)
def test_a_minute_of_eight_instances_takes_less_than_a_second(engine: Engine) -> None:
    """CPU time, so that neighbours on the machine do not count."""
    draw = Draw(
        engine=engine,
        deployment=Deployment(prefill_instances=4, decode_instances=4),
        traffic=Traffic(requests_per_second=8.0),
        warm_up_seconds=0.0,
    )
    before = time.process_time()
    done = run(draw, 60.0)
    assert time.process_time() - before < 1.0
    assert done.finished > 300
