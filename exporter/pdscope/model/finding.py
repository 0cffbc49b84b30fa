"""What is said about a deployment: phase, verdict, findings with their evidence, remedies with their cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from pdscope.model.signal import Quality, Scope, SignalId
from pdscope.model.units import Unit


class Truth(StrEnum):
    """Three-valued: a rule whose signals are missing is neither true nor false (Kleene's strong logic)."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"

    @classmethod
    def of(cls, value: bool | None) -> Truth:  # noqa: FBT001 - a truth value is the argument
        """True, false, or None for unknown."""
        return cls.UNKNOWN if value is None else cls.TRUE if value else cls.FALSE

    def __and__(self, other: Truth) -> Truth:
        if Truth.FALSE in (self, other):
            return Truth.FALSE
        return Truth.UNKNOWN if Truth.UNKNOWN in (self, other) else Truth.TRUE

    def __or__(self, other: Truth) -> Truth:
        if Truth.TRUE in (self, other):
            return Truth.TRUE
        return Truth.UNKNOWN if Truth.UNKNOWN in (self, other) else Truth.FALSE

    def __invert__(self) -> Truth:
        match self:
            case Truth.TRUE:
                return Truth.FALSE
            case Truth.FALSE:
                return Truth.TRUE
            case Truth.UNKNOWN:
                return Truth.UNKNOWN

    def __bool__(self) -> bool:
        """Refused: `if truth:` would read unknown as true. Compare with `is Truth.TRUE`."""
        message = "a three-valued truth has no boolean; compare it with `is`"
        raise TypeError(message)


class Phase(StrEnum):
    """The ITL-vs-TTFT rule, exactly; it looks at p50 against the SLO and at nothing else."""

    DECODE_STEADY_STATE = "decode_steady_state"
    PREFILL = "prefill"
    BOTH_OVER_SLO = "both_over_slo"
    WITHIN_SLO = "within_slo"
    UNKNOWN = "unknown"


class Stage(StrEnum):
    """Where the service is held back."""

    NONE = "none"
    PREFILL = "prefill"
    KV_TRANSFER = "kv_transfer"
    DECODE = "decode"
    ROUTER = "router"
    HOST = "host"
    HARDWARE = "hardware"
    WORKLOAD = "workload"


class Verdict(StrEnum):
    """The vocabulary. All states exist from the first version on, since `/metrics` exports each of them."""

    HEALTHY = "healthy"
    IDLE = "idle"
    INSUFFICIENT_DATA = "insufficient_data"
    METRICS_UNTRUSTED = "metrics_untrusted"
    UNDETERMINED = "undetermined"
    PREFILL_COMPUTE = "prefill_compute"
    PREFILL_QUEUE = "prefill_queue"
    KV_TRANSFER_BANDWIDTH = "kv_transfer_bandwidth"
    KV_TRANSFER_PATH = "kv_transfer_path"
    KV_TRANSFER_FRAGMENTED = "kv_transfer_fragmented"
    KV_TRANSFER_SETUP = "kv_transfer_setup"
    KV_TRANSFER_FAILING = "kv_transfer_failing"
    KV_PINNED = "kv_pinned"
    DECODE_HBM_BANDWIDTH = "decode_hbm_bandwidth"
    DECODE_KV_CAPACITY = "decode_kv_capacity"
    DECODE_ADMISSION = "decode_admission"
    ROUTER_IMBALANCE = "router_imbalance"
    FRONTEND_BOUND = "frontend_bound"
    HOST_BOUND = "host_bound"
    CUDA_GRAPH_MISS = "cuda_graph_miss"
    HARDWARE_DEGRADED = "hardware_degraded"
    WORKLOAD_MISMATCH = "workload_mismatch"

    @property
    def stage(self) -> Stage:
        """The stage that the verdict blames."""
        return _STAGES.get(self, Stage.NONE)


_STAGES: Mapping[Verdict, Stage] = {
    Verdict.PREFILL_COMPUTE: Stage.PREFILL,
    Verdict.PREFILL_QUEUE: Stage.PREFILL,
    Verdict.KV_TRANSFER_BANDWIDTH: Stage.KV_TRANSFER,
    Verdict.KV_TRANSFER_PATH: Stage.KV_TRANSFER,
    Verdict.KV_TRANSFER_FRAGMENTED: Stage.KV_TRANSFER,
    Verdict.KV_TRANSFER_SETUP: Stage.KV_TRANSFER,
    Verdict.KV_TRANSFER_FAILING: Stage.KV_TRANSFER,
    Verdict.KV_PINNED: Stage.KV_TRANSFER,
    Verdict.DECODE_HBM_BANDWIDTH: Stage.DECODE,
    Verdict.DECODE_KV_CAPACITY: Stage.DECODE,
    Verdict.DECODE_ADMISSION: Stage.DECODE,
    Verdict.ROUTER_IMBALANCE: Stage.ROUTER,
    Verdict.FRONTEND_BOUND: Stage.HOST,
    Verdict.HOST_BOUND: Stage.HOST,
    Verdict.CUDA_GRAPH_MISS: Stage.HOST,
    Verdict.HARDWARE_DEGRADED: Stage.HARDWARE,
    Verdict.WORKLOAD_MISMATCH: Stage.WORKLOAD,
}


class Confidence(StrEnum):
    """How far a verdict may be relied on."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Op(StrEnum):
    """How an evidence compares its value with its threshold."""

    GE = "ge"
    GT = "gt"
    LE = "le"
    LT = "lt"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One comparison. A missing signal has no evidence; it is listed in `Finding.missing`."""

    signal: SignalId
    scope: Scope
    value: float
    unit: Unit
    op: Op
    threshold: float
    truth: Truth
    source: str
    quality: Quality
    age_seconds: float
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """Something to do, with its price. `setting` is spelt as the engines that it is about spell it."""

    id: str
    action: str
    cost: str
    precondition: str
    setting: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What one rule says about one scope.

    Attributes:
        rule: the rule's name; of a verdict, or of a finding that stands beside it.
        strength: 0..1, how far past its thresholds; ranks scopes of one rule.
        headline: one clause with the numbers, for the summary.
        decisive: the quality of the worst decisive evidence; None when a decisive signal is missing.
        culprits: instances at fault.
        before: its place in the order of evidence is right before this verdict; None for the place of its own.
        outranks: verdicts earlier in the order that it explains, where all that holds of them lies on its culprits.
        covers: rules that tell of its symptoms, which go with it and which nobody treats while it is the verdict.
        covers_culprits_only: what it covers, it covers on its culprits and nowhere else.
        urgent: acted on before any verdict.
    """

    rule: str
    scope: Scope
    truth: Truth
    verdict: Verdict | None = None
    strength: float = 0.0
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[SignalId, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    headline: str = ""
    decisive: Quality | None = None
    culprits: tuple[str, ...] = ()
    before: Verdict | None = None
    outranks: tuple[Verdict, ...] = ()
    covers: frozenset[str] = frozenset()
    covers_culprits_only: bool = False
    urgent: bool = False

    @property
    def loses_data(self) -> bool:
        """Whether it says that its culprits give no data: that explains that there are too few."""
        return self.truth is Truth.TRUE and Verdict.INSUFFICIENT_DATA in self.covers


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A change of verdict that is being confirmed.

    Attributes:
        verdict: the one that most of the evaluations name that disagree in a row with the one shown.
        windows: how many of them name it.
    """

    verdict: Verdict
    windows: int


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer for one deployment. Times are unix seconds."""

    deployment: str
    at: float
    window_seconds: float
    phase: Phase
    verdict: Verdict
    confidence: Confidence
    summary: str
    since: float
    culprits: tuple[str, ...]
    findings: tuple[Finding, ...]
    next_steps: tuple[str, ...]
    worker_verdicts: Mapping[str, Verdict]
    pending: PendingChange | None = None

    @property
    def stage(self) -> Stage:
        """The stage that the verdict blames."""
        return self.verdict.stage
