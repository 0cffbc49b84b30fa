"""The page for a browser."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdscope.model.finding import PendingChange, Verdict
from pdscope.model.report import Report
from pdscope.render.html import index_html, report_html


def test_a_trouble_is_marked_and_told_in_full(transfer_bound: Report) -> None:
    """The verdict as a heading, the summary, since when."""
    text = report_html(transfer_bound)
    [part] = transfer_bound.deployments
    assert f"<h2>{part.diagnosis.deployment}: kv_transfer_bandwidth</h2>" in text
    assert '<section class="trouble"' in text
    assert "is being confirmed" not in text


@pytest.mark.parametrize(
    ("verdict", "mood"),
    [(Verdict.IDLE, "calm"), (Verdict.METRICS_UNTRUSTED, "blind"), (Verdict.UNDETERMINED, "trouble")],
)
def test_each_verdict_has_a_mood(healthy: Report, verdict: Verdict, mood: str) -> None:
    """Fine, not known, not fine."""
    [part] = healthy.deployments
    changed = replace(part, diagnosis=replace(part.diagnosis, verdict=verdict))
    assert f'<section class="{mood}"' in report_html(replace(healthy, deployments=(changed,)))


def test_a_change_that_is_being_confirmed_is_told(healthy: Report) -> None:
    """With how many evaluations say so."""
    [part] = healthy.deployments
    pending = PendingChange(Verdict.PREFILL_QUEUE, 2)
    changed = replace(part, diagnosis=replace(part.diagnosis, pending=pending))
    text = report_html(replace(healthy, deployments=(changed,)))
    assert "prefill_queue is being confirmed (said by 2 evaluations since the last that agreed)" in text


def test_links_begin_with_the_base(healthy: Report) -> None:
    """A name in a query is escaped."""
    [part] = healthy.deployments
    changed = replace(part, diagnosis=replace(part.diagnosis, deployment="a&b c"))
    text = report_html(replace(healthy, deployments=(changed,)), base="/x")
    assert 'href="/x/diagnose/history?deployment=a%26b%20c"' in text
    assert 'href="/x/metrics"' in index_html("", base="/x")
    assert "&lt;b&gt;" in index_html("<b>")
