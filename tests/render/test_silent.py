"""Exporters that give nothing are named, with what is not known for lack of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdscope.model.report import Report, TargetState
from pdscope.render.html import report_html
from pdscope.render.silent import silent_sources
from pdscope.render.text import report_text


def with_targets(report: Report, *states: TargetState) -> Report:
    return replace(report, targets=(*report.targets, *states))


def exporter(name: str = "gpu-node0", source: str = "dcgm", **fields: object) -> TargetState:
    return replace(TargetState("pd", name, source, up=False), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("up", "age_seconds", "silent"),
    [(False, None, True), (False, 5.0, True), (True, 5.0, False), (True, 179.0, False), (True, 181.0, True)],
    ids=["never", "lost lately", "well", "measures rarely", "long ago"],
)
def test_which_sources_are_silent(transfer_bound: Report, up: bool, age_seconds: float | None, silent: bool) -> None:
    """The last scrape failed, or what it brings is too old to be used."""
    last = None if age_seconds is None else transfer_bound.generated_at - age_seconds
    report = with_targets(transfer_bound, exporter(up=up, last_success=last))
    assert bool(silent_sources(report, report.deployments[0])) is silent
    assert ("NO DATA from gpu-node0 (dcgm)" in report_text(report)) is silent


def test_instances_and_other_deployments_are_not_in_it(transfer_bound: Report) -> None:
    """An instance shows as down; what another deployment lacks is not this one's."""
    report = with_targets(transfer_bound, exporter("d0", "vllm"), replace(exporter(), deployment="other"))
    assert silent_sources(report, report.deployments[0]) == ()


@pytest.mark.parametrize(
    ("source", "lost"), [("dcgm", "faults of its devices"), ("node", "its ports"), ("own", "all that it alone tells")]
)
def test_what_is_lost_is_said(transfer_bound: Report, source: str, lost: str) -> None:
    """In the text and on the page, with how long it has been; the answer and its confidence are as they were."""
    ago = transfer_bound.generated_at - 95
    never, once = exporter(source=source), exporter(source=source, last_success=ago)
    text = " ".join(report_text(with_targets(transfer_bound, never)).split())
    assert f"NO DATA from gpu-node0 ({source}) at all: nothing is known from it of" in text
    assert lost in text
    later = with_targets(transfer_bound, once)
    assert f"NO DATA from gpu-node0 ({source}) for 95 s: nothing since of" in report_text(later)
    assert f"NO DATA from gpu-node0 ({source})" in report_html(later)
    assert report_text(later).splitlines()[:2] == report_text(transfer_bound).splitlines()[:2]
