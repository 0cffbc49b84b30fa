"""Every single resource that can be relieved alone, the cheapest relief first, and the verdict it stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pdscope.demo.physics.draw import Decode, Deployment, Draw, Frontend, Link, Prefill, Traffic
from pdscope.demo.physics.machine import machine
from pdscope.demo.physics.outcome import Outcome

_LINK, _PREFILL, _DECODE, _FRONTEND, _TRAFFIC = Link(), Prefill(), Decode(), Frontend(), Traffic()
_AMPLE = 4
"""How many times more of a capacity is ample."""
_LONG_SECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Relief:
    """One resource, relieved.

    Attributes:
        resource: its name.
        apply: the draw with this resource relieved and nothing else; the same draw when it was no limit by its value.
        verdict: what its scarcity is called, given the run that suffered from it.
    """

    resource: str
    apply: Callable[[Draw], Draw]
    verdict: Callable[[Outcome], str]


def _named(verdict: str) -> Callable[[Outcome], str]:
    return lambda _: verdict


def _decode_memory(outcome: Outcome) -> str:
    return "decode_kv_capacity" if outcome.preemptions else "decode_admission"


def _link(draw: Draw, **changes: object) -> Draw:
    return replace(draw, link=replace(draw.link, **changes))  # type: ignore[arg-type]


def _prefill(draw: Draw, **changes: object) -> Draw:
    return replace(draw, prefill=replace(draw.prefill, **changes))  # type: ignore[arg-type]


def _decode(draw: Draw, **changes: object) -> Draw:
    return replace(draw, decode=replace(draw.decode, **changes))  # type: ignore[arg-type]


def _descriptors(draw: Draw) -> Draw:
    link = draw.link
    return _link(
        draw,
        descriptor_seconds=min(link.descriptor_seconds, _LINK.descriptor_seconds),
        contiguous_pages=max(link.contiguous_pages, _LINK.page_tokens / link.page_tokens),
    )


def _threads(draw: Draw) -> Draw:
    if draw.engine != "sglang":
        return draw
    return _link(draw, threads=max(draw.link.threads, draw.link.queues * _LINK.threads // _LINK.queues))


def _setup(draw: Draw) -> Draw:
    return _link(
        draw,
        handshake_seconds=min(draw.link.handshake_seconds, _LINK.handshake_seconds),
        bootstrap_seconds=min(draw.link.bootstrap_seconds, _LINK.bootstrap_seconds),
    )


def _lease(draw: Draw) -> Draw:
    if draw.engine != "vllm" or draw.link.lease_renewed:
        return draw
    return _link(draw, lease_seconds=_LONG_SECONDS)


def _ranks(draw: Draw) -> Draw:
    clocked = _prefill(draw, slow_rank=1.0, compute_factor=max(1.0, draw.prefill.compute_factor))
    return _decode(clocked, slow_rank=1.0, hbm_factor=max(1.0, draw.decode.hbm_factor))


def _frontend(draw: Draw) -> Draw:
    frontend = draw.frontend
    return replace(
        draw,
        frontend=replace(
            frontend,
            router_seconds=min(frontend.router_seconds, _FRONTEND.router_seconds),
            tokenize_seconds_per_token=min(frontend.tokenize_seconds_per_token, _FRONTEND.tokenize_seconds_per_token),
            detokenize_seconds_per_token=min(
                frontend.detokenize_seconds_per_token, _FRONTEND.detokenize_seconds_per_token
            ),
        ),
    )


def _host(draw: Draw) -> Draw:
    return _decode(
        draw,
        host_seconds=min(draw.decode.host_seconds, _DECODE.host_seconds),
        host_seconds_per_request=min(draw.decode.host_seconds_per_request, _DECODE.host_seconds_per_request),
    )


def _steady(draw: Draw) -> Draw:
    return _decode(draw, jitter=min(draw.decode.jitter, _DECODE.jitter))


def _schedule(draw: Draw) -> Draw:
    return _prefill(
        draw,
        batch_tokens=max(draw.prefill.batch_tokens, _PREFILL.batch_tokens),
        pass_seconds=min(draw.prefill.pass_seconds, _PREFILL.pass_seconds),
        prefix_cache=True if draw.traffic.shared_tokens else draw.prefill.prefix_cache,
    )


def _reserve(draw: Draw) -> Draw:
    if draw.engine != "sglang":
        return draw
    return _decode(draw, reserved_tokens=min(draw.decode.reserved_tokens, _DECODE.reserved_tokens))


def _decode_pool(draw: Draw) -> Draw:
    tokens = draw.decode.pool_tokens
    if tokens is None:
        tokens = machine(draw, draw.deployment.decode_devices, (1.0,), None).pool_tokens
    return _decode(draw, pool_tokens=tokens * _AMPLE)


def _prefill_pool(draw: Draw) -> Draw:
    if draw.deployment.unified_instances:
        return draw
    tokens = draw.prefill.pool_tokens
    if tokens is None:
        tokens = machine(draw, draw.deployment.prefill_devices, (1.0,), None).pool_tokens
    return _prefill(draw, pool_tokens=tokens * _AMPLE)


def _bandwidth(draw: Draw) -> Draw:
    if draw.deployment.unified_instances:
        return draw
    devices = draw.deployment.prefill_devices
    nic = machine(draw, devices, (1.0,), draw.prefill.pool_tokens).nic_bytes_per_second / devices
    return _link(draw, nic_bytes_per_second=nic * 2 * _AMPLE, shared_bytes_per_second=None)


def _more_prefill(draw: Draw) -> Draw:
    layout = draw.deployment
    return replace(draw, deployment=replace(layout, prefill_instances=layout.prefill_instances * 2))


def _short_prompts(draw: Draw) -> Draw:
    """Unified, where moving a prompt costs more than computing it would, whatever the link could carry."""
    layout, link = draw.deployment, draw.link
    if layout.unified_instances:
        return draw
    built = machine(draw, layout.prefill_devices, (draw.prefill.compute_factor,), draw.prefill.pool_tokens)
    tokens = max(1, round(draw.traffic.prompt_tokens))
    compute_seconds = draw.prefill.pass_seconds + built.prefill(tokens, tokens * tokens / 2, tokens).seconds
    moving_seconds = link.bootstrap_seconds + link.latency_seconds
    return _unified(draw) if moving_seconds > compute_seconds else draw


def _unified(draw: Draw) -> Draw:
    layout = draw.deployment
    if layout.unified_instances:
        return draw
    count = layout.prefill_instances + layout.decode_instances
    return replace(draw, deployment=Deployment(0, 0, count, layout.prefill_devices, layout.decode_devices))


RELIEFS: tuple[Relief, ...] = (
    # Faults: relieved to the value that a sound deployment has.
    Relief("link_health", lambda draw: _link(draw, failing_pairs=()), _named("kv_transfer_failing")),
    Relief("link_path", lambda draw: _link(draw, path_bytes_per_second=None), _named("kv_transfer_path")),
    Relief("handshake", _setup, _named("kv_transfer_setup")),
    Relief("descriptor_cost", _descriptors, _named("kv_transfer_fragmented")),
    Relief("transfer_threads", _threads, _named("kv_transfer_fragmented")),
    Relief("orphans", lambda draw: replace(draw, traffic=replace(draw.traffic, orphan_share=0.0)), _named("kv_pinned")),
    Relief("lease", _lease, _named("decode_admission")),
    Relief("device_clocks", _ranks, _named("hardware_degraded")),
    Relief(
        "router_skew",
        lambda draw: replace(draw, frontend=replace(draw.frontend, affinity=0.0)),
        _named("router_imbalance"),
    ),
    Relief("frontend", _frontend, _named("frontend_bound")),
    Relief(
        "cuda_graphs",
        lambda draw: _decode(draw, graph_ceiling=max(draw.decode.graph_ceiling, draw.decode.slots)),
        _named("cuda_graph_miss"),
    ),
    Relief("host_overhead", _host, _named("host_bound")),
    Relief("steadiness", _steady, _named("undetermined")),  # nothing that is exported tells it from other causes
    Relief("prefill_schedule", _schedule, _named("prefill_queue")),
    Relief("decode_reserve", _reserve, _named("decode_admission")),
    Relief("disaggregation", _short_prompts, _named("workload_mismatch")),
    # Capacities: relieved until there is ample.
    Relief(
        "decode_slots",
        lambda draw: _decode(
            draw,
            slots=draw.decode.slots * _AMPLE,
            graph_ceiling=max(draw.decode.graph_ceiling, draw.decode.slots * _AMPLE),
        ),
        _named("decode_admission"),
    ),
    Relief("decode_memory", _decode_pool, _decode_memory),
    Relief("prefill_memory", _prefill_pool, _named("kv_pinned")),
    Relief("link_bandwidth", _bandwidth, _named("kv_transfer_bandwidth")),
    Relief(
        "prefill_compute",
        lambda draw: _prefill(draw, compute_factor=draw.prefill.compute_factor * _AMPLE),
        _named("prefill_compute"),
    ),
    Relief("prefill_instances", _more_prefill, _named("prefill_queue")),
    Relief(
        "decode_hbm",
        lambda draw: _decode(draw, hbm_factor=draw.decode.hbm_factor * _AMPLE),
        _named("decode_hbm_bandwidth"),
    ),
    Relief("unified", _unified, _named("workload_mismatch")),
)
"""In the order of what they cost: where several restore the SLO, the first is the answer."""
