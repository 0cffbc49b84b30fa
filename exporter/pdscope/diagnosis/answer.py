"""Words and confidence: what a person reads first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pdscope.diagnosis.asking import profiles, queries, router_views
from pdscope.diagnosis.base import Case, objectives
from pdscope.diagnosis.transfer_wait import transfer_wait
from pdscope.model.finding import Confidence, Finding, Phase, Stage, Truth, Verdict
from pdscope.model.signal import Quality, ScopeKind, SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.model.units import format_quantity

_FEW_REQUESTS = 20
_UNEVEN = 3.0
_CONTRADICTION = 0.1
_IMPOSSIBLE = 1.25
_NEAR_LIMIT = 0.9
_FAR = 10.0
"""Times the present load: beyond that nothing is known of what comes first."""
_WRONG_ANSWERS = "late_kv_read"
"""The finding that nothing may stand before."""
_CONTRADICTED, _INSTANCE = "engine_setting", ScopeKind.INSTANCE
"""The finding, and its scope, of a configuration that does not fit what is there."""
_DOCTOR = "pdscope doctor --config.file=pdscope.yml  # your file: why a target gives no data, and what to switch on"
_NO_RULE = "no rule of a verdict holds"
_LAST = (Verdict.UNDETERMINED, Verdict.IDLE, Verdict.HEALTHY)
"""Verdicts that are judged when no other holds: what they lack is what keeps the answer from being one."""
_PHASE_STAGE = {
    Phase.DECODE_STEADY_STATE: Stage.DECODE,
    Phase.PREFILL: Stage.PREFILL,
}


def confidence_of(verdict: Verdict, deciding: Sequence[Finding], case: Case) -> Confidence:
    """High when the decisive signals are measured, medium when one is derived or estimated, low when one is missing.

    A cause named from a handful of requests is at most medium: their quantiles are guesses. So is a cause on one
    instance while work is spread unevenly over its role, unless that is the cause; and health beside a link that is
    asked for all that it is said to carry.
    """
    if not deciding or verdict in (Verdict.INSUFFICIENT_DATA, Verdict.UNDETERMINED):
        return Confidence.LOW
    if verdict is Verdict.HEALTHY and not (objectives(case.deployment, "ttft") and objectives(case.deployment, "itl")):
        return Confidence.LOW  # half a promise cannot be seen to be kept
    quality = deciding[0].decisive
    if quality is None:
        return Confidence.LOW
    if quality is not Quality.MEASURED:
        return Confidence.MEDIUM
    finished = case.signals.value(SignalId.REQUESTS_FINISHED)
    few = (finished is None or finished < _FEW_REQUESTS) and verdict is not Verdict.IDLE
    unexplained = verdict is not Verdict.ROUTER_IMBALANCE and _uneven(case, deciding)
    overasked = verdict is Verdict.HEALTHY and _overasked(case) is not None
    scopes = [instance_scope(i.name) for i in case.deployment.instances]
    contradicted = any(case.signals.get(SignalId.CONTRADICTIONS, scope) for scope in scopes)
    doubtful = contradicted or few or unexplained or overasked or silent_instances(case)
    return Confidence.MEDIUM if doubtful else Confidence.HIGH


def _uneven(case: Case, deciding: Sequence[Finding]) -> bool:
    """One hot instance beside idle ones: what holds it back may be where requests are sent, not what it is made of."""
    ratio = case.signals.value(SignalId.ROLE_IMBALANCE)
    return deciding[0].scope.kind is ScopeKind.INSTANCE and ratio is not None and ratio >= _UNEVEN


def summarise(
    case: Case, phase: Phase, verdict: Verdict, deciding: Sequence[Finding], findings: Sequence[Finding]
) -> str:
    """One sentence with the numbers; where phase and stage disagree it says why.

    Answers that may be wrong are said before anything else, whatever the verdict.
    """
    wrong = next((f for f in findings if f.rule == _WRONG_ANSWERS and f.truth is Truth.TRUE), None)
    before = "" if wrong is None else f"{wrong.headline}; apart from that, "
    contradiction = _contradiction(findings, deciding)
    if contradiction and (not deciding or verdict is Verdict.INSUFFICIENT_DATA):
        before += f"{contradiction}; "
        contradiction = ""
    if not deciding:
        return _sentence(f"{before}{_cannot_tell(case, findings)}", case, findings)
    text = before + deciding[0].headline
    if len(deciding) > 1:
        text += f"; the same on {len(deciding) - 1} more"
    if verdict is Verdict.UNDETERMINED:
        text += _ruled_out(findings)
    if verdict is Verdict.HEALTHY:
        text += _nearness(case, findings, limit_seen=wrong is not None)
    silent = silent_instances(case)
    if silent and verdict is not Verdict.INSUFFICIENT_DATA:
        text += f"; NO DATA from {', '.join(silent[:4])}{' ...' if len(silent) > 4 else ''}, so this is about the rest"
    clause = _disagreement(case, phase, verdict.stage, findings)
    if clause:
        text += f"; {clause}"
    if contradiction:
        text += f"; but {contradiction}"
    return _sentence(text, case, deciding)


def _contradiction(findings: Sequence[Finding], deciding: Sequence[Finding]) -> str:
    """Where the configuration does not fit what is there, at fault or not: any answer may be wrong because of it."""
    told = [f for f in findings if f.rule == _CONTRADICTED and f.truth is Truth.TRUE and f.scope.kind is _INSTANCE]
    culprits = {name for f in deciding for name in f.culprits}
    told.sort(key=lambda f: f.scope.name not in culprits)
    more = [f"likewise {', '.join(f.scope.name for f in told[2:6])}"] if len(told) > 2 else []
    return "; ".join([f.headline for f in told[:2]] + more)


def _sentence(text: str, case: Case, findings: Sequence[Finding]) -> str:
    """With a capital and a full stop. A name that stands first keeps its spelling: people search for it."""
    names = {*(i.name for i in case.deployment.instances), *(name for f in findings for name in f.culprits)}
    first = text.partition(" ")[0].rstrip(",:;")
    return f"{text if first in names else text[:1].upper() + text[1:]}."


def _ruled_out(findings: Sequence[Finding]) -> str:
    """What it is not, and what nobody can say for lack of signals."""
    by_verdict: dict[Verdict, list[Truth]] = {}
    for finding in findings:
        if finding.verdict is not None and finding.verdict.stage is not Stage.NONE:
            by_verdict.setdefault(finding.verdict, []).append(finding.truth)
    out = [v for v, truths in by_verdict.items() if Truth.UNKNOWN not in truths]
    unknown = [v for v, truths in by_verdict.items() if Truth.UNKNOWN in truths]
    said = f"; ruled out: {', '.join(out)}" if out else ""
    return said + (f"; not decided: {', '.join(unknown)}" if unknown else "")


def silent_instances(case: Case) -> list[str]:
    """Instances that gave nothing in the window."""
    return [
        i.name for i in case.deployment.instances if case.signals.value(SignalId.SCRAPES, instance_scope(i.name)) == 0
    ]


def _nearness(case: Case, findings: Sequence[Finding], *, limit_seen: bool) -> str:
    """What is near a limit although the objectives are kept, and what could not be looked at."""
    overasked = _overasked(case)
    if overasked is not None:
        return f"; {overasked}"
    unknown = [f.verdict for f in findings if f.truth is Truth.UNKNOWN and f.verdict is not None]
    text = f"{'' if limit_seen else ', and no rule sees a limit reached'}{_saturation(case)}"
    if unknown:
        text += f"; not looked at, for lack of signals: {', '.join(dict.fromkeys(unknown))}"
    return text


def _overasked(case: Case) -> str | None:
    """That demand, a product of figures, comes to the capacity of the link, and what of that is really seen."""
    link, capacity = case.signals.get(SignalId.LINK_UTILIZATION), case.signals.value(SignalId.LINK_CAPACITY)
    if link is None or link.value < _NEAR_LIMIT:
        return None
    asked = f"KV demand ({link.quality}) is {format_quantity(link.value, link.id.unit)} of what the link should carry"
    moved = case.signals.value(SignalId.KV_ACHIEVED)
    if moved is None or not capacity:
        return f"{asked}, and what really crosses it is not known"
    share = format_quantity(moved / capacity, link.id.unit)
    return f"{asked}, while {format_quantity(moved, SignalId.KV_ACHIEVED.unit)} ({share}) really cross it"


def _saturation(case: Case) -> str:
    """Which resource load uses up first, and at what rate; said of a service that has something to do."""
    rate, now = case.signals.get(SignalId.SATURATION_RATE), case.signals.value(SignalId.ARRIVALS_PER_SECOND)
    if rate is None or now is None or rate.value > _FAR * now:
        return ""
    resource = rate.source.partition(" ")[0].replace("_", " ")
    unit = SignalId.SATURATION_RATE.unit
    return f"; as load grows {resource} is used up first, at about {format_quantity(rate.value, unit)}"


def _disagreement(case: Case, phase: Phase, stage: Stage, findings: Sequence[Finding]) -> str:
    expected = _PHASE_STAGE.get(phase)
    if expected is None or stage in (Stage.NONE, expected):
        return ""
    if phase is Phase.PREFILL:
        ttft = case.signals.value(SignalId.TTFT_P50)
        figure = f" p50 {format_quantity(ttft, SignalId.TTFT_P50.unit)}" if ttft is not None else ""
        if any(f.truth is Truth.TRUE and f.verdict is not None and f.verdict.stage is Stage.PREFILL for f in findings):
            return f"TTFT{figure} is over because of this wait and of the queue at prefill beside it"
        return f"TTFT{figure} is over because requests wait for this before their first token, not because of prefill"
    return "ITL is over although decode itself is not what holds it back"


def _cannot_tell(case: Case, findings: Sequence[Finding]) -> str:
    """What is known, and what an answer lacks: the latencies, what the last verdicts ask for, what most others do.

    Who gives no data comes first where it is all of a role, else after what is missing, which need not be their doing.
    Last comes what the transfers say in spite of it.
    """
    latencies = (SignalId.TTFT_P50, SignalId.ITL_P50, SignalId.REQUESTS_FINISHED)
    undecided = [f for f in findings if f.truth is Truth.UNKNOWN and f.verdict is not None]
    asked = Counter(s for _, s in {(f.rule, s) for f in undecided for s in f.missing})
    missing = [s for s in latencies if case.signals.value(s) is None]
    missing += [s for f in undecided if f.verdict in _LAST for s in f.missing]
    missing += sorted((s for f in undecided for s in f.missing), key=lambda s: -asked[s])
    finished = case.signals.value(SignalId.REQUESTS_FINISHED)
    seen = (
        f"{finished:.0f} requests finished in the window"
        if finished is not None
        else "how many requests finished in the window is not known"
    )
    each = list(dict.fromkeys(missing))
    lack = f"{len(each)} signal(s) are missing, first of all {', '.join(each[:3])}" if each else _NO_RULE
    blind = [f for f in findings if f.loses_data]
    more = [f"no data from {len(blind) - 2} more either"] if len(blind) > 2 else []
    who = [f.headline for f in blind[:2]] + more
    wait = transfer_wait(case)
    told = [f"{seen}, and {lack}", *([wait] if wait else [])]
    return f"cannot tell: {'; '.join([*who, *told] if _whole_role(case, blind) else [told[0], *who, *told[1:]])}"


def _whole_role(case: Case, findings: Sequence[Finding]) -> bool:
    """Whether these are about all the instances of a role."""
    names = {name for f in findings for name in f.culprits}
    return any((members := {i.name for i in case.instances(role)}) and members <= names for role in Role)


def next_steps(
    case: Case, verdict: Verdict, deciding: Sequence[Finding], findings: Sequence[Finding]
) -> tuple[str, ...]:
    """What to run or to turn on next: the rule's page, queries, profiles, the switches for what is missing."""
    steps = [f"pdscope explain {verdict}", *queries(case, verdict, deciding)]
    steps += profiles(case, verdict, deciding)
    steps += router_views(case, verdict)
    missing = dict.fromkeys(s for f in (*deciding, *findings) if f.truth is not Truth.FALSE for s in f.missing)
    for signal in missing:
        for profile in {i.profile.name: i.profile for i in case.deployment.instances}.values():
            switch = profile.enable.get(signal.value)
            if switch:
                steps.append(f"to know {signal} on {profile.name}: {switch}")
    if verdict is Verdict.INSUFFICIENT_DATA or silent_instances(case) or any(f.loses_data for f in findings):
        steps.append(_DOCTOR)
    steps += [*_foreign_devices(case), *_contradictions(case)]
    return tuple(dict.fromkeys(steps))


