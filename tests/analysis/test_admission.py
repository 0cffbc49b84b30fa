"""Who waits to be let into decode, and what memory and slots are left there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pdscope.analysis.admission import admission_queue, pool_tokens, put_decode
from pdscope.analysis.board import Board
from pdscope.analysis.latency import put_latency
from pdscope.analysis.observed import Observed
from pdscope.analysis.signals import compute_signals
from pdscope.analysis.traffic import put_traffic
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet, instance_scope
from pdscope.model.topology import Deployment, Role
from pdscope.model.window import HistogramWindow, Window
from support.windows import INF, NAN, NOW, Column, deployment, histogram, instance, observed, ramp, rising, window

PAIR = deployment()
SECONDS = (0.01, 0.1, 1.0, 10.0, INF)
LENGTHS = (1000.0, 10_000.0, INF)


def signals(of: Deployment, windows: Mapping[str, Window]) -> SignalSet:
    board = Board(of.name)
    members = observed(of, windows)
    put_latency(board, of, members)
    put_traffic(board, of, members)
    put_decode(board, members)
    return board.finish()


def decode(scalars: Mapping[Metric, Column], histograms: Mapping[Metric, HistogramWindow] | None = None) -> SignalSet:
    """What a single decode instance comes to, its prompts of 2,000 tokens each."""
    lengths = {Metric.PROMPT_LENGTH: histogram(LENGTHS, [2000.0] * 4)}
    return signals(PAIR, {"d0": window(scalars, lengths | dict(histograms or {}))})


def known(found: SignalSet, signal: SignalId, name: str = "d0") -> Signal:
    one = found.get(signal, instance_scope(name))
    assert one is not None, signal
    return one


# slots


@pytest.mark.parametrize(
    ("running", "limit", "ratio"),
    [
        (244.0, 256.0, 244 / 243.2),  # 5 % below the limit counts as reached
        (200.0, 256.0, 200 / 243.2),
        (7.0, 8.0, 1.0),  # one below a small limit
        (1.0, 1.0, 1.0),  # which is never less than one
        (2.0, 2.0, 2.0),
    ],
)
def test_the_limit_of_running_requests(running: float, limit: float, ratio: float) -> None:
    """A slot stays empty while the next KV arrives: the limit less max(1, 5 %) is the limit."""
    found = decode({Metric.RUNNING: running, Metric.MAX_RUNNING: limit})
    assert known(found, SignalId.RUNNING).value == running
    assert known(found, SignalId.MAX_RUNNING).value == limit
    reached = known(found, SignalId.RUNNING_TO_LIMIT)
    assert reached.value == pytest.approx(ratio)
    assert reached.quality is Quality.MEASURED


def test_the_mean_of_running_requests_by_their_limit() -> None:
    """Batches breathe."""
    found = decode({Metric.RUNNING: ramp(5.0, 65.0), Metric.MAX_RUNNING: 100.0})
    assert known(found, SignalId.RUNNING_TO_LIMIT).value == 1.0


def test_a_limit_that_was_changed_is_that_of_the_newest_requests() -> None:
    """It holds from then on: what ran before an engine restarted with another one says nothing of it."""
    found = decode({Metric.RUNNING: ramp(5.0, 65.0), Metric.MAX_RUNNING: [50.0] * 12 + [100.0]})
    running = known(found, SignalId.RUNNING)
    assert (running.value, running.quality, running.samples) == (95.0, Quality.MEASURED, 13)
    assert known(found, SignalId.MAX_RUNNING).value == 100.0
    reached = known(found, SignalId.RUNNING_TO_LIMIT)
    assert reached.value == pytest.approx(125.0 / 95.0)
    assert "newest" in reached.source


def test_a_limit_that_the_engine_does_not_export() -> None:
    """The configured one, which nobody has checked."""
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, max_running=100))
    found = signals(of, {"d0": window({Metric.RUNNING: 95.0})})
    assert known(found, SignalId.MAX_RUNNING).quality is Quality.ASSUMED
    assert known(found, SignalId.RUNNING_TO_LIMIT).value == 1.0
    assert known(found, SignalId.RUNNING_TO_LIMIT).quality is Quality.DERIVED


def test_no_limit_no_ratio() -> None:
    """Nor a guess of one."""
    found = decode({Metric.RUNNING: 95.0})
    assert found.get(SignalId.MAX_RUNNING, instance_scope("d0")) is None
    assert found.get(SignalId.RUNNING_TO_LIMIT, instance_scope("d0")) is None


def test_a_prefill_batch_has_no_slots() -> None:
    """It is limited by its tokens; a router runs nothing."""
    of = deployment(*PAIR.instances, instance("r0", Role.ROUTER))
    both = window({Metric.RUNNING: 8.0, Metric.MAX_RUNNING: 8.0})
    found = signals(of, {"p0": both, "r0": both})
    assert found.get(SignalId.RUNNING_TO_LIMIT, instance_scope("p0")) is None
    assert found.get(SignalId.RUNNING_TO_LIMIT, instance_scope("r0")) is None


# memory


def test_usage_without_what_is_arriving() -> None:
    """Blocks are taken before the KV comes: a pool may look full of requests that do not run yet."""
    found = decode({Metric.KV_USAGE: 0.95, Metric.KV_USAGE_IN_TRANSFER: 0.4, Metric.KV_POOL_TOKENS: 100_000.0})
    assert known(found, SignalId.KV_USAGE).value == 0.95
    net = known(found, SignalId.KV_USAGE_NET)
    assert net.value == pytest.approx(0.55)
    assert net.quality is Quality.MEASURED
    free = known(found, SignalId.KV_FREE_REQUESTS)
    assert free.value == pytest.approx(0.45 * 100_000 / 2000)
    assert free.quality is Quality.DERIVED


def test_usage_without_what_is_being_fetched() -> None:
    """Where the engine counts fetches instead: ten prompts of 2,000 tokens in a pool of 100,000."""
    usage, fetches = ramp(0.01, 0.89), ramp(1.0, 4.0)
    found = decode({Metric.KV_USAGE: usage, Metric.KV_FETCH_ACTIVE: fetches, Metric.KV_POOL_TOKENS: 100_000.0})
    net = known(found, SignalId.KV_USAGE_NET)
    assert net.value == pytest.approx(0.75)
    assert net.quality is Quality.ESTIMATED
    assert "less 10 fetches" in net.source


def test_nothing_is_being_fetched() -> None:
    """Then the usage is net as it is."""
    found = decode({Metric.KV_USAGE: 0.9375, Metric.KV_FETCH_ACTIVE: 0.0, Metric.KV_POOL_TOKENS: 100_000.0})
    assert known(found, SignalId.KV_USAGE_NET).value == 0.9375
    assert known(found, SignalId.KV_USAGE_NET).quality is Quality.MEASURED


def test_usage_of_an_engine_that_does_not_tell_arrivals_apart() -> None:
    """Worth less."""
    net = known(decode({Metric.KV_USAGE: ramp(0.0625, 0.125)}), SignalId.KV_USAGE_NET)
    assert (net.value, net.quality) == (0.5, Quality.DERIVED)


@pytest.mark.parametrize("arriving", [Metric.KV_USAGE_IN_TRANSFER, Metric.KV_FETCH_ACTIVE])
def test_more_arriving_than_is_used(arriving: Metric) -> None:
    """Two gauges of different moments: no less than nothing is used."""
    found = decode({Metric.KV_USAGE: 0.1, arriving: 9.0, Metric.KV_POOL_TOKENS: 10_000.0})
    assert known(found, SignalId.KV_USAGE_NET).value == 0.0
    assert known(found, SignalId.KV_FREE_REQUESTS).value == 5.0


def test_a_pool_that_says_that_it_is_more_than_full() -> None:
    """Nothing is free, rather than less than nothing."""
    found = decode({Metric.KV_USAGE: 1.02, Metric.KV_USAGE_IN_TRANSFER: 0.0, Metric.KV_POOL_TOKENS: 100_000.0})
    assert known(found, SignalId.KV_FREE_REQUESTS).value == 0.0


def test_usage_and_net_usage_are_means() -> None:
    """Both over the same scrapes, so that their difference is what is in flight; the peak stands in the source."""
    found = decode({Metric.KV_USAGE: ramp(0.05, 0.3), Metric.KV_USAGE_IN_TRANSFER: ramp(0.01, 0.04)})
    usage = known(found, SignalId.KV_USAGE)
    assert usage.value == pytest.approx(0.6)
    assert (usage.quality, usage.samples) == (Quality.MEASURED, 13)
    assert "greatest 0.9" in usage.source
    assert known(found, SignalId.KV_USAGE_NET).value == pytest.approx(0.5)


def test_prefills_pool_is_looked_at_too() -> None:
    """Finished prompts stay in it until they are fetched; nothing arrives there."""
    found = signals(PAIR, {"p0": window({Metric.KV_USAGE: ramp(0.05, 0.3), Metric.KV_USAGE_IN_TRANSFER: 0.5})})
    net = known(found, SignalId.KV_USAGE_NET, "p0")
    assert net.value == pytest.approx(0.6)
    assert net.quality is Quality.MEASURED
    assert found.get(SignalId.ADMISSION_QUEUE, instance_scope("p0")) is None


def test_free_memory_in_requests_needs_a_prompt_length() -> None:
    """Of this traffic."""
    scalars = {Metric.KV_USAGE: 0.5, Metric.KV_POOL_TOKENS: 100_000.0}
    found = signals(PAIR, {"d0": window(scalars)})
    assert found.get(SignalId.KV_FREE_REQUESTS, instance_scope("d0")) is None


@pytest.mark.parametrize(
    ("own", "router", "tokens"),
    [
        ({Metric.KV_POOL_TOKENS: 5000.0}, {}, 5000.0),
        ({Metric.KV_POOL_TOKENS: ramp(100.0, 1.0)}, {}, 1201.0),
        ({Metric.KV_POOL_TOKENS: 1.0}, {}, 1.0),
        ({Metric.KV_POOL_TOKENS: ramp(-100.0, 1200.0)}, {}, None),
        ({Metric.KV_POOL_PAGES: ramp(1.0), Metric.PAGE_TOKENS: ramp(2.0)}, {}, 12.0 * 24.0),
        ({Metric.KV_POOL_PAGES: 1.0, Metric.PAGE_TOKENS: 1.0}, {}, 1.0),
        ({Metric.KV_POOL_PAGES: 0.0, Metric.PAGE_TOKENS: 64.0}, {}, None),
        ({}, {Metric.KV_POOL_PAGES: ramp(1.0), Metric.PAGE_TOKENS: ramp(2.0)}, 12.0 * 24.0),
        ({}, {Metric.KV_POOL_PAGES: 1.0, Metric.PAGE_TOKENS: 1.0}, 1.0),
        ({}, {Metric.KV_POOL_PAGES: 100.0, Metric.PAGE_TOKENS: 0.0}, None),
        ({}, {Metric.KV_POOL_PAGES: ramp(-1.0, 12.0), Metric.PAGE_TOKENS: 16.0}, None),
        ({Metric.KV_POOL_TOKENS: 0.0, Metric.KV_POOL_PAGES: 100.0, Metric.PAGE_TOKENS: 16.0}, {}, 1600.0),
        ({Metric.KV_POOL_PAGES: 100.0}, {}, None),
        ({}, {Metric.KV_POOL_PAGES: 100.0, Metric.PAGE_TOKENS: 64.0}, 6400.0),
        ({Metric.KV_POOL_TOKENS: 5000.0}, {Metric.KV_POOL_PAGES: 100.0, Metric.PAGE_TOKENS: 64.0}, 5000.0),
        ({}, {}, None),
    ],
)
def test_size_of_the_pool(own: dict[Metric, Column], router: dict[Metric, Column], tokens: float | None) -> None:
    """In tokens, in pages, or as a frontend publishes it."""
    of = deployment(*PAIR.instances, instance("r0", Role.ROUTER))
    members = observed(of, {"d0": window(own), "r0": window(router)})
    assert pool_tokens(members[1], members) == tokens


def test_a_frontend_publishes_the_pools_of_decode() -> None:
    """Not of prefill."""
    of = deployment(*PAIR.instances, instance("r0", Role.ROUTER))
    members = observed(of, {"r0": window({Metric.KV_POOL_PAGES: 100.0, Metric.PAGE_TOKENS: 64.0})})
    assert pool_tokens(members[0], members) is None


# the queue


def queue(scalars: Mapping[Metric, Column]) -> tuple[float, Quality] | None:
    found = admission_queue(Observed(PAIR.instances[1], [window(scalars)], NOW))
    return None if found is None else (found.standing, found.quality)


@pytest.mark.parametrize(
    ("gauges", "expected"),
    [
        # SGLang: before allocation and landed without a slot, not what is in transfer
        (
            {Metric.DECODE_ALLOCATION_QUEUE: 30.0, Metric.DECODE_TRANSFER_QUEUE: 90.0, Metric.WAITING_CAPACITY: 3.0},
            (33.0, Quality.MEASURED),
        ),
        ({Metric.DECODE_ALLOCATION_QUEUE: 30.0, Metric.WAITING: 70.0}, (30.0, Quality.MEASURED)),
        # vLLM from 0.32 on: before and after the pull, not the pull and not the deferred
        (
            {
                Metric.KV_FETCH_WAITING: 4.0,
                Metric.KV_FETCH_ACTIVE: 50.0,
                Metric.KV_FETCH_LANDED: 2.0,
                Metric.WAITING: 60.0,
                Metric.WAITING_CAPACITY: 9.0,
            },
            (6.0, Quality.MEASURED),
        ),
        ({Metric.KV_FETCH_LANDED: 2.0}, (2.0, Quality.MEASURED)),
        # whoever tells capacity apart
        ({Metric.WAITING_CAPACITY: 9.0, Metric.WAITING: 60.0}, (9.0, Quality.DERIVED)),
        # or nothing at all
        ({Metric.WAITING: 60.0}, (60.0, Quality.ESTIMATED)),
        ({Metric.RUNNING: 60.0}, None),
    ],
)
def test_which_queues_stand_before_decode(gauges: dict[Metric, Column], expected: tuple[float, Quality] | None) -> None:
    """Those of slots and memory; KV on its way is another matter."""
    assert queue(gauges) == expected


def test_a_burst_is_not_a_queue() -> None:
    """What did not stand in the newer half of the window is over."""
    assert queue({Metric.DECODE_ALLOCATION_QUEUE: [50] * 9 + [0] * 4}) == (0.0, Quality.MEASURED)


def test_a_queue_of_two_parts() -> None:
    """What stands in each adds up, and so do the means; it is as old and as often seen as the worse part."""
    landed = [NAN, NAN, *([1.0, 3.0] * 5), NAN]
    parts: dict[Metric, Column] = {Metric.KV_FETCH_WAITING: ramp(1.0), Metric.KV_FETCH_LANDED: landed}
    found = admission_queue(Observed(PAIR.instances[1], [window(parts)], NOW))
    assert found is not None
    assert (found.standing, found.mean, found.samples, found.age_seconds) == (7.0, 8.0, 10, 5.0)


def test_only_decode_admits() -> None:
    """A unified engine's queue is prefill's."""
    found = signals(deployment(instance("u0", Role.UNIFIED)), {"u0": window({Metric.WAITING: 60.0})})
    assert found.get(SignalId.ADMISSION_QUEUE, instance_scope("u0")) is None


# the wait


def test_the_measured_wait() -> None:
    """Mean of the allocation time, and its share of the mean TTFT."""
    found = decode(
        {Metric.DECODE_ALLOCATION_QUEUE: 30.0, Metric.REQUESTS_FINISHED: rising(5.0)},
        {Metric.ALLOCATION_TIME: histogram(SECONDS, [0.6] * 4), Metric.TTFT: histogram(SECONDS, [0.8] * 4)},
    )
    wait = known(found, SignalId.ADMISSION_WAIT)
    assert wait.value == pytest.approx(0.6)
    assert wait.quality is Quality.MEASURED
    assert known(found, SignalId.ADMISSION_TTFT_SHARE).value == pytest.approx(0.75)


def test_the_wait_by_littles_law() -> None:
    """Thirty in the queue, five leave a second: six seconds."""
    found = decode(
        {Metric.DECODE_ALLOCATION_QUEUE: 30.0, Metric.REQUESTS_FINISHED: rising(5.0)},
        {Metric.ALLOCATION_TIME: histogram(SECONDS, []), Metric.TTFT: histogram(SECONDS, [8.0] * 4)},
    )
    wait = known(found, SignalId.ADMISSION_WAIT)
    assert wait.value == pytest.approx(6.0)
    assert wait.quality is Quality.DERIVED
    assert known(found, SignalId.ADMISSION_TTFT_SHARE).value == pytest.approx(0.75)
    assert known(found, SignalId.ADMISSION_TTFT_SHARE).quality is Quality.DERIVED


def test_the_wait_where_nobody_counts_what_leaves() -> None:
    """Ten arrive a second, and no more than those leave a queue of thirty: three seconds at least, an estimate."""
    of = deployment(instance("r0", Role.ROUTER), *PAIR.instances)
    pages = {
        "r0": window({Metric.REQUESTS_ARRIVED: rising(10.0)}, {Metric.TTFT: histogram(SECONDS, [4.0] * 4)}),
        "d0": window({Metric.DECODE_ALLOCATION_QUEUE: 30.0}),
    }
    found = signals(of, pages)
    assert known(found, SignalId.ADMISSION_WAIT).value == pytest.approx(3.0)
    share = known(found, SignalId.ADMISSION_TTFT_SHARE)
    assert (share.value, share.quality) == (pytest.approx(0.75), Quality.ESTIMATED)


def test_a_wait_is_at_most_all_of_ttft() -> None:
    """Little's law and the mean TTFT are of different requests."""
    found = decode(
        {Metric.DECODE_ALLOCATION_QUEUE: 30.0, Metric.REQUESTS_FINISHED: rising(1.0)},
        {Metric.TTFT: histogram(SECONDS, [25.0] * 4)},
    )
    assert known(found, SignalId.ADMISSION_WAIT).value == pytest.approx(30.0)
    assert known(found, SignalId.ADMISSION_TTFT_SHARE).value == 1.0


