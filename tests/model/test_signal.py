"""Signals: names, units, qualities, sets."""

from __future__ import annotations

import itertools

import pytest

from pdscope.model.signal import Quality, Scope, ScopeKind, Signal, SignalId, SignalSet, instance_scope, worst
from pdscope.model.units import Unit

FIXED_NAMES = {
    *(f"{what}_{q}_seconds" for what in ("ttft", "itl") for q in ("p50", "p95", "p99")),
    *("requests_per_second", "prompt_tokens_per_request", "generation_tokens_per_second"),
    *("kv_bytes_per_token", "kv_bytes_per_request"),
    *("kv_transfer_demand_bytes_per_second", "kv_transfer_achieved_bytes_per_second"),
    *("interconnect_capacity_bytes_per_second", "kv_transfer_utilization_ratio"),
    *("prefill_compute_utilization_ratio", "decode_hbm_bandwidth_utilization_ratio"),
    *("ttft_slo_attainment_ratio", "itl_slo_attainment_ratio", "role_imbalance_ratio"),
}


def test_names_that_users_rely_on() -> None:
    """They are never renamed."""
    assert not FIXED_NAMES - {str(signal) for signal in SignalId}


@pytest.mark.parametrize(
    ("signal", "unit"),
    [
        (SignalId.TTFT_P50, Unit.SECONDS),
        (SignalId.DATA_AGE, Unit.SECONDS),
        (SignalId.REQUESTS_PER_SECOND, Unit.REQUESTS_PER_SECOND),
        (SignalId.ARRIVALS_PER_SECOND, Unit.REQUESTS_PER_SECOND),
        (SignalId.GENERATION_TOKENS_PER_SECOND, Unit.TOKENS_PER_SECOND),
        (SignalId.GENERATION_RATE, Unit.TOKENS_PER_SECOND),
        (SignalId.PREEMPTIONS_PER_SECOND, Unit.PER_SECOND),
        (SignalId.PREFILL_QUEUE_GROWTH, Unit.PER_SECOND),
        (SignalId.KV_DEMAND, Unit.BYTES_PER_SECOND),
        (SignalId.LINK_CAPACITY, Unit.BYTES_PER_SECOND),
        (SignalId.KV_BYTES_PER_TOKEN, Unit.BYTES_PER_TOKEN),
        (SignalId.KV_BYTES_PER_REQUEST, Unit.BYTES),
        (SignalId.PROMPT_TOKENS_PER_REQUEST, Unit.TOKENS),
        (SignalId.LINK_UTILIZATION, Unit.RATIO),
        (SignalId.ADMISSION_QUEUE, Unit.REQUESTS),
        (SignalId.QUEUED, Unit.REQUESTS),
        (SignalId.REQUESTS_FINISHED, Unit.REQUESTS),
        (SignalId.TRANSFER_IN_FLIGHT, Unit.REQUESTS),
        (SignalId.SCRAPES, Unit.COUNT),
        (SignalId.KV_FREE_REQUESTS, Unit.COUNT),
        (SignalId.MOVING_SHARE, Unit.RATIO),
        (SignalId.LINK_FLOOR_SHARE, Unit.RATIO),
        (SignalId.DESCRIPTOR_TIME, Unit.SECONDS),
        (SignalId.DESCRIPTOR_BYTES, Unit.BYTES),
        (SignalId.UNSTAGED_TTFT, Unit.SECONDS),
        (SignalId.UNSTAGED_TTFT_SHARE, Unit.RATIO),
    ],
)
def test_the_unit_is_in_the_name(signal: SignalId, unit: Unit) -> None:
    """The longest ending that fits decides: bytes per second are not merely per second."""
    assert signal.unit is unit


def test_a_name_that_counts_says_what() -> None:
    """No quantity with a dimension falls through to a plain count."""
    plain = {s for s in SignalId if s.unit is Unit.COUNT}
    counted = {SignalId.SCRAPES, SignalId.SILENT_SCRAPES, SignalId.KV_FREE_REQUESTS, SignalId.TRANSFER_FLOOR_STEPS}
    found = {SignalId.CONTRADICTIONS, SignalId.COUNTERS_JUMP}
    devices = {SignalId.DEVICE_FAULT, SignalId.HARDWARE_FAULTS, SignalId.FOREIGN_DEVICES}
    assert plain == counted | found | devices


@pytest.mark.parametrize("qualities", list(itertools.permutations(Quality, 2)))
def test_a_chain_is_as_good_as_its_worst_link(qualities: tuple[Quality, Quality]) -> None:
    """In the order measured, derived, estimated, assumed; whatever comes first."""
    order = [Quality.MEASURED, Quality.DERIVED, Quality.ESTIMATED, Quality.ASSUMED]
    assert worst(*qualities) is order[max(map(order.index, qualities))]
    assert worst(qualities[0]) is qualities[0]


def signal(which: SignalId, value: float, scope: Scope) -> Signal:
    return Signal(which, scope, value, Quality.MEASURED, "test")


def test_a_set_finds_by_name_and_scope() -> None:
    """The deployment's own figure and that of an instance of the same name are two."""
    own = Scope(ScopeKind.DEPLOYMENT, "x")
    first = signal(SignalId.RUNNING, 1.0, own)
    second = signal(SignalId.RUNNING, 2.0, instance_scope("x"))
    found = SignalSet("x", [first, second])
    assert found.get(SignalId.RUNNING) is first
    assert found.get(SignalId.RUNNING, instance_scope("x")) is second
    assert found.value(SignalId.RUNNING, instance_scope("x")) == 2.0
    assert list(found.of(own)) == [first]
    assert list(found) == [first, second]
    assert len(found) == 2


def test_a_signal_is_new_and_hides_nothing_unless_it_says_so() -> None:
    """Age, observations and bounds are given where there are any."""
    one = signal(SignalId.RUNNING, 1.0, instance_scope("d0"))
    assert (one.age_seconds, one.samples, one.bounds) == (0.0, 0, None)


def test_what_is_not_there_is_unknown() -> None:
    """None, never zero."""
    found = SignalSet("x", [signal(SignalId.RUNNING, 0.0, instance_scope("d0"))])
    assert found.get(SignalId.RUNNING) is None
    assert found.value(SignalId.RUNNING) is None
    assert found.value(SignalId.RUNNING, instance_scope("d0")) == 0.0
