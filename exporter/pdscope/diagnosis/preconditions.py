"""Preconditions of remedies that a deployment and its signals can refute. What is not known refutes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pdscope.model.signal import SignalId, SignalSet, instance_scope
from pdscope.model.topology import Attention, Deployment, Role

_WHOLE_CORE = 0.9
_FEW_RUNNING = 32.0
"""Requests in a decode batch from which verifying drafts costs more than it saves."""
_LARGE_PAGE = 128.0
_ALL_EAGER = 0.99
_HALF = 0.6
"""Of the configured bytes of a token, up to which the engine keeps half of them: with scales it is a little more."""
_AT_EASE = 0.4
"""Load of a role that has time, as in the finding `pd_ratio`."""
_EVEN = 1.25
"""Busiest port by the mean of the ports, up to which all of them carry KV."""
_UNEVEN = (3.0, 4.0)
"""Ratio and difference of the work in flight from which requests are badly spread, as in `router_imbalance`."""

Precondition = Callable[[Deployment, SignalSet], bool]
"""False where the deployment or its signals show that the remedy cannot help."""


def _values(deployment: Deployment, signals: SignalSet, signal: SignalId, *roles: Role) -> list[float]:
    """What is known of a signal on instances of the roles."""
    found = (signals.value(signal, instance_scope(i.name)) for i in deployment.of_role(*roles))
    return [value for value in found if value is not None]


def _none_or_any(values: Iterable[float], holds: Callable[[float], bool]) -> bool:
    """Whether some of the known values allows it; with none known nothing forbids it."""
    known = list(values)
    return not known or any(map(holds, known))


_DECODES = (Role.DECODE, Role.UNIFIED)


def _wide_cache(deployment: Deployment, signals: SignalSet) -> bool:
    """A cache of 8 bits is not quantised to 8 bits: by the configuration, by its type, by what it weighs."""
    kv = deployment.model.kv
    written, told = (
        signals.value(signal) for signal in (SignalId.KV_BYTES_PER_TOKEN, SignalId.KV_BYTES_PER_TOKEN_ENGINE)
    )
    if written is not None and told is not None and told <= _HALF * written:
        return False
    narrow = (i.kv_dtype is not None and bool({"4", "8"} & {*i.kv_dtype}) for i in deployment.instances)
    return (kv is None or kv.bytes_per_element > 1) and not any(narrow)


def _heads_are_cut(deployment: Deployment, _signals: SignalSet) -> bool:
    """Only where the ranks of the two roles differ, and the cache has heads that they split differently."""
    shape = deployment.model.kv or deployment.model.file_kv
    sides = [{i.attention_ranks for i in deployment.of_role(role)} for role in (Role.PREFILL, Role.DECODE)]
    return sides[0] != sides[1] and (shape is None or shape.attention is not Attention.MLA)


def _small_pages(deployment: Deployment, signals: SignalSet) -> bool:
    sizes = _values(deployment, signals, SignalId.PAGE_TOKENS, Role.PREFILL, Role.DECODE)
    return _none_or_any(sizes, lambda tokens: tokens < _LARGE_PAGE)


def _pages_of_one_token(deployment: Deployment, signals: SignalSet) -> bool:
    """Only a pool of one-token pages scatters with time."""
    sizes = _values(deployment, signals, SignalId.PAGE_TOKENS, Role.DECODE)
    return _none_or_any(sizes, lambda tokens: tokens <= 1)


def _several_decodes(deployment: Deployment, _signals: SignalSet) -> bool:
    """SGLang picks the queue by the decode session: one peer uses one queue, with its part of the threads."""
    return len(deployment.of_role(Role.DECODE)) > 1


def _several_of_a_role(deployment: Deployment, _signals: SignalSet) -> bool:
    """Between instances that are alone in their roles a router has no choice."""
    return any(len(deployment.of_role(role)) > 1 for role in (Role.PREFILL, *_DECODES))


def _several_prefills(deployment: Deployment, _signals: SignalSet) -> bool:
    return len(deployment.of_role(Role.PREFILL, Role.UNIFIED)) > 1


def _ranks_differ(deployment: Deployment, signals: SignalSet) -> bool:
    """Some instance has ranks, and they are not seen to be alike."""
    ranked = any(i.dp > 1 for i in deployment.instances)
    known = _values(deployment, signals, SignalId.RANK_IMBALANCE, *Role)
    return (ranked or bool(known)) and _none_or_any(known, lambda ratio: ratio >= _UNEVEN[0])


def _fewer_would_do(deployment: Deployment, _signals: SignalSet) -> bool:
    """There are no fewer instances than one."""
    return len(deployment.of_role(*_DECODES)) > 1


def _threads_help(deployment: Deployment, signals: SignalSet) -> bool:
    """No process of a prefill instance is seen to use a whole core, and the transfer engine takes the number."""
    used = _values(deployment, signals, SignalId.FRONTEND_CPU, Role.PREFILL)
    link = deployment.interconnect
    engine = (link.transfer_engine or "").lower() if link is not None else ""
    return all(share < _WHOLE_CORE for share in used) and "nixl" not in engine and "mori" not in engine


def _ports_lie_idle(deployment: Deployment, signals: SignalSet) -> bool:
    """All ports carry alike, and none was left out by name: there is none to add."""
    spread = signals.value(SignalId.NIC_IMBALANCE)
    named = deployment.interconnect is not None and deployment.interconnect.ib_device is not None
    return spread is None or spread >= _EVEN or named


def _graphs_are_off(deployment: Deployment, signals: SignalSet) -> bool:
    return _none_or_any(
        _values(deployment, signals, SignalId.GRAPH_MISS, *_DECODES), lambda missed: missed >= _ALL_EAGER
    )


def _can_be_lowered(deployment: Deployment, signals: SignalSet) -> bool:
    """A batch of one has no fewer requests."""
    return _none_or_any(_values(deployment, signals, SignalId.RUNNING, *_DECODES), lambda running: running > 1)


def _few_run(deployment: Deployment, signals: SignalSet) -> bool:
    return _none_or_any(
        _values(deployment, signals, SignalId.RUNNING, *_DECODES), lambda running: running <= _FEW_RUNNING
    )


def _weights_are_most(deployment: Deployment, signals: SignalSet) -> bool:
    """Of what a step reads on a device, where both are known."""
    weights = deployment.model.weight_bytes
    if weights is None:
        return True
    shares = [
        weights / (i.tp * i.pp) / read
        for i in deployment.of_role(*_DECODES)
        if (read := signals.value(SignalId.STEP_BYTES, instance_scope(i.name)))
    ]
    return _none_or_any(shares, lambda share: share >= 0.5)


def _well_spread(deployment: Deployment, signals: SignalSet, role: Role) -> bool:
    """No instance of the role, or rank of one, holds far less than another: that one would take what a new one gets."""
    ratio, difference = _UNEVEN
    if any(rank >= ratio for rank in _values(deployment, signals, SignalId.RANK_IMBALANCE, role)):
        return False
    least = _values(deployment, signals, SignalId.WORK_LEAST, role)
    most = _values(deployment, signals, SignalId.WORK_MOST, role)
    if not least or not most:
        return True
    return max(least) < max(ratio * max(1.0, min(most)), min(most) + difference)


def _decode_is_short(deployment: Deployment, signals: SignalSet) -> bool:
    """Decode is not at ease with nobody in front of it, and its work is well spread."""
    load = signals.value(SignalId.DECODE_LOAD)
    waiting = _values(deployment, signals, SignalId.ADMISSION_QUEUE, Role.DECODE)
    at_ease = load is not None and load < _AT_EASE and bool(waiting) and max(waiting) < 1
    return not at_ease and _well_spread(deployment, signals, Role.DECODE)


PRECONDITIONS: Mapping[str, Precondition] = {
    "quantise_kv": _wide_cache,
    "equal_parallelism": _heads_are_cut,
    "staging_buffer": _heads_are_cut,
    "larger_pages": _small_pages,
    "restart_decode": _pages_of_one_token,
    "more_transfer_queues": _several_decodes,
    "more_transfer_threads": _threads_help,
    "router_policy": _several_of_a_role,
    "less_affinity": _several_of_a_role,
    "reset_router_state": _several_of_a_role,
    "keep_prefix_cache": _several_prefills,
    "balance_ranks": _ranks_differ,
    "use_more_nics": _ports_lie_idle,
    "larger_batch": _fewer_would_do,
    "capture_graphs": _graphs_are_off,
    "limit_running": _can_be_lowered,
    "speculative_decoding": _few_run,
    "quantise_weights": _weights_are_most,
    "add_prefill": lambda deployment, signals: _well_spread(deployment, signals, Role.PREFILL),
    "add_decode": _decode_is_short,
    "add_instances": lambda deployment, signals: _well_spread(deployment, signals, Role.UNIFIED),
}
"""Of the remedies whose precondition can be refuted, by id."""
