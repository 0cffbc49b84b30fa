"""The report for a person at a terminal: the answer, then why, what to do and what it costs, what is not known."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from pdscope.diagnosis.advice import Advice, Place, advise
from pdscope.model.finding import Diagnosis, Evidence, Finding, Op, PendingChange, Truth
from pdscope.model.report import DeploymentReport, Report
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.model.units import Unit, format_quantity
from pdscope.render.json import timestamp
from pdscope.render.silent import Silent, silent_sources

_WIDTH = 110
_DISTRUSTED_SHOWN = 3
_SCOPES_SHOWN = 2
_OPS = {Op.GE: ">=", Op.GT: ">", Op.LE: "<=", Op.LT: "<"}
_FIGURES = (
    SignalId.REQUESTS_PER_SECOND,
    SignalId.ARRIVALS_PER_SECOND,
    SignalId.PROMPT_TOKENS_PER_REQUEST,
    SignalId.GENERATION_TOKENS_PER_SECOND,
    SignalId.KV_BYTES_PER_TOKEN,
    SignalId.KV_BYTES_PER_REQUEST,
    SignalId.KV_DEMAND,
    SignalId.KV_ACHIEVED,
    SignalId.LINK_CAPACITY,
    SignalId.LINK_UTILIZATION,
    SignalId.PREFILL_COMPUTE_UTILIZATION,
    SignalId.DECODE_HBM_UTILIZATION,
)
_COLUMNS = (
    ("running", SignalId.RUNNING),
    ("in flight", SignalId.WORK_IN_FLIGHT),
    ("KV usage", SignalId.KV_USAGE),
    ("tokens/s", SignalId.GENERATION_RATE),
)


def report_text(report: Report, *, deployment: str | None = None) -> str:
    """Plain text, one block a deployment.

    Args:
        report: of one cycle.
        deployment: only this one.
    """
    blocks = [
        "\n".join(_deployment(d, report))
        for d in report.deployments
        if deployment is None or d.deployment.name == deployment
    ]
    return "\n\n".join(blocks) + "\n"


def _deployment(report: DeploymentReport, whole: Report) -> Iterator[str]:
    diagnosis = report.diagnosis
    model = f" ({report.deployment.model.name})" if report.deployment.model.name else ""
    yield f"{diagnosis.deployment}{model}: {diagnosis.verdict.upper()}"
    yield (
        f"  stage {diagnosis.stage}, confidence {diagnosis.confidence}, phase {diagnosis.phase}; "
        f"{whole.window_seconds:g} s up to {timestamp(whole.generated_at)}"
    )
    if diagnosis.pending is not None:
        yield f"  to be confirmed: {diagnosis.pending.verdict}, {pending_words(diagnosis.pending)}"
    if diagnosis.culprits:
        yield f"  at fault: {_some(diagnosis.culprits)}"
    yield ""
    yield from _wrapped(diagnosis.summary, "  ")
    holding = [f for f in diagnosis.findings if f.truth is Truth.TRUE]
    yield from _beside(diagnosis, holding)
    for silent in silent_sources(whole, report):
        yield from _wrapped(_no_data(silent, whole.generated_at), "  ", hang="      ")
    yield ""
    yield from _latencies(report)
    yield from _figures(report)
    yield from _not_believed(report, holding)
    if holding:
        yield ""
        yield "  Evidence"
        yield from _all_evidence(holding)
    yield from _remedies(advise(diagnosis.verdict, diagnosis.findings))
    yield from _unknown(diagnosis.findings)
    yield ""
    yield from _instances(report)
    if diagnosis.next_steps:
        yield ""
        yield "  Next"
        for step in diagnosis.next_steps:
            yield from _wrapped(step, "    ")


def pending_words(pending: PendingChange) -> str:
    """How many evaluations speak for a change."""
    return f"said by {pending.windows} evaluation{'' if pending.windows == 1 else 's'} since the last that agreed"


def _beside(diagnosis: Diagnosis, holding: Sequence[Finding]) -> Iterator[str]:
    """A line for each finding that is not the verdict; each rule on the scopes that it holds on most."""
    headlines: dict[str, list[str]] = {}
    for finding in holding:
        told = not finding.headline or finding.headline[1:] in diagnosis.summary
        if finding.verdict is not diagnosis.verdict and not told:
            headlines.setdefault(finding.rule, []).append(finding.headline)
    for rule, found in headlines.items():
        for headline in found[:_SCOPES_SHOWN]:
            yield from _wrapped(f"beside it, {rule}: {headline}", "  ", hang="      ")
        if len(found) > _SCOPES_SHOWN:
            yield f"  beside it, {rule}: the same on {len(found) - _SCOPES_SHOWN} more"


def _no_data(silent: Silent, now: float) -> str:
    if silent.last_success is None:
        return f"NO DATA from {silent.target} ({silent.source}) at all: nothing is known from it of {silent.lost}"
    seconds = now - silent.last_success
    return f"NO DATA from {silent.target} ({silent.source}) for {seconds:.0f} s: nothing since of {silent.lost}"


def _latencies(report: DeploymentReport) -> Iterator[str]:
    slo = report.deployment.slo
    rows = (
        ("TTFT p50", SignalId.TTFT_P50, slo.ttft_p50_seconds),
        ("TTFT p95", SignalId.TTFT_P95, slo.ttft_p95_seconds),
        ("TTFT p99", SignalId.TTFT_P99, slo.ttft_p99_seconds),
        ("ITL p50", SignalId.ITL_P50, slo.itl_p50_seconds),
        ("ITL p95", SignalId.ITL_P95, slo.itl_p95_seconds),
        ("ITL p99", SignalId.ITL_P99, slo.itl_p99_seconds),
    )
    for label, signal, limit in rows:
        found = report.signals.get(signal)
        if found is None:
            if limit is not None:
                yield f"  {label:<9} {'unknown':<12} objective {format_quantity(limit, Unit.SECONDS)}"
            continue
        value = format_quantity(found.value, Unit.SECONDS)
        against = ""
        if limit is not None:
            state = "over" if found.value > limit else "within"
            against = f"{state} {format_quantity(limit, Unit.SECONDS)}"
        bounds = ""
        if found.bounds is not None:
            low, high = (format_quantity(b, Unit.SECONDS) for b in found.bounds)
            bounds = f"true value in {low} .. {high}"
            if limit is not None and found.bounds[0] < limit < found.bounds[1]:
                bounds += ", THE OBJECTIVE LIES INSIDE"
        quality = "" if found.quality is Quality.MEASURED else f"[{found.quality}]"
        yield f"  {label:<9} {value:<12} {against:<16} {quality:<12} {bounds}".rstrip()


def _figures(report: DeploymentReport) -> Iterator[str]:
    known = [(s, f) for s in _FIGURES if (f := report.signals.get(s)) is not None]
    for signal, found in known:
        quality = "" if found.quality is Quality.MEASURED else f" [{found.quality}]"
        yield f"  {_words(signal):<34} {format_quantity(found.value, signal.unit)}{quality}"


def _not_believed(report: DeploymentReport, holding: Sequence[Finding]) -> Iterator[str]:
    """Figures that were taken back and that no finding tells of."""
    told = {(e.signal, e.scope) for f in holding for e in f.evidence}
    taken = [s for s in report.signals if s.id.is_distrusted and (s.id, s.scope) not in told]
    for signal in taken[:_DISTRUSTED_SHOWN]:
        value = format_quantity(signal.value, signal.id.unit)
        words = _words(signal.id).removeprefix("distrusted ")
        yield from _wrapped(
            f"not believed: {words} {value} of {signal.scope.name}: {signal.source}", "  ", hang="      "
        )
    if len(taken) > _DISTRUSTED_SHOWN:
        yield f"  not believed: {len(taken) - _DISTRUSTED_SHOWN} more like these"


def _all_evidence(holding: Sequence[Finding]) -> Iterator[str]:
    """Each rule on the two scopes that it holds on most; the others by name."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in holding:
        by_rule.setdefault(finding.rule, []).append(finding)
    for rule, findings in by_rule.items():
        for finding in findings[:_SCOPES_SHOWN]:
            yield from _evidence(finding)
        rest = [f.scope.name for f in findings[_SCOPES_SHOWN:]]
        if rest:
            yield f"    {rule}: the same on {_some(rest)}"


