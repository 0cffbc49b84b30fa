"""Which of all remedies are offered, and in which order: the verdict's own, and never two that contradict each other.

Each finding keeps its remedies. What a person reads first is chosen from them: beside a cause nobody treats a symptom.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pdscope.model.finding import Finding, Remedy, Truth, Verdict

URGENT = ("instance_down", "late_kv_read")
"""Findings that are acted on before any verdict: what is dead is started first, and wrong answers are stopped."""

_OF_A_RULE = 2
"""Remedies of a rule beside the verdict."""
_BESIDE = 4
"""Of all of them together."""

OPPOSITES: tuple[tuple[str, str], ...] = (
    ("shorter_lease", "longer_lease"),
    ("less_affinity", "keep_prefix_cache"),
    ("router_policy", "keep_prefix_cache"),
    ("raise_running_limit", "limit_running"),
    ("raise_running_limit", "limit_running_to_graphs"),
    ("reserve_fewer_tokens", "limit_running"),
    ("larger_batch", "limit_running"),
    ("larger_batch", "add_decode"),
    ("larger_batch", "add_instances"),
    ("add_prefill", "add_decode"),
    ("unify", "add_prefill"),
    ("unify", "add_decode"),
    ("more_tensor_parallel", "equal_parallelism"),
)
"""Remedies that undo each other. Adding prefill is, without new devices, taking decode away, and the reverse."""

_QUEUES = frozenset({"prefill_queue", "kv_pinned", "kv_lease_expired", "kv_transfer_setup", "decode_recompute"})
"""What piles up in front of decode and of the hand-over when they are held up."""
_WORK = frozenset(
    {"prefill_compute", "prefill_queue", "decode_admission", "decode_kv_capacity", "decode_hbm_bandwidth"}
)
"""What too much work for an instance, or an instance too slow for its work, looks like on it."""
_FETCH = _QUEUES | {"decode_starved"}

_SYMPTOMS: Mapping[Verdict, frozenset[str]] = {
    Verdict.KV_TRANSFER_FAILING: _FETCH,
    Verdict.DECODE_KV_CAPACITY: _QUEUES | {"decode_admission", "kv_transfer_failing", "itl_unstable"},
    Verdict.DECODE_ADMISSION: _QUEUES | {"kv_transfer_failing"},
    Verdict.KV_PINNED: frozenset({"prefill_queue", "kv_lease_expired", "decode_starved", "pd_ratio"}),
    Verdict.KV_TRANSFER_BANDWIDTH: _FETCH | {"pd_ratio"},
    Verdict.KV_TRANSFER_PATH: _FETCH | {"pd_ratio"},
    Verdict.KV_TRANSFER_FRAGMENTED: _FETCH | {"decode_admission", "decode_kv_capacity", "pd_ratio"},
    Verdict.KV_TRANSFER_SETUP: _FETCH - {"kv_transfer_setup"} | {"pd_ratio"},
    Verdict.ROUTER_IMBALANCE: _WORK | _FETCH | {"itl_unstable", "pd_ratio"},
    Verdict.HARDWARE_DEGRADED: _WORK | _FETCH | {"host_bound", "router_imbalance", "itl_unstable", "pd_ratio"},
    Verdict.CUDA_GRAPH_MISS: frozenset({"host_bound", "itl_unstable"}),
    Verdict.PREFILL_COMPUTE: frozenset({"prefill_queue", "decode_starved"}),
    Verdict.PREFILL_QUEUE: frozenset({"decode_starved"}),
    Verdict.DECODE_HBM_BANDWIDTH: frozenset({"itl_unstable"}),
}
"""Rules that tell of what a verdict makes. It goes with its cause, so that its own remedies do no good."""

_ON_ITS_CULPRITS = frozenset({Verdict.ROUTER_IMBALANCE, Verdict.HARDWARE_DEGRADED})
"""Verdicts that explain what is seen on the instances that they name, and nothing elsewhere."""

_BLIND = frozenset({Verdict.METRICS_UNTRUSTED, Verdict.INSUFFICIENT_DATA})


class Place(StrEnum):
    """Why a group of remedies is offered."""

    FIRST = "first"
    VERDICT = "verdict"
    BESIDE = "beside"


@dataclass(frozen=True, slots=True)
class Advice:
    """Remedies that are offered because of one rule.

    Attributes:
        place: where the group stands.
        rule: whose remedies they are.
        culprits: instances that the rule names.
        remedies: most useful first; none stands in two groups.
    """

    place: Place
    rule: str
    culprits: tuple[str, ...]
    remedies: tuple[Remedy, ...]


def advise(verdict: Verdict, findings: Sequence[Finding]) -> tuple[Advice, ...]:
    """What to do, the most pressing first: what is urgent, what helps against the verdict, a little beside it.

    Args:
        verdict: the answer.
        findings: all of it, those of the verdict in the order in which they speak.

    Returns:
        Groups that are not empty. No remedy stands there twice, and none with its opposite: the first one counts.
    """
    holding = [f for f in findings if f.truth is Truth.TRUE]
    own = [f for f in holding if f.verdict is verdict]
    rest = [f for f in holding if f.rule not in URGENT and _counts_beside(f, verdict, own)]
    chosen = _Chosen()
    groups = [chosen.take(Place.FIRST, rule, (f for f in holding if f.rule == rule)) for rule in URGENT]
    groups.append(chosen.take(Place.VERDICT, verdict.value, own))
    left = _BESIDE
    for rule in dict.fromkeys(f.rule for f in rest):
        group = chosen.take(Place.BESIDE, rule, (f for f in rest if f.rule == rule), most=min(left, _OF_A_RULE))
        left -= len(group.remedies)
        groups.append(group)
    return tuple(group for group in groups if group.remedies)


def own_first(verdict: Verdict, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings with those that hold for the verdict in front; else in their order."""
    return tuple(sorted(findings, key=lambda f: not (f.truth is Truth.TRUE and f.verdict is verdict)))


def _counts_beside(finding: Finding, verdict: Verdict, own: Sequence[Finding]) -> bool:
    """Whether it is worth treating: no other verdict is, where figures are wrong or too few to believe it."""
    if finding.verdict is verdict or (finding.verdict is not None and verdict in _BLIND):
        return False
    return not _explained(finding, verdict, own)


def _explained(finding: Finding, verdict: Verdict, own: Sequence[Finding]) -> bool:
    """Whether a finding tells of a symptom of the verdict; nothing is one of a verdict that no longer holds."""
    culprits = {name for f in own for name in f.culprits}
    on_them = {*finding.culprits} <= culprits
    if any(finding.verdict in f.outranks for f in own):
        return on_them
    if not own or finding.rule not in _SYMPTOMS.get(verdict, frozenset()):
        return False
    return on_them or verdict not in _ON_ITS_CULPRITS


class _Chosen:
    """What is offered already."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def take(self, place: Place, rule: str, findings: Iterable[Finding], most: int | None = None) -> Advice:
        """The remedies of a rule that are new and contradict none before them."""
        taken: list[Remedy] = []
        culprits: dict[str, None] = {}
        for finding in findings:
            culprits.update(dict.fromkeys(finding.culprits))
            for remedy in finding.remedies:
                if (most is None or len(taken) < most) and self._fits(remedy.id):
                    self._ids.add(remedy.id)
                    taken.append(remedy)
        return Advice(place, rule, tuple(culprits), tuple(taken))

    def _fits(self, remedy: str) -> bool:
        opposed = {b if a == remedy else a for a, b in OPPOSITES if remedy in (a, b)}
        return remedy not in self._ids and not opposed & self._ids
