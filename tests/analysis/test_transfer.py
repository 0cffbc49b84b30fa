"""The KV transfer: three figures that are easily mistaken for each other, and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from pdscope.analysis.board import Board
from pdscope.analysis.capacity import put_capacity
from pdscope.analysis.latency import put_latency
from pdscope.analysis.ports import Ports
from pdscope.analysis.traffic import put_traffic
from pdscope.analysis.transfer import put_transfer, receiver_ranks
from pdscope.model.metric import Metric
from pdscope.model.signal import Quality, Signal, SignalId, SignalSet
from pdscope.model.topology import Deployment, EngineProfile, Interconnect, KvShape, Role, Routing
from pdscope.model.window import Window
from support.windows import (
    DEEPSEEK_V3,
    INF,
    LLAMA_8B,
    NOW,
    VLLM,
    Column,
    deployment,
    histogram,
    instance,
    observed,
    ramp,
    rising,
    window,
)

SECONDS = (0.01, 0.1, 1.0, 10.0, INF)
BYTES = (1e6, 1e8, 1e10, INF)
LENGTHS = (1000.0, 10_000.0, INF)
LINK = Interconnect(10e9, efficiency=0.8)
PAIR = deployment(interconnect=LINK)
VLLM_PAIR = deployment(instance("p0", Role.PREFILL, VLLM), instance("d0", Role.DECODE, VLLM), interconnect=LINK)


NO_PORTS = Ports(None, None, None)


def signals(of: Deployment, windows: Mapping[str, Window]) -> SignalSet:
    board = Board(of.name)
    members = observed(of, windows)
    put_latency(board, of, members)
    put_traffic(board, of, members)
    put_transfer(board, of, members)
    put_capacity(board, of, NO_PORTS)
    return board.finish()


def known(found: SignalSet, signal: SignalId) -> Signal:
    one = found.get(signal)
    assert one is not None, signal
    return one


def served(rate: float, tokens: float = 2000.0) -> Window:
    """Decode that finishes `rate` requests a second of so many prompt tokens."""
    return window({Metric.REQUESTS_FINISHED: rising(rate)}, {Metric.PROMPT_LENGTH: histogram(LENGTHS, [tokens] * 4)})


# bytes


def test_bytes_of_a_token_by_the_configured_shape() -> None:
    """Logical: one copy."""
    size = known(signals(PAIR, {}), SignalId.KV_BYTES_PER_TOKEN)
    assert (size.value, size.quality) == (131_072, Quality.ASSUMED)


def test_bytes_of_a_token_by_what_was_moved() -> None:
    """Without a shape: bytes by the tokens that came with them, an estimate because of whole blocks."""
    of = deployment(*VLLM_PAIR.instances, kv=None)
    moved = window(
        {Metric.KV_RECEIVED_TOKENS: rising(100.0)},
        {Metric.KV_TRANSFER_BYTES: histogram(BYTES, [8192.0 * 600] * 10)},
    )
    size = known(signals(of, {"d0": moved}), SignalId.KV_BYTES_PER_TOKEN)
    assert size.value == pytest.approx(8192)
    assert size.quality is Quality.ESTIMATED
    for received in ({Metric.KV_RECEIVED_TOKENS: rising(0.0)}, {}):
        nothing = window(received, {Metric.KV_TRANSFER_BYTES: histogram(BYTES, [8192.0] * 10)})
        assert signals(of, {"d0": nothing}).get(SignalId.KV_BYTES_PER_TOKEN) is None


def test_one_copy_of_what_was_moved() -> None:
    """Eight ranks have received the same latent: the logical cache is an eighth of the bytes."""
    of = deployment(
        instance("p0", Role.PREFILL, VLLM), instance("d0", Role.DECODE, VLLM, tp=8), kv=None, file_kv=DEEPSEEK_V3
    )
    moved = window(
        {Metric.KV_RECEIVED_TOKENS: rising(100.0)},
        {Metric.KV_TRANSFER_BYTES: histogram(BYTES, [8 * 70_272.0 * 600] * 10)},
    )
    assert known(signals(of, {"d0": moved}), SignalId.KV_BYTES_PER_TOKEN).value == pytest.approx(70_272)


def test_whom_to_believe_about_the_size_of_a_token() -> None:
    """The configured shape, then what the engine says, then the model's own file, which knows no quantised cache."""
    pool = {"d0": window({Metric.KV_POOL_BYTES: 65_536.0 * 1000, Metric.KV_POOL_TOKENS_PER_RANK: 1000.0})}
    explicit = signals(deployment(kv=LLAMA_8B, file_kv=DEEPSEEK_V3), pool)
    assert known(explicit, SignalId.KV_BYTES_PER_TOKEN).value == 131_072
    assert known(explicit, SignalId.KV_BYTES_PER_TOKEN_ENGINE).value == 65_536
    engine = known(signals(deployment(kv=None, file_kv=LLAMA_8B), pool), SignalId.KV_BYTES_PER_TOKEN)
    assert (engine.value, engine.quality) == (65_536, Quality.DERIVED)
    file = known(signals(deployment(kv=None, file_kv=LLAMA_8B), {}), SignalId.KV_BYTES_PER_TOKEN)
    assert (file.value, file.quality) == (131_072, Quality.ASSUMED)
    assert signals(deployment(kv=None), {}).get(SignalId.KV_BYTES_PER_TOKEN) is None


