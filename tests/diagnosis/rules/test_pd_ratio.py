"""`pd_ratio`: roles sized wrongly for each other."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.pd_ratio import RULE
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Deployment, Role
from support.signals import CALM, FINDINGS, Figures, changed, deployment, finding, findings, instance, verdict_of

STORY = FINDINGS["pd_ratio"]


def loads(prefill: float | None, decode: float | None) -> Figures:
    """The calm state with these loads."""
    return changed(CALM, {SignalId.PREFILL_LOAD: prefill, SignalId.DECODE_LOAD: decode})


def fleet(senders: int, receivers: int) -> Deployment:
    """So many instances of each role."""
    return deployment(
        *(instance(f"p{n}", Role.PREFILL) for n in range(senders)),
        *(instance(f"d{n}", Role.DECODE) for n in range(receivers)),
    )


@pytest.mark.parametrize(
    ("prefill", "decode", "truth"),
    [
        (0.85, 0.4, Truth.TRUE),
        (0.4, 0.85, Truth.TRUE),
        (0.84, 0.1, Truth.FALSE),
        (0.95, 0.41, Truth.FALSE),
        (0.95, 0.95, Truth.FALSE),
        (0.1, 0.1, Truth.FALSE),
        (0.95, None, Truth.UNKNOWN),
        (None, 0.95, Truth.UNKNOWN),
        (None, None, Truth.UNKNOWN),
    ],
)
def test_one_hot_and_the_other_cold(prefill: float | None, decode: float | None, truth: Truth) -> None:
    """Anything else is balance, or no knowledge."""
    assert finding(RULE, loads(prefill, decode)).truth is truth


@pytest.mark.parametrize(
    ("senders", "receivers", "prefill", "decode", "ratio"),
    [
        (1, 4, 1.0, 0.375, "2 prefill : 3 decode would balance; there are 1 : 4"),
        (1, 4, 1.0, 0.125, "2 prefill : 1 decode would balance; there are 1 : 4"),
        (2, 6, 0.9, 0.3, "1 prefill : 1 decode would balance; there are 2 : 6"),
        (6, 2, 0.3, 0.9, "1 prefill : 1 decode would balance; there are 6 : 2"),
        (1, 1, 0.95, 0.2, "5 prefill : 1 decode would balance; there are 1 : 1"),
        (4, 1, 0.12, 1.0, "1 prefill : 2 decode would balance; there are 4 : 1"),
        (1, 1, 1.0, 0.1, "over 9 prefill : 1 decode would balance; there are 1 : 1"),
        (1, 1, 0.1, 1.0, "1 prefill : over 9 decode would balance; there are 1 : 1"),
    ],
)
def test_the_balanced_ratio(senders: int, receivers: int, prefill: float, decode: float, ratio: str) -> None:
    """Instances of both roles then serve as much, each at its service rate."""
    found = finding(RULE, loads(prefill, decode), fleet(senders, receivers))
    assert ratio in found.headline


def test_the_service_rates_are_told() -> None:
    """Five requests a second by the load of all instances of a role: what one of them can serve."""
    found = finding(RULE, loads(1.0, 0.125), fleet(1, 4))
    assert found.headline == (
        "prefill works at 100 % and decode at 12.5 %: 2 prefill : 1 decode would balance; there are 1 : 4 (by service "
        "rates of about 5 requests/s for one prefill and 10 requests/s for one decode instance)"
    )
    nobody = changed(loads(1.0, 0.125), {SignalId.REQUESTS_PER_SECOND: None})
    assert finding(RULE, nobody, fleet(1, 4)).headline.endswith("there are 1 : 4")


def test_an_idle_role_has_no_ratio() -> None:
    """Work of nothing divides into nothing."""
    assert "1 prefill : 1 decode do not fit the traffic" in finding(RULE, loads(0.9, 0.0)).headline


@pytest.mark.parametrize(("link", "truth"), [(0.9, Truth.FALSE), (0.89, Truth.TRUE), (None, Truth.TRUE)])
def test_a_full_link_is_another_question(link: float | None, truth: Truth) -> None:
    """Then neither more prefill nor more decode helps."""
    assert finding(RULE, changed(STORY, {SignalId.LINK_UTILIZATION: link})).truth is truth


@pytest.mark.parametrize(("answering", "truth"), [(0.5, Truth.FALSE), (1.0, Truth.TRUE), (None, Truth.TRUE)])
def test_a_role_that_is_gone_has_no_ratio(answering: float | None, truth: Truth) -> None:
    """Whatever its devices show; in a recording nobody knows."""
    assert finding(RULE, changed(STORY, {SignalId.ROLES_ANSWERING: answering})).truth is truth


@pytest.mark.parametrize(("free", "truth"), [(0.9, Truth.FALSE), (1.0, Truth.TRUE), (None, Truth.TRUE)])
def test_a_queue_before_a_full_prefill_pool_is_no_load(free: float | None, truth: Truth) -> None:
    """It waits for decode to fetch; the other way round the pool does not matter."""
    assert finding(RULE, changed(STORY, {("p0", SignalId.KV_FREE_REQUESTS): free})).truth is truth
    other = changed(loads(0.2, 0.9), {("p0", SignalId.KV_FREE_REQUESTS): free})
    assert finding(RULE, other).truth is Truth.TRUE


def test_remedy_of_the_role_that_is_short() -> None:
    """Not of the other."""
    assert [r.id for r in finding(RULE, STORY).remedies] == ["add_prefill"]
    assert [r.id for r in finding(RULE, loads(0.2, 0.9)).remedies] == ["add_decode"]


@pytest.mark.parametrize(("name", "value"), [("hot", 0.96), ("cold", 0.1), ("link", 0.1)])
def test_thresholds_are_configurable(name: str, value: float) -> None:
    """A stricter one turns the answer."""
    assert finding(RULE, STORY, thresholds={name: value}).truth is Truth.FALSE


def test_one_role_has_no_ratio() -> None:
    """Unified engines do both."""
    assert findings(RULE, STORY, deployment(instance("u0", Role.UNIFIED))) == []


def test_it_is_no_verdict() -> None:
    """The deployment is as healthy as without it, and the finding stands beside."""
    diagnosis = verdict_of(STORY).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    held = [f for f in diagnosis.findings if f.rule == RULE.id]
    assert [(f.truth, f.verdict) for f in held] == [(Truth.TRUE, None)]