def test_no_completion_no_wait() -> None:
    """Nothing leaves: the wait is unknown, not infinite, and the queue is there to see."""
    found = decode({Metric.DECODE_ALLOCATION_QUEUE: 30.0, Metric.REQUESTS_FINISHED: rising(0.0)})
    assert found.get(SignalId.ADMISSION_WAIT, instance_scope("d0")) is None
    assert known(found, SignalId.ADMISSION_QUEUE).value == 30.0


# rates


def test_rates_of_an_instance() -> None:
    """Preemptions and tokens; an engine that prints no preemption before the first has had none."""
    scalars: dict[Metric, Column] = {Metric.GENERATED_TOKENS: rising(900.0)}
    found = signals(PAIR, {"d0": window(scalars, lazy=[Metric.PREEMPTIONS])})
    assert known(found, SignalId.GENERATION_RATE).value == 900.0
    assert known(found, SignalId.GENERATION_RATE).quality is Quality.MEASURED
    assert known(found, SignalId.PREEMPTIONS_PER_SECOND).value == 0.0
    assert signals(PAIR, {"d0": window(scalars)}).get(SignalId.PREEMPTIONS_PER_SECOND, instance_scope("d0")) is None


@pytest.mark.parametrize(("received", "share"), [(0.0, 0.0), (750.0, 0.75), (1200.0, 1.0)])
def test_the_share_of_prompts_that_came_with_their_kv(received: float, share: float) -> None:
    """At most all: whole blocks round up."""
    found = decode({Metric.KV_RECEIVED_TOKENS: rising(received), Metric.PROMPT_TOKENS: rising(1000.0)})
    one = known(found, SignalId.KV_RECEIVED_SHARE)
    assert one.value == pytest.approx(share)
    assert one.quality is Quality.MEASURED