def _evidence(finding: Finding) -> Iterator[str]:
    where = f" on {finding.scope.name}" if finding.scope.kind in ("instance", "link", "role") else ""
    yield f"    {finding.rule}{where}"
    for evidence in finding.evidence:
        yield from _wrapped(_comparison(evidence), "      ", hang="          ")


def _comparison(evidence: Evidence) -> str:
    mark = {Truth.TRUE: "+", Truth.FALSE: "-", Truth.UNKNOWN: "?"}[evidence.truth]
    value = format_quantity(evidence.value, evidence.unit)
    limit = format_quantity(evidence.threshold, evidence.unit)
    return (
        f"{mark} {_words(evidence.signal)} {value} {_OPS[evidence.op]} {limit}  "
        f"[{evidence.quality}, {evidence.age_seconds:.0f} s old] {evidence.source}"
    )


def _remedies(advice: Sequence[Advice]) -> Iterator[str]:
    """Numbered through all groups; whose they are is said of all but those of the verdict."""
    number = 0
    for group in advice:
        yield from _heading(group, first=number == 0)
        for number, remedy in enumerate(group.remedies, number + 1):  # noqa: B020 - it goes on where it was
            setting = f" ({remedy.setting})" if remedy.setting else ""
            yield from _wrapped(f"{number}. {remedy.action}{setting}", "    ", hang="       ")
            yield from _wrapped(f"cost: {remedy.cost}", "       ")
            yield from _wrapped(f"if:   {remedy.precondition}", "       ")


