"""The text for a person: answer first, numbers, costs, what is not known; it fits a terminal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pdscope.model.finding import Evidence, Finding, Op, PendingChange, Remedy, Truth, Verdict
from pdscope.model.report import Report
from pdscope.model.scrape import FailureReason
from pdscope.model.signal import Quality, Signal, SignalId, instance_scope
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
    assert "to be confirmed: healthy, said by 2 evaluations since the last that agreed" in text
    assert "to be confirmed" not in report_text(transfer_bound)
    once = replace(first, diagnosis=replace(first.diagnosis, pending=PendingChange(Verdict.HEALTHY, 1)))
    assert "said by 1 evaluation since" in report_text(replace(transfer_bound, deployments=(once,)))


@pytest.mark.parametrize(("answers", "word"), [(1.0, "NO DATA"), (0.0, "DOWN"), (None, "DOWN")])
def test_who_answers_without_metrics_is_not_down(transfer_bound: Report, answers: float | None, word: str) -> None:
    """A restart would help neither."""
    first = transfer_bound.deployments[0]
    name = first.deployment.instances[-1].name
    silent = replace(first.instances[name], up=False, reason=FailureReason.HTTP_STATUS)
    known = (
        [] if answers is None else [Signal(SignalId.ANSWERS, instance_scope(name), answers, Quality.MEASURED, "asked")]
    )
    changed = replace(first, instances={**first.instances, name: silent}, signals=first.signals.extended(known))
    lines = report_text(replace(transfer_bound, deployments=(changed,))).splitlines()
    row = next(line for line in lines if line.startswith(f"  {name} ") and "vllm" in line)
    assert f" {word} " in row
    assert row.endswith("http_status")


@pytest.mark.parametrize("count", [1, 3, 5])
def test_what_is_not_believed_is_told(transfer_bound: Report, count: int) -> None:
    """With the reason, a few of them; not what a finding tells of already."""
    first = transfer_bound.deployments[0]
    why = "SM activity, where the work takes at least 0.6"
    taken = [
        Signal(SignalId.DISTRUSTED_COMPUTE, instance_scope(f"p{n}"), 0.01, Quality.MEASURED, why) for n in range(count)
    ]
    text = report_text(replace(transfer_bound, deployments=(replace(first, signals=first.signals.extended(taken)),)))
    assert f"  not believed: compute utilization 1 % of p0: {why}\n" in text
    assert text.count("not believed: compute") == min(count, 3)
    assert ("not believed: 2 more like these" in text) == (count == 5)
    told = Finding("metrics_untrusted", instance_scope("p0"), Truth.TRUE, evidence=(evidence(taken[0]),))
    assert "not believed" not in answered(
        replace(transfer_bound, deployments=(replace(first, signals=first.signals.extended(taken[:1])),)),
        Verdict.METRICS_UNTRUSTED,
        told,
    )


def evidence(of: Signal) -> Evidence:
    """A comparison that shows a signal."""
    return Evidence(of.id, of.scope, of.value, of.id.unit, Op.LT, 0.1, Truth.TRUE, of.source, of.quality, 0.0)


def answered(report: Report, verdict: Verdict, *findings: Finding) -> str:
    """The text of a report whose first deployment has this answer."""
    first = report.deployments[0]
    diagnosis = replace(first.diagnosis, verdict=verdict, findings=findings, summary="It says so.")
    return report_text(replace(report, deployments=(replace(first, diagnosis=diagnosis),)))


def found(rule: str, *remedies: str, at: str = "d0", **fields: object) -> Finding:
    verdict = Verdict(rule) if rule in [*Verdict] else None
    made = tuple(Remedy(name, f"do {name}", "costs", "if") for name in remedies)
    return replace(
        Finding(rule, instance_scope(at), Truth.TRUE, verdict, remedies=made, headline=f"{at} has {rule}"),
        culprits=(at,),
        **fields,
    )


def test_whose_remedies_they_are_is_said(transfer_bound: Report) -> None:
    """What is dead first, then the verdict, then what stands beside it; numbered through."""
    text = answered(
        transfer_bound,
        Verdict.FRONTEND_BOUND,
        found("frontend_bound", "add_instances", "shed_load"),
        found("itl_unstable", "limit_running"),
        found("instance_down", "restart_instance", at="d1", urgent=True),
    )
    lines = [line.strip() for line in text.partition("What helps, and what it costs\n")[2].splitlines()]
    assert [line for line in lines if not line.startswith(("cost:", "if:"))][:8] == [
        "First: instance_down on d1",
        "1. do restart_instance",
        "Then: frontend_bound on d0",
        "2. do add_instances",
        "3. do shed_load",
        "Beside it: itl_unstable on d0",
        "4. do limit_running",
        "",
    ]


def test_the_verdict_s_remedies_need_no_name(transfer_bound: Report) -> None:
    """They are what the heading means."""
    text = answered(transfer_bound, Verdict.FRONTEND_BOUND, found("frontend_bound", "add_instances"))
    assert "What helps, and what it costs\n    1. do add_instances\n" in text
    assert "Then:" not in text


def test_findings_beside_the_verdict_say_what_they_found(transfer_bound: Report) -> None:
    """A line each, two scopes a rule; not what the summary says already, and nothing of what does not hold."""
    text = answered(
        transfer_bound,
        Verdict.FRONTEND_BOUND,
        found("frontend_bound"),
        *(found("decode_starved", at=f"d{n}") for n in range(4)),
        found("itl_unstable", headline="it says so"),
        found("pd_ratio", headline="balanced would be 1 to 3"),
        found("link_shared", truth=Truth.UNKNOWN),
    )
    beside = [line for line in text.splitlines() if line.startswith("  beside it, ")]
    assert beside == [
        "  beside it, decode_starved: d0 has decode_starved",
        "  beside it, decode_starved: d1 has decode_starved",
        "  beside it, decode_starved: the same on 2 more",
        "  beside it, pd_ratio: balanced would be 1 to 3",
    ]