def test_a_prompt_of_one_token() -> None:
    """Counts as any other."""
    found = decode({Metric.KV_RECEIVED_TOKENS: rising(1 / 60), Metric.PROMPT_TOKENS: rising(1 / 60)})
    assert known(found, SignalId.KV_RECEIVED_SHARE).value == pytest.approx(1.0)


def test_no_prompts_no_share() -> None:
    """Of nothing."""
    found = decode({Metric.KV_RECEIVED_TOKENS: rising(0.0), Metric.PROMPT_TOKENS: rising(0.0)})
    assert found.get(SignalId.KV_RECEIVED_SHARE, instance_scope("d0")) is None


TTFT_BOUNDS = (0.5, 1.0, 2.0, 4.0, 60.0, INF)


def standing(
    queue: Column, *, ttft: float = 2.4, finished: float = 4.0, more: Mapping[Metric, Column] | None = None
) -> SignalSet:
    """A decode instance with room, whose queue is that while its requests have that mean TTFT."""
    columns: dict[Metric, Column] = {
        Metric.DECODE_ALLOCATION_QUEUE: queue,
        Metric.RUNNING: 6.0,
        Metric.KV_USAGE: 0.5,
        Metric.REQUESTS_FINISHED: rising(finished),
        **(more or {}),
    }
    of = deployment()
    page = window(columns, {Metric.TTFT: histogram(TTFT_BOUNDS, [ttft] * 240)}, target="d0")
    return compute_signals(of, {"d0": [page]}, {}, NOW, 60.0)


