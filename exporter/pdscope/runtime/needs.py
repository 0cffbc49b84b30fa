"""What the rules want to know, and the metrics from which it can be had: a table for `pdscope doctor`.

It says of which canonical metrics one is enough, never which engine prints what: that is on the page. It follows
`pdscope.analysis`; a signal that can be had in another way there has that way here too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pdscope.config import DeploymentConfig, InstanceConfig
from pdscope.model.metric import Metric
from pdscope.model.signal import SignalId
from pdscope.model.topology import Deployment, Instance, Role, Routing
from pdscope.sources.adapter import Adapter

_DECODING = frozenset({Role.DECODE, Role.UNIFIED})
_PREFILLING = frozenset({Role.PREFILL, Role.UNIFIED})
_ENGINES = frozenset({Role.PREFILL, Role.DECODE, Role.UNIFIED})
_ROUTER = frozenset({Role.ROUTER})


@dataclass(frozen=True, slots=True)
class Need:
    """A signal, and what it takes.

    Attributes:
        signal: what the rules read.
        any_of: metrics of which one is enough, on the page of the instance or of a device that serves it.
        roles: of the instances that should yield it.
        together: one of these instances yields it for all (bytes on the wire are counted by one side).
        elsewhere: metrics of a router of the deployment that stand in.
        configured: keys of the configuration that stand in: of the instance, or, for `together`, of the deployment.
        routing: needed under this routing only.
        disaggregated: needed only where prefill and decode run apart.
        hint: how to get it, where no engine says so.
    """

    signal: SignalId
    any_of: tuple[Metric, ...]
    roles: frozenset[Role]
    together: bool = False
    elsewhere: tuple[Metric, ...] = ()
    configured: tuple[str, ...] = ()
    routing: Routing | None = None
    disaggregated: bool = False
    hint: str = ""


_GENERIC = "this version of the program does not print it; a newer one may: the page of the engine in docs/engines says"
_DEVICES = (
    "device telemetry: a dcgm-exporter, npu-exporter or the like, or `pdscope agent`, listed under devices with the "
    "instances that it serves"
)
_ESTIMATE = "; until then the roofline estimates it from hardware and model.weight_bytes or model.hf_config"

NEEDS: tuple[Need, ...] = (
    # latency: without it nobody knows whether anything is wrong
    Need(SignalId.TTFT_P50, (Metric.TTFT,), _DECODING, elsewhere=(Metric.TTFT,), hint="the metrics of the router"),
    # legs in a row add up, so half of the sum is not enough
    Need(
        SignalId.TTFT_P50,
        (Metric.TTFT,),
        frozenset({Role.PREFILL}),
        elsewhere=(Metric.TTFT,),
        routing=Routing.SEQUENTIAL,
        hint="the metrics of the router",
    ),
    Need(SignalId.ITL_P50, (Metric.ITL,), _DECODING, elsewhere=(Metric.ITL,)),
    # traffic
    Need(SignalId.GENERATION_RATE, (Metric.GENERATED_TOKENS,), _DECODING),
    Need(
        SignalId.ARRIVALS_PER_SECOND,
        (Metric.REQUESTS_FINISHED, Metric.REQUESTS_ARRIVED),
        _ENGINES,
        together=True,
        elsewhere=(Metric.REQUESTS_ARRIVED,),
    ),
    Need(
        SignalId.PROMPT_TOKENS_PER_REQUEST,
        (Metric.PROMPT_LENGTH, Metric.PROMPT_TOKENS),
        _ENGINES,
        together=True,
        elsewhere=(Metric.PROMPT_LENGTH,),
    ),
    # slots and memory of decode
    Need(SignalId.RUNNING, (Metric.RUNNING,), _DECODING),
    Need(
        SignalId.MAX_RUNNING,
        (Metric.MAX_RUNNING,),
        _DECODING,
        configured=("max_running",),
        hint="max_running of the instance in the configuration",
    ),
    Need(SignalId.KV_USAGE, (Metric.KV_USAGE,), _DECODING),
    Need(
        SignalId.ADMISSION_QUEUE,
        (Metric.DECODE_ALLOCATION_QUEUE, Metric.KV_FETCH_WAITING, Metric.WAITING_CAPACITY, Metric.WAITING),
        frozenset({Role.DECODE}),
    ),
    # prefill: who waits, and whether the computation is the reason
    Need(
        SignalId.PREFILL_QUEUE,
        (Metric.WAITING_CAPACITY, Metric.WAITING),
        _PREFILLING,
        elsewhere=(Metric.PREFILL_PENDING,),
    ),
    Need(
        SignalId.PREFILL_WAIT,
        (Metric.QUEUE_TIME, Metric.REQUESTS_FINISHED, Metric.REQUESTS_ARRIVED),  # the latter by Little's law
        _PREFILLING,
    ),
    Need(SignalId.PREFILL_BUSY, (Metric.PREFILL_BUSY, Metric.SM_ACTIVE), _PREFILLING, hint=_DEVICES),
    Need(SignalId.COMPUTE_UTILIZATION, (Metric.SM_ACTIVE,), _PREFILLING, hint=_DEVICES),
    Need(SignalId.TENSOR_UTILIZATION, (Metric.TENSOR_ACTIVE,), _PREFILLING, hint=_DEVICES),
    Need(
        SignalId.HBM_UTILIZATION,
        (Metric.DRAM_ACTIVE, Metric.DEVICE_HBM_BYTES_RATE),
        _DECODING,
        hint=_DEVICES + _ESTIMATE,
    ),
    # the hand-over
    Need(
        SignalId.TRANSFER_TIME,
        (Metric.EXPOSED_TRANSFER_TIME, Metric.KV_TRANSFER_TIME, Metric.HANDOVER_TIME),
        _ENGINES,
        together=True,
        disaggregated=True,
    ),
    Need(
        SignalId.TRANSFER_IN_FLIGHT,
        (Metric.PREFILL_TRANSFER_QUEUE, Metric.KV_FETCH_ACTIVE),
        _ENGINES,
        together=True,
        disaggregated=True,
    ),
    Need(
        SignalId.KV_ACHIEVED,
        (Metric.KV_TRANSFER_BYTES,),
        _ENGINES,
        together=True,
        disaggregated=True,
        hint="nothing but the demand is judged without bytes that are counted: exporter of the transfer engine, or a "
        "newer engine",
    ),
    Need(
        SignalId.FAILURES_PER_SECOND,
        (Metric.TRANSFER_FAILURES, Metric.BOOTSTRAP_FAILURES),
        _ENGINES,
        together=True,
        disaggregated=True,
    ),
    Need(
        SignalId.KV_BYTES_PER_TOKEN,
        (Metric.KV_TRANSFER_BYTES, Metric.KV_POOL_BYTES),
        _ENGINES,
        together=True,
        configured=("model.kv", "model.hf_config"),
        disaggregated=True,
        hint="model.kv or model.hf_config in the configuration",
    ),
    Need(
        SignalId.LINK_CAPACITY,
        (),
        _ENGINES,
        together=True,
        configured=("interconnect",),
        disaggregated=True,
        hint="interconnect in the configuration: no program knows the link that it uses",
    ),
    # a router is there for what arrives
    Need(SignalId.ARRIVALS_PER_SECOND, (Metric.REQUESTS_ARRIVED,), _ROUTER),
)
"""What is needed, roughly in the order in which rules ask."""


@dataclass(frozen=True, slots=True)
class Lack:
    """A signal that cannot be had.

    Attributes:
        signal: its name.
        any_of: metrics of which one would be enough; none: only the configuration can say it.
        how: what to do about it.
    """

    signal: str
    any_of: tuple[str, ...]
    how: str


@dataclass(frozen=True, slots=True)
class Survey:
    """What the instances of a deployment yield.

    Attributes:
        config: as written, with everything inherited.
        deployment: with roles resolved.
        recognised: instances of which there is a page.
        yields: metrics by instance name, those of its devices among them.
        devices: by instance name, the device exporters that serve it and their adapters.
    """

    config: DeploymentConfig
    deployment: Deployment
    recognised: Sequence[Instance]
    yields: Mapping[str, frozenset[Metric]]
    devices: Mapping[str, Sequence[tuple[str, Adapter]]] = field(default_factory=dict)

    def lacking(self, written: InstanceConfig, instance: Instance) -> tuple[Lack, ...]:
        """What the rules miss of one instance."""
        lacks = []
        for need in self._asked(together=False):
            if instance.role not in need.roles or self.yields[instance.name] & set(need.any_of):
                continue
            if not self._by_router(need) and not any(_has(written, key) for key in need.configured):
                lacks.append(_lack(need, [instance], self._switch(need, instance)))
        return tuple(lacks)

    def _switch(self, need: Need, instance: Instance) -> str:
        """What to switch on at the exporters that already serve the instance; empty where none of them has it."""
        said = [
            f"{name} ({adapter.name}): {adapter.enable[metric]}"
            for name, adapter in self.devices.get(instance.name, ())
            for metric in need.any_of
            if metric in adapter.enable
        ]
        return "; ".join(said)

    def lacking_together(self) -> tuple[Lack, ...]:
        """What the rules miss of the deployment: no instance yields it. Nothing, where no instance can be read."""
        if not self.recognised:
            return ()
        lacks = []
        for need in self._asked(together=True):
            able = [i for i in self.recognised if i.role in need.roles]
            if any(self.yields[i.name] & set(need.any_of) for i in able) or self._by_router(need):
                continue
            if not any(_has(self.config, key) for key in need.configured):
                lacks.append(_lack(need, able))
        return tuple(lacks)

    def _asked(self, *, together: bool) -> Iterator[Need]:
        """The rows of the table that concern such a deployment."""
        for need in NEEDS:
            fits = need.routing in (None, self._routing()) and (not need.disaggregated or self.deployment.disaggregated)
            if need.together is together and fits:
                yield need

    def _by_router(self, need: Need) -> bool:
        routers = (i for i in self.recognised if i.role is Role.ROUTER)
        return any(self.yields[router.name] & set(need.elsewhere) for router in routers)

    def _routing(self) -> Routing | None:
        if self.deployment.routing is not None:
            return self.deployment.routing
        asked = self.deployment.of_role(Role.ROUTER) + self.deployment.of_role(Role.DECODE)
        return next((i.profile.routing for i in asked if i.profile.routing is not None), None)


def _lack(need: Need, instances: Sequence[Instance], switch: str = "") -> Lack:
    profiles = {i.profile.name: i.profile for i in instances}
    said = [f"{name}: {p.enable[need.signal.value]}" for name, p in profiles.items() if need.signal.value in p.enable]
    how = switch or "; ".join(said) or need.hint or _GENERIC
    return Lack(need.signal.value, tuple(metric.name.lower() for metric in need.any_of), how)


def _has(written: object, key: str) -> bool:
    """Whether the configuration has a value under a dotted key."""
    for part in key.split("."):
        written = getattr(written, part, None)
    return written is not None