def _foreign_devices(case: Case) -> list[str]:
    """Device figures are estimates while some of the devices are others': whose they are is for a person to say."""
    read = (
        (i.name, case.signals.get(SignalId.FOREIGN_DEVICES, instance_scope(i.name))) for i in case.deployment.instances
    )
    told = [f"{name} ({signal.source})" for name, signal in read if signal is not None]
    if not told:
        return []
    more = f" and {len(told) - 2} more" if len(told) > 2 else ""
    return [f"set select under devices for {', '.join(told[:2])}{more}, or tp if it has more"]


def _contradictions(case: Case) -> list[str]:
    """Figures of the configuration that the engines contradict: KV bytes by a tenth, the link by a quarter."""
    steps: list[str] = []
    used = case.signals.value(SignalId.KV_BYTES_PER_TOKEN)
    said = case.signals.get(SignalId.KV_BYTES_PER_TOKEN_ENGINE)
    if used is not None and said is not None and abs(used - said.value) > _CONTRADICTION * said.value:
        figures = f"it makes {used:,.0f} B/token, the engine {said.value:,.0f} B/token ({said.source})"
        steps.append(f"check model.kv: {figures}; a quantised KV type, replicated heads or another model")
    capacity, moved = case.signals.value(SignalId.LINK_CAPACITY), case.signals.value(SignalId.KV_ACHIEVED)
    if capacity is not None and moved is not None and moved > _IMPOSSIBLE * capacity:
        unit = SignalId.KV_ACHIEVED.unit
        really, written = format_quantity(moved, unit), format_quantity(capacity, unit)
        steps.append(f"check interconnect: {really} of KV cross a link that is configured to carry {written}")
    return steps