def test_a_queue_that_ttft_contradicts_is_shown_and_not_used() -> None:
    """45 requests at 4 a second wait 11 s by Little's law; their TTFT of 2.4 s holds that wait."""
    found = standing(45.0)
    scope = instance_scope("d0")
    distrusted = found.get(SignalId.DISTRUSTED_QUEUE, scope)
    assert distrusted is not None
    assert distrusted.value == 45.0
    assert "wait 11.2 s" in distrusted.source
    assert found.get(SignalId.ADMISSION_QUEUE, scope) is found.get(SignalId.ADMISSION_WAIT, scope) is None


@pytest.mark.parametrize(
    "told",
    [
        standing(45.0, ttft=12.0),
        standing(ramp(4.0)),
        standing(7.0, finished=1.0),
        standing(45.0, more={Metric.RUNNING: 48.0, Metric.MAX_RUNNING: 48.0}),
        standing(45.0, more={Metric.KV_USAGE: 0.97}),
        standing(45.0, more={Metric.BOOTSTRAP_FAILURES: rising(1.0)}),
    ],
    ids=["TTFT agrees", "it grows", "a few", "slots are full", "the pool is full", "requests fail"],
)
def test_a_queue_that_may_be_so_is_believed(told: SignalSet) -> None:
    """Those who are counted need not be those who wait."""
    assert told.get(SignalId.ADMISSION_QUEUE, instance_scope("d0")) is not None
    assert told.get(SignalId.DISTRUSTED_QUEUE, instance_scope("d0")) is None