@pytest.mark.parametrize(
    ("shape", "parallel", "size"),
    [
        (None, {"tp": 1}, 8192.0),
        (None, {"tp": 8, "dp": 8}, 8192.0),
        (None, {"tp": 4}, None),  # a rank's share of heads, or the whole latent?
        (LLAMA_8B, {"tp": 4}, 4 * 8192.0),
        (LLAMA_8B, {"tp": 16}, 8 * 8192.0),
        (LLAMA_8B, {"tp": 4, "pp": 2}, 8 * 8192.0),
        (DEEPSEEK_V3, {"tp": 8}, 8192.0),
    ],
)
def test_the_pool_of_a_rank_is_a_part_of_the_cache(
    shape: KvShape | None, parallel: dict[str, Any], size: float | None
) -> None:
    """Of heads and of layers; never of a latent."""
    of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, **parallel), kv=None, file_kv=shape)
    pool = window({Metric.KV_POOL_BYTES: ramp(1.0, 8_192_000 - 12.0), Metric.KV_POOL_TOKENS_PER_RANK: ramp(1.0, 988.0)})
    assert signals(of, {"d0": pool}).value(SignalId.KV_BYTES_PER_TOKEN_ENGINE) == size


def test_a_pool_of_nothing() -> None:
    """An engine that has not filled in its sizes yet."""
    pool = window({Metric.KV_POOL_BYTES: 0.0, Metric.KV_POOL_TOKENS_PER_RANK: 0.0})
    assert signals(deployment(kv=None), {"d0": pool}).get(SignalId.KV_BYTES_PER_TOKEN_ENGINE) is None


def test_the_models_file_tells_what_a_request_takes() -> None:
    """Where nothing better does."""
    found = signals(deployment(kv=None, file_kv=LLAMA_8B), {"d0": served(1.0)})
    assert known(found, SignalId.KV_BYTES_PER_REQUEST).value == 2000 * 131_072


def test_bytes_of_a_request_by_the_shape() -> None:
    """Prompt tokens in whole pages of the engine."""
    of = deployment(*PAIR.instances)
    pages = window({Metric.PAGE_TOKENS: ramp(8.0, 32.0)}, {Metric.PROMPT_LENGTH: histogram(LENGTHS, [1999.0] * 4)})
    size = known(signals(of, {"d0": pages}), SignalId.KV_BYTES_PER_REQUEST)
    assert (size.value, size.quality) == (2048 * 131_072, Quality.ESTIMATED)