def _heading(group: Advice, *, first: bool) -> Iterator[str]:
    if first:
        yield ""
        yield "  What helps, and what it costs"
    where = f" on {_some(group.culprits)}" if group.culprits else ""
    match group.place:
        case Place.FIRST:
            yield f"    First: {group.rule}{where}"
        case Place.VERDICT:
            if not first:
                yield f"    Then: {group.rule}{where}"
        case Place.BESIDE:
            yield f"    Beside it: {group.rule}{where}"


def _unknown(findings: Sequence[Finding]) -> Iterator[str]:
    unknown = [f for f in findings if f.truth is Truth.UNKNOWN]
    if not unknown:
        return
    yield ""
    yield "  Not decided, for lack of signals"
    for finding in unknown:
        yield from _wrapped(
            f"{finding.rule}: {', '.join(finding.missing) or 'see its evidence'}", "    ", hang="      "
        )


def _instances(report: DeploymentReport) -> Iterator[str]:
    yield "  Means over the window"
    header = f"  {'instance':<20} {'role':<8} {'engine':<12} {'state':<8} {'verdict':<22}"
    yield header + "".join(f" {label:>10}" for label, _ in _COLUMNS)
    for instance in report.deployment.instances:
        state = report.instances[instance.name]
        scope = instance_scope(instance.name)
        answers = report.signals.value(SignalId.ANSWERS, scope)
        up = "up" if state.up else "NO DATA" if answers else "DOWN"
        cells = []
        for _, signal in _COLUMNS:
            value = report.signals.value(signal, scope)
            unit = Unit.RATIO if signal.unit is Unit.RATIO else Unit.COUNT
            cells.append("-" if value is None else format_quantity(value, unit))
        verdict = report.diagnosis.worker_verdicts[instance.name]
        row = f"  {instance.name:<20} {instance.role:<8} {instance.engine or '?':<12} {up:<8} {verdict:<22}"
        yield (
            row + "".join(f" {cell:>10}" for cell in cells) + (f"  {state.reason}" if state.reason is not None else "")
        )


def _words(signal: SignalId) -> str:
    return (
        signal.value.removesuffix("_ratio").removesuffix("_seconds").removesuffix("_bytes_per_second").replace("_", " ")
    )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"


def _wrapped(text: str, indent: str, hang: str | None = None) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=hang or indent, break_on_hyphens=False
    ) or [indent]
