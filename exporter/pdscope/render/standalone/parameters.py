"""What no engine exports and the rules have to be told: objectives, the link, thresholds, of each deployment."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pdscope.analysis import kv, link
from pdscope.diagnosis.base import Rule
from pdscope.diagnosis.engine import discover
from pdscope.model.topology import Deployment, LinkScope, Role, Routing
from pdscope.render.alerting.promql import Recorded, select

PREFIX = "pdscope_standalone:"
"""Of every series that these rules record."""

THRESHOLDS = (
    "decode_admission.queue",
    "decode_admission.ttft_share",
    "decode_admission.free",
    "decode_admission.crowded",
    "decode_admission.in_flight",
    "decode_admission.transfer_share",
    "decode_kv_capacity.usage_when_pushed",
    "decode_kv_capacity.preemptions",
    "kv_transfer_bandwidth.utilization",
    "kv_transfer_bandwidth.ttft_share",
    "kv_transfer_bandwidth.in_flight",
    "kv_transfer_bandwidth.excess",
    "kv_transfer_failing.share",
    "prefill_queue.queue",
    "prefill_queue.ttft_share",
    "prefill_queue.wait_to_service",
    "prefill_queue.free",
)
"""Those of the daemon's thresholds that these rules compare with."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Of one deployment. What is None has no rule, and what hangs on it stays without a verdict.

    Attributes:
        deployment: value of the label `deployment` of its engines' series.
        slo_ttft_p50_seconds: objective of TTFT.
        slo_itl_p50_seconds: objective of ITL.
        kv_bytes_per_token: physical bytes on the wire, all copies; used where no engine counts transferred bytes.
        interconnect_bytes_per_second: usable capacity from prefill to decode: one way, after efficiency.
        max_running_requests: limit of running requests of each decode instance.
        routing: whether decode is asked before prefill has answered; None: by engine, as the daemon has it.
        thresholds: `rule.name` -> number, over the daemon's defaults.
        unsized: names of the instances for lack of whose size something is not told: the capacity, which is that of
            all devices, or the bytes of a token, of which every rank of decode may get a copy.
    """

    deployment: str
    slo_ttft_p50_seconds: float | None = None
    slo_itl_p50_seconds: float | None = None
    kv_bytes_per_token: float | None = None
    interconnect_bytes_per_second: float | None = None
    max_running_requests: float | None = None
    routing: Routing | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    unsized: tuple[str, ...] = ()

    @classmethod
    def of(cls, deployment: Deployment, unsized: Collection[str] = ()) -> Parameters:
        """The same numbers that the daemon has from its configuration.

        Args:
            deployment: as configured; nobody has asked the engines.
            unsized: names of instances whose tensor parallelism is not configured: `Instance` has 1 there, which the
                daemon corrects when the engine says otherwise, and nobody would here.
        """
        prefill, decode = deployment.of_role(Role.PREFILL), deployment.of_role(Role.DECODE)
        usable = link.capacity(deployment.interconnect, prefill, decode) if deployment.interconnect else None
        by_device = deployment.interconnect is not None and deployment.interconnect.scope is LinkScope.DEVICE
        shape = deployment.model.kv or deployment.model.file_kv
        ranks = max((i.attention_ranks for i in decode), default=1)
        receivers = tuple(i.name for i in decode if i.name in unsized)
        devices = tuple(i.name for i in (*prefill, *decode) if by_device and i.name in unsized)
        routers = [i.profile.routing for i in deployment.of_role(Role.ROUTER) if i.profile.routing is not None]
        limits = {i.max_running for i in decode}
        limit = limits.pop() if len(limits) == 1 else None  # one number can only stand for equal instances
        return cls(
            deployment=deployment.name,
            slo_ttft_p50_seconds=deployment.slo.ttft_p50_seconds,
            slo_itl_p50_seconds=deployment.slo.itl_p50_seconds,
            kv_bytes_per_token=(
                kv.bytes_per_token(shape) * kv.wire_copies(shape, ranks) if shape and not receivers else None
            ),
            interconnect_bytes_per_second=usable.bytes_per_second if usable and not devices else None,
            max_running_requests=limit,
            routing=deployment.routing or next(iter(routers), None),
            thresholds=deployment.thresholds,
            unsized=devices or receivers,
        )

    @property
    def unknown(self) -> tuple[str, ...]:
        """Names of what is missing and keeps verdicts unknown."""
        needed = ["slo_ttft_p50_seconds", "slo_itl_p50_seconds", "interconnect_bytes_per_second"]
        if self.unsized:
            needed.append("kv_bytes_per_token")
        return tuple(name for name in needed if getattr(self, name) is None)


EXAMPLE = Parameters(
    deployment="llama70b",
    slo_ttft_p50_seconds=2.0,
    slo_itl_p50_seconds=0.05,
    kv_bytes_per_token=2.0 * 80 * 8 * 128 * 2,
    interconnect_bytes_per_second=4 * 50e9 * 0.8,
)
"""Llama-3.1-70B in bf16, four 400 Gb/s ports a side, of which 0.8 can be reached."""

SLO_TTFT = Recorded(f"{PREFIX}slo_ttft_p50_seconds", ("deployment",), "", "Objective of the median TTFT.")
SLO_ITL = Recorded(f"{PREFIX}slo_itl_p50_seconds", ("deployment",), "", "Objective of the median ITL.")
KV_BYTES = Recorded(
    f"{PREFIX}kv_bytes_per_token",
    ("deployment",),
    "",
    "KV of a token on the wire, all copies: 2 x layers x kv_heads x head_dim x bytes. Only used where no engine counts "
    "transferred bytes.",
)
CAPACITY = Recorded(
    f"{PREFIX}interconnect_capacity_bytes_per_second",
    ("deployment",),
    "",
    "What all prefill can send to all decode: one way, after efficiency.",
)
MAX_RUNNING = Recorded(
    f"{PREFIX}max_running_requests",
    ("deployment",),
    "",
    "Limit of running requests of each decode instance (--max-num-seqs, --max-running-requests). Optional.",
)
ROUTING = Recorded(
    f"{PREFIX}routing",
    ("deployment", "routing"),
    "",
    "sequential: prefill answers before decode is asked; concurrent: both at once. Optional: by engine.",
)
THRESHOLD = Recorded(
    f"{PREFIX}threshold", ("deployment", "threshold"), "", "Of the rules; the numbers are the daemon's defaults."
)
ALL = (SLO_TTFT, SLO_ITL, KV_BYTES, CAPACITY, MAX_RUNNING, ROUTING, THRESHOLD)


def rules(parameters: Parameters) -> Iterator[tuple[str, dict[str, object]]]:
    """(what it is for, rule) of one deployment.

    Raises:
        ValueError: a threshold is none of the daemon's.
    """
    known = defaults(discover())
    unknown = sorted(set(parameters.thresholds) - set(known))
    if unknown:
        raise ValueError(f"{parameters.deployment}: there is no threshold {', '.join(unknown)}")
    numbers = (
        (SLO_TTFT, parameters.slo_ttft_p50_seconds),
        (SLO_ITL, parameters.slo_itl_p50_seconds),
        (KV_BYTES, parameters.kv_bytes_per_token),
        (CAPACITY, parameters.interconnect_bytes_per_second),
        (MAX_RUNNING, parameters.max_running_requests),
    )
    for recorded, value in numbers:
        if value is not None:
            yield recorded.why, _rule(recorded, value, deployment=parameters.deployment)
    if parameters.routing is not None:
        yield ROUTING.why, _rule(ROUTING, 1, deployment=parameters.deployment, routing=str(parameters.routing))
    for name in THRESHOLDS:
        value = parameters.thresholds.get(name, known[name])
        yield THRESHOLD.why, _rule(THRESHOLD, value, deployment=parameters.deployment, threshold=name)


def defaults(found: Sequence[Rule]) -> Mapping[str, float]:
    """`rule.name` -> the daemon's default."""
    return {f"{rule.id}.{t.name}": t.default for rule in found for t in rule.thresholds}


def number(value: float) -> str:
    """As PromQL reads it back without a loss that matters."""
    return f"{value:.12g}"


def threshold(name: str) -> str:
    """Selector of a threshold.

    Raises:
        ValueError: it is not written into the file.
    """
    if name not in THRESHOLDS:
        raise ValueError(f"{name} is not among the thresholds of the file")
    return select(THRESHOLD, threshold=name)


def _rule(recorded: Recorded, value: float, **labels: str) -> dict[str, object]:
    return {"record": recorded.name, "expr": f"vector({number(value)})", "labels": labels}
