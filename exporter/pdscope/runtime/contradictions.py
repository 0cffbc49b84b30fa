"""Where the configuration says one thing and the program another."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.config import InstanceConfig
from pdscope.model.signal import SignalId, SignalSet
from pdscope.model.topology import Role
from pdscope.runtime.plugins import ENGINE_ALIASES

_TOLERATED = 0.10
"""By how much the configured KV shape may miss what the engines say: blocks are rounded up."""


def instance_contradictions(
    config: InstanceConfig,
    *,
    engine: str,
    known_engines: frozenset[str],
    stated: Role | None,
    behaves: Role | None,
    disaggregated: bool,
) -> Iterator[str]:
    """Of one instance.

    Args:
        config: as written.
        engine: of its page.
        known_engines: that could have been recognised on such a page; another name contradicts nothing (the engines
            behind llm-d's picker print vLLM's page).
        stated: role that its page states.
        behaves: role that its counters show since its start.
        disaggregated: whether the deployment has prefill instances.
    """
    configured = ENGINE_ALIASES.get(config.engine or "", config.engine)
    if configured in known_engines and engine and configured != engine:
        yield f"engine: configured is {config.engine}, the page is of {engine}"
    if config.role is Role.ROUTER:
        return
    # a program that is asked for everything may still call itself a decoder: nobody prefills for it
    alone = config.role is Role.UNIFIED and stated is Role.DECODE and not disaggregated
    if config.role is not None and stated is not None and stated is not config.role and not alone:
        yield f"role: configured is {config.role}, the page says {stated}"
    if stated is not None or behaves is None:
        return
    if config.role is None and behaves is not Role.UNIFIED:
        yield f"role: none is configured, so it counts as unified, but its counters are of {behaves}"
    elif config.role is not None and behaves is not config.role:
        yield f"role: configured is {config.role}, but its counters since its start are of {behaves}"


def kv_contradictions(signals: SignalSet) -> Iterator[str]:
    """Of a deployment: the KV shape that is used against what the engines say."""
    used, said = signals.get(SignalId.KV_BYTES_PER_TOKEN), signals.get(SignalId.KV_BYTES_PER_TOKEN_ENGINE)
    if used is None or said is None or abs(used.value - said.value) <= _TOLERATED * said.value:
        return
    yield (
        f"model.kv: {used.source} makes {used.value:,.0f} B/token, the engine {said.value:,.0f} B/token "
        f"({said.source}): a quantised KV type, replicated heads or another model"
    )