@pytest.mark.parametrize(("configured", "page"), [(64, 64), (None, 16)])
def test_a_page_that_the_engine_does_not_tell(configured: int | None, page: int) -> None:
    """The configured one, else what the engine usually takes."""
    decode = instance("d0", Role.DECODE, VLLM, page_tokens=configured)
    found = signals(deployment(instance("p0", Role.PREFILL, VLLM), decode), {"d0": served(1.0, 1001.0)})
    assert known(found, SignalId.KV_BYTES_PER_REQUEST).value == -(-1001 // page) * page * 131_072


def test_a_latent_cache_goes_to_every_receiving_rank() -> None:
    """Eight ranks receive eight copies; data-parallel attention leaves one rank a replica."""
    for dp, copies in ((1, 8), (8, 1)):
        of = deployment(instance("p0", Role.PREFILL), instance("d0", Role.DECODE, tp=8, dp=dp), kv=DEEPSEEK_V3)
        found = signals(of, {"d0": served(1.0, 4096.0)})
        assert known(found, SignalId.KV_BYTES_PER_REQUEST).value == copies * 274.5 * 2**20


def test_an_engine_that_does_not_replicate_the_latent() -> None:
    """One copy crosses the link."""
    single = EngineProfile("single", Routing.SEQUENTIAL, replicates_mla=False)
    of = deployment(instance("p0", Role.PREFILL, single), instance("d0", Role.DECODE, single, tp=8), kv=DEEPSEEK_V3)
    found = signals(of, {"d0": served(1.0, 4096.0)})
    assert known(found, SignalId.KV_BYTES_PER_REQUEST).value == 274.5 * 2**20


@pytest.mark.parametrize(("tp", "dp", "ranks"), [(1, 1, 1), (8, 1, 8), (8, 2, 4), (8, 8, 1), (2, 8, 1)])
def test_ranks_that_receive(tp: int, dp: int, ranks: int) -> None:
    """Attention ranks of one replica."""
    assert receiver_ranks([instance("d0", Role.DECODE, tp=tp, dp=dp)]) == ranks
    assert receiver_ranks([]) == 1


def test_the_replica_with_most_ranks_decides() -> None:
    """Demand is not underrated."""
    assert receiver_ranks([instance("d0", Role.DECODE, tp=2), instance("d1", Role.DECODE, tp=8)]) == 8


@pytest.mark.parametrize(("printed", "page"), [(1.0, 1), (0.0, 16), (0.5, 16)])
def test_a_page_of_less_than_a_token_is_none(printed: float, page: int) -> None:
    """An engine that has not filled in its page size yet."""
    pages = window({Metric.PAGE_TOKENS: printed}, {Metric.PROMPT_LENGTH: histogram(LENGTHS, [1001.0] * 4)})
    found = signals(VLLM_PAIR, {"d0": pages})
    assert known(found, SignalId.KV_BYTES_PER_REQUEST).value == -(-1001 // page) * page * 131_072


def test_counted_bytes_win_over_the_shape() -> None:
    """SGLang: bytes by requests, both from prefill's transfer histograms."""
    counted = window(
        histograms={
            Metric.KV_TRANSFER_BYTES: histogram(BYTES, [3e8] * 20),
            Metric.KV_TRANSFER_TIME: histogram(SECONDS, [0.05] * 20),
        }
    )
    size = known(signals(PAIR, {"p0": counted, "d0": served(1.0)}), SignalId.KV_BYTES_PER_REQUEST)
    assert size.value == pytest.approx(3e8)
    assert size.quality is Quality.MEASURED


def test_counted_bytes_of_an_engine_with_a_transfer_for_each_rank() -> None:
    """NIXL observes one transfer a remote rank, so tokens tell what one request moves."""
    moved = window(
        {
            Metric.KV_RECEIVED_TOKENS: rising(4000.0),
            Metric.PROMPT_TOKENS: rising(4000.0),
            Metric.REQUESTS_FINISHED: rising(2.0),
        },
        {
            Metric.KV_TRANSFER_BYTES: histogram(BYTES, [1e8] * 480),
            Metric.KV_TRANSFER_TIME: histogram(SECONDS, [0.05] * 480),
        },
    )
    size = known(signals(VLLM_PAIR, {"d0": moved}), SignalId.KV_BYTES_PER_REQUEST)
    assert size.value == pytest.approx(4e8)
    assert size.quality is Quality.MEASURED


@pytest.mark.parametrize(("received", "share"), [(2000.0, 0.5), (4000.0, 1.0), (4400.0, 1.0)])
def test_counted_bytes_of_prompts_that_decode_holds_in_part(received: float, share: float) -> None:
    """Two requests a second of 2,000 tokens: what is not fetched is not moved; whole blocks are no more than all."""
    moved = window(
        {
            Metric.KV_RECEIVED_TOKENS: rising(received),
            Metric.PROMPT_TOKENS: rising(4000.0),
            Metric.REQUESTS_FINISHED: rising(2.0),
        },
        {
            Metric.KV_TRANSFER_BYTES: histogram(BYTES, [received * 1e5] * 60),
            Metric.PROMPT_LENGTH: histogram(LENGTHS, [2000.0] * 120),
        },
    )
    size = known(signals(VLLM_PAIR, {"d0": moved}), SignalId.KV_BYTES_PER_REQUEST)
    assert size.value == pytest.approx(2000 * 1e5 * share)


@pytest.mark.parametrize(
    "tokens",
    [
        {},
        {Metric.KV_RECEIVED_TOKENS: rising(0.0), Metric.PROMPT_TOKENS: rising(4000.0)},
        {Metric.KV_RECEIVED_TOKENS: rising(4000.0), Metric.PROMPT_TOKENS: rising(0.0)},
    ],
)
def test_counted_bytes_without_tokens(tokens: dict[Metric, Column]) -> None:
    """By the requests that finish, which lag a little."""
    counted = {Metric.KV_TRANSFER_BYTES: histogram(BYTES, [1e8] * 120)}
    moved = window(tokens | {Metric.REQUESTS_FINISHED: rising(0.5)}, counted)
    size = known(signals(VLLM_PAIR, {"d0": moved}), SignalId.KV_BYTES_PER_REQUEST)
    assert size.value == pytest.approx(4e8)


@pytest.mark.parametrize("finished", [{}, {Metric.REQUESTS_FINISHED: rising(0.0)}])
def test_bytes_of_no_request(finished: dict[Metric, Column]) -> None:
    """Bytes that moved for nobody say nothing about a request."""
    counted = {Metric.KV_TRANSFER_BYTES: histogram(BYTES, [1e8] * 480)}
    assert signals(VLLM_PAIR, {"d0": window(finished, counted)}).get(SignalId.KV_BYTES_PER_REQUEST) is None


def test_an_engine_that_has_moved_nothing_yet() -> None:
    """Its counters are at zero: the shape tells what a request would take."""
    idle = window(
        {Metric.REQUESTS_FINISHED: rising(1.0)},
        {Metric.KV_TRANSFER_BYTES: histogram(BYTES, []), Metric.PROMPT_LENGTH: histogram(LENGTHS, [2000.0] * 4)},
    )
    size = known(signals(VLLM_PAIR, {"d0": idle}), SignalId.KV_BYTES_PER_REQUEST)
    assert (size.value, size.quality) == (2000 * 131_072, Quality.ESTIMATED)


def test_bytes_of_a_prompt_of_unknown_length() -> None:
    """Neither counted nor to be computed."""
    found = signals(PAIR, {"d0": window({Metric.REQUESTS_FINISHED: rising(1.0)})})
    assert found.get(SignalId.KV_BYTES_PER_REQUEST) is None
    assert found.get(SignalId.KV_DEMAND) is None


# demand, achieved rate, capacity


def test_three_figures_that_are_not_the_same() -> None:
    """Demand is what arrives, the achieved rate what crosses, capacity what the link can carry."""
    prefill = window(
        {Metric.REQUESTS_FINISHED: rising(20.0), Metric.PREFILL_TRANSFER_QUEUE: ramp(6.0)},
        {
            Metric.KV_TRANSFER_BYTES: histogram(BYTES, [3e8] * 1200),
            Metric.KV_TRANSFER_TIME: histogram(SECONDS, [2.0] * 1200),
        },
    )
    found = signals(PAIR, {"p0": prefill, "d0": served(20.0)})
    assert known(found, SignalId.KV_ACHIEVED).value == pytest.approx(20 * 3e8)
    assert known(found, SignalId.KV_DEMAND).value == pytest.approx((20 + 1.2) * 3e8)
    assert known(found, SignalId.LINK_CAPACITY).value == pytest.approx(8e9)
    assert known(found, SignalId.LINK_UTILIZATION).value == pytest.approx(21.2 * 3e8 / 8e9)
    assert known(found, SignalId.TRANSFER_TIME).value == pytest.approx(2.0)
    qualities = {s: known(found, s).quality for s in (SignalId.KV_ACHIEVED, SignalId.KV_DEMAND, SignalId.LINK_CAPACITY)}
    assert qualities == {
        SignalId.KV_ACHIEVED: Quality.MEASURED,
        SignalId.KV_DEMAND: Quality.DERIVED,
        SignalId.LINK_CAPACITY: Quality.ASSUMED,
    }


def test_demand_may_exceed_what_the_link_carries() -> None:
    """The ratio is not cut off at one: by how much is what matters."""
    of = deployment(*PAIR.instances, instance("r0", Role.ROUTER), interconnect=LINK)
    found = signals(of, {"r0": window({Metric.REQUESTS_ARRIVED: rising(114.0)}), "d0": served(30.0)})
    demand = known(found, SignalId.KV_DEMAND)
    assert demand.value == pytest.approx(114 * 2000 * 131_072)
    assert demand.quality is Quality.ESTIMATED
    assert known(found, SignalId.LINK_UTILIZATION).value == pytest.approx(demand.value / 8e9)
    assert known(found, SignalId.LINK_UTILIZATION).value > 3


def test_demand_is_worth_its_worst_part() -> None:
    """Arrivals that are only what finishes make it an estimate."""
    counted = window(
        histograms={
            Metric.KV_TRANSFER_BYTES: histogram(BYTES, [3e8] * 20),
            Metric.KV_TRANSFER_TIME: histogram(SECONDS, [0.05] * 20),
        }
    )
    found = signals(PAIR, {"p0": counted, "d0": served(1.0)})
    assert known(found, SignalId.KV_BYTES_PER_REQUEST).quality is Quality.MEASURED
    assert known(found, SignalId.ARRIVALS_PER_SECOND).quality is Quality.ESTIMATED
    assert known(found, SignalId.KV_DEMAND).quality is Quality.ESTIMATED
    assert known(found, SignalId.LINK_UTILIZATION).quality is Quality.ESTIMATED


def test_demand_is_a_product_even_of_measured_figures() -> None:
    """The router's arrivals times counted bytes: derived at best."""
    of = deployment(*PAIR.instances, instance("r0", Role.ROUTER), interconnect=LINK)
    counted = window(
        histograms={
            Metric.KV_TRANSFER_BYTES: histogram(BYTES, [3e8] * 20),
            Metric.KV_TRANSFER_TIME: histogram(SECONDS, [0.05] * 20),
        }
    )
    found = signals(of, {"r0": window({Metric.REQUESTS_ARRIVED: rising(2.0)}), "p0": counted})
    assert known(found, SignalId.ARRIVALS_PER_SECOND).quality is Quality.MEASURED
    assert known(found, SignalId.KV_DEMAND).quality is Quality.DERIVED
    assert known(found, SignalId.LINK_UTILIZATION).quality is Quality.DERIVED


def test_without_a_link_there_is_no_capacity() -> None:
    """Demand is known all the same."""
    found = signals(deployment(*PAIR.instances), {"d0": served(1.0)})
    assert found.get(SignalId.LINK_CAPACITY) is None
    assert found.get(SignalId.LINK_UTILIZATION) is None
    assert known(found, SignalId.KV_DEMAND).value == pytest.approx(2000 * 131_072)


def test_a_link_that_nobody_loads() -> None:
    """Capacity without traffic has no utilisation."""
    found = signals(PAIR, {})
    assert known(found, SignalId.LINK_CAPACITY).value == pytest.approx(8e9)
    assert found.get(SignalId.LINK_UTILIZATION) is None


def test_a_unified_deployment_transfers_nothing() -> None:
    """Only the size of a token is known."""
    of = deployment(instance("u0", Role.UNIFIED), interconnect=LINK)
    assert {s.id for s in signals(of, {"u0": served(5.0)})} & {
        SignalId.KV_DEMAND,
        SignalId.KV_ACHIEVED,
        SignalId.KV_BYTES_PER_REQUEST,
        SignalId.LINK_CAPACITY,
        SignalId.LINK_UTILIZATION,
    } == set()


# time


def test_a_transfer_takes_its_exposed_part() -> None:
    """From the end of prefill to the confirmed transfer; the transfer itself overlaps with computation."""
    found = signals(
        PAIR,
        {
            "p0": window(
                histograms={
                    Metric.EXPOSED_TRANSFER_TIME: histogram(SECONDS, [0.2] * 4),
                    Metric.KV_TRANSFER_TIME: histogram(SECONDS, [0.9] * 4),
                }
            ),
            "d0": window(histograms={Metric.TTFT: histogram(SECONDS, [0.8] * 4)}),
        },
    )
    assert known(found, SignalId.TRANSFER_TIME).value == pytest.approx(0.2)
    share = known(found, SignalId.TRANSFER_TTFT_SHARE)
    assert share.value == pytest.approx(0.25)
    assert share.quality is Quality.MEASURED


def test_a_transfer_that_comes_after_prefill_has_answered() -> None:
    """All of it is exposed."""
    found = signals(
        VLLM_PAIR,
        {
            "p0": window(histograms={Metric.TTFT: histogram(SECONDS, [0.3] * 4)}),
            "d0": window(
                histograms={
                    Metric.TTFT: histogram(SECONDS, [0.7] * 4),
                    Metric.KV_TRANSFER_TIME: histogram(SECONDS, [0.5] * 4),
                }
            ),
        },
    )
    assert known(found, SignalId.TRANSFER_TIME).value == pytest.approx(0.5)
    share = known(found, SignalId.TRANSFER_TTFT_SHARE)
    assert share.value == pytest.approx(0.5)
    assert share.quality is Quality.DERIVED


def test_a_transfer_by_what_prefill_holds_longer() -> None:
    """Life of a request on prefill less prefill's answer: an estimate, never negative."""
    for held, expected in ((0.9, 0.6), (0.2, 0.0)):
        found = signals(
            VLLM_PAIR,
            {
                "p0": window(
                    histograms={
                        Metric.HANDOVER_TIME: histogram(SECONDS, [held] * 4),
                        Metric.PREFILL_STAGE_TIME: histogram(SECONDS, [0.3] * 4),
                    }
                )
            },
        )
        time = known(found, SignalId.TRANSFER_TIME)
        assert time.value == pytest.approx(expected)
        assert time.quality is Quality.ESTIMATED


def test_a_share_of_ttft_is_at_most_all_of_it() -> None:
    """Means of different requests may say more."""
    found = signals(
        PAIR,
        {
            "p0": window(histograms={Metric.EXPOSED_TRANSFER_TIME: histogram(SECONDS, [3.0] * 4)}),
            "d0": window(histograms={Metric.TTFT: histogram(SECONDS, [0.8] * 4)}),
        },
    )
    assert known(found, SignalId.TRANSFER_TTFT_SHARE).value == 1.0


def test_a_transfer_without_a_ttft_has_no_share() -> None:
    """Of the unknown."""
    found = signals(PAIR, {"p0": window(histograms={Metric.EXPOSED_TRANSFER_TIME: histogram(SECONDS, [3.0] * 4)})})
    assert found.get(SignalId.TRANSFER_TTFT_SHARE) is None
    assert known(found, SignalId.TRANSFER_TIME).value == pytest.approx(3.0)


# in flight


def test_transfers_in_flight_by_prefills_queue() -> None:
    """Mean over the window, all senders added."""
    of = deployment(instance("p0", Role.PREFILL), instance("p1", Role.PREFILL), instance("d0", Role.DECODE))
    found = signals(
        of,
        {
            "p0": window({Metric.PREFILL_TRANSFER_QUEUE: [0, 4] * 6 + [15]}, end=NOW - 4),
            "p1": window({Metric.PREFILL_TRANSFER_QUEUE: 5.0}),
            "d0": window({Metric.KV_FETCH_ACTIVE: 99.0, Metric.PREFILL_TRANSFER_QUEUE: 99.0}),
        },
    )
    flying = known(found, SignalId.TRANSFER_IN_FLIGHT)
    assert flying.value == pytest.approx(8.0)
    assert (flying.quality, flying.age_seconds) == (Quality.MEASURED, 4.0)


def test_transfers_in_flight_by_decodes_fetches() -> None:
    """Where prefill has no such queue."""
    found = signals(
        VLLM_PAIR,
        {"d0": window({Metric.KV_FETCH_ACTIVE: 3.0}), "p0": window({Metric.KV_FETCH_ACTIVE: 50.0})},
    )
    assert known(found, SignalId.TRANSFER_IN_FLIGHT).value == 3.0


def test_bytes_achieved_are_a_rate() -> None:
    """Transferred bytes over the window, from whoever counts them; unknown where nobody does."""
    moved = window(histograms={Metric.KV_TRANSFER_BYTES: histogram(BYTES, [6e8] * 10, history=[1e9])})
    found = signals(PAIR, {"p0": moved})
    assert known(found, SignalId.KV_ACHIEVED).value == pytest.approx(1e8)
    assert signals(PAIR, {"p0": window({Metric.RUNNING: 1})}).get(SignalId.KV_ACHIEVED) is None


# in flight


@pytest.mark.parametrize(
    ("metric", "role", "engine", "column", "trend"),
    [
        (Metric.KV_FETCH_ACTIVE, "d0", VLLM_PAIR, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0], 2.0),
        (Metric.PREFILL_TRANSFER_QUEUE, "p0", PAIR, [4.0, 4.0, 4.0, 9.0, 3.0, 3.0, 3.0], 0.75),
        (Metric.KV_FETCH_ACTIVE, "d0", VLLM_PAIR, [1.0, 1.0, 2.0, 2.0], None),
        (Metric.KV_FETCH_ACTIVE, "d0", VLLM_PAIR, [0.0, 0.0, 0.0, 2.0, 2.0, 2.0], None),
    ],
    ids=["decode", "prefill, the middle left out", "too few scrapes", "from nothing"],
)
def test_trend_of_what_is_in_flight(
    metric: Metric, role: str, engine: Deployment, column: list[float], trend: float | None
) -> None:
    """Newer half of the window by the older."""
    page = window({metric: np.array(column)}, scrapes=len(column))
    assert signals(engine, {role: page}).value(SignalId.TRANSFER_IN_FLIGHT_TREND) == trend
