"""`link_shared`: what is not KV on the ports of KV. A finding, never a verdict."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.rules.link_shared import RULE
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from support.signals import (
    CALM,
    FINDINGS,
    Changes,
    changed,
    deployment,
    derived,
    finding,
    findings,
    instance,
    verdict_of,
)

SHARED = FINDINGS["link_shared"]


def test_holds_with_both_figures() -> None:
    """What is foreign, and of how much."""
    found = finding(RULE, SHARED)
    assert (found.truth, found.verdict) == (Truth.TRUE, None)
    assert "12 GB/s" in found.headline
    assert "50 GB/s" in found.headline


def test_a_tenth_of_the_line_is_tolerated() -> None:
    """Two counters are never read at the same moment."""
    little = changed(SHARED, {SignalId.LINK_FOREIGN: derived(4.9e9)})
    assert finding(RULE, little).truth is Truth.FALSE
    assert finding(RULE, little, thresholds={"share": 0.05}).truth is Truth.TRUE


@pytest.mark.parametrize("changes", [{SignalId.LINK_FOREIGN: None}, {SignalId.NIC_CAPACITY: None}])
def test_unknown_without_either(changes: Changes) -> None:
    """Ports nobody looks at, or whose line is not stated."""
    assert finding(RULE, changed(SHARED, changes)).truth is not Truth.TRUE


def test_nothing_is_shared_where_nothing_is_transferred() -> None:
    """One engine has no link."""
    assert findings(RULE, SHARED, deployment(instance("u0", Role.UNIFIED))) == []


def test_it_is_no_verdict() -> None:
    """The deployment is as healthy as without it, and the finding stands beside."""
    diagnosis = verdict_of(SHARED).diagnosis
    assert diagnosis.verdict is Verdict.HEALTHY
    assert verdict_of(CALM).diagnosis.verdict is Verdict.HEALTHY
    assert any(f.rule == "link_shared" and f.truth is Truth.TRUE for f in diagnosis.findings)
