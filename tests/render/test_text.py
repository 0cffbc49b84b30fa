"""The text for a person: answer first, numbers, costs, what is not known; it fits a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pdscope.model.finding import PendingChange, Verdict
from pdscope.model.report import Report
from pdscope.render.text import report_text


def test_golden_text(transfer_bound: Report, golden: Callable[[str, str], None]) -> None:
    """The whole answer to a real transfer-bound run."""
    golden("diagnose-vllm-transferbound.txt", report_text(transfer_bound))


def test_first_line_is_the_answer(transfer_bound: Report) -> None:
    """Nobody has to scroll at night."""
    assert report_text(transfer_bound).splitlines()[0] == "pd (tiny): KV_TRANSFER_BANDWIDTH"


def test_every_remedy_shows_cost_and_precondition(transfer_bound: Report) -> None:
    """As many costs and conditions as numbered remedies."""
    text = report_text(transfer_bound)
    indented = [line.strip() for line in text.splitlines() if line.startswith("    ")]
    numbered = [line for line in indented if line[:2].rstrip(".").isdigit()]
    assert len(numbered) == text.count("cost: ") == text.count("if:   ") == 6


def test_objective_inside_the_bucket_is_said(transfer_bound: Report, healthy: Report) -> None:
    """Where the histogram cannot decide, the reader is told."""
    inside = "THE OBJECTIVE LIES INSIDE"
    slo = healthy.deployments[0].deployment.slo
    bounds = healthy.deployments[0].signals.get("ttft_p50_seconds").bounds  # type: ignore[arg-type,union-attr]
    assert bounds is not None
    expected = bounds[0] < slo.ttft_p50_seconds < bounds[1]
    ttft = next(line for line in report_text(healthy).splitlines() if line.startswith("  TTFT p50"))
    assert (inside in ttft) is expected
    assert inside not in next(line for line in report_text(transfer_bound).splitlines() if "ITL p50" in line)


def test_lines_fit_a_terminal(transfer_bound: Report, healthy: Report) -> None:
    """No line is wider than 140 characters."""
    for report in (transfer_bound, healthy):
        assert max(map(len, report_text(report).splitlines())) <= 140


def test_unknown_deployment_gives_nothing(transfer_bound: Report) -> None:
    """The caller refuses unknown names; the renderer invents nothing."""
    assert report_text(transfer_bound, deployment="nope") == "\n"


def test_pending_change_is_said(transfer_bound: Report) -> None:
    """While a change is being confirmed the reader knows."""
    first = transfer_bound.deployments[0]
    waiting = replace(first, diagnosis=replace(first.diagnosis, pending=PendingChange(Verdict.HEALTHY, 2)))
    text = report_text(replace(transfer_bound, deployments=(waiting,)))
    assert "about to change to healthy (seen 2 times in a row)" in text
    assert "about to change" not in report_text(transfer_bound)
