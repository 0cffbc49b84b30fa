"""Each instance against the others of its role: the clock and the power of its devices, its time for a token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from pdscope.analysis.board import Board
from pdscope.analysis.device_view import DeviceView
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Fact, Metric
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.model.units import Unit, format_quantity

_AT_WORK = 0.5
"""Activity from which devices do not idle: an idle one lowers its clock."""
_AS_BUSY = 0.9
"""Share of the activity of the peers from which devices that draw less power do not merely wait for the host."""
_ACTIVITY = (Metric.DEVICE_BUSY, Metric.ENGINE_ACTIVE, Metric.SM_ACTIVE)
_NAMED = 4
"""Peers that are named."""


@dataclass(frozen=True, slots=True)
class _Figures:
    """One instance over the window; None where a figure is not known.

    Attributes:
        busy: mean activity of its devices.
        clock_hertz, power_watts: medians of its devices, while they are at work.
        token_seconds: that a request waits for a token; on prefill, that a token of a prompt takes.
        tokens_per_second: given out; on prefill, read.
    """

    name: str
    busy: float | None
    clock_hertz: float | None
    power_watts: float | None
    token_seconds: float | None
    tokens_per_second: float | None


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A figure of an instance that is compared with that of its peers, and how it reads."""

    signal: SignalId
    figure: Callable[[_Figures], float | None]
    unit: Unit
    words: str


_COMPARISONS = (
    _Comparison(SignalId.CLOCK_TO_PEERS, lambda f: f.clock_hertz, Unit.HERTZ, "clock of"),
    _Comparison(SignalId.POWER_TO_PEERS, lambda f: f.power_watts, Unit.WATTS, "power of"),
    _Comparison(SignalId.TOKEN_TIME_TO_PEERS, lambda f: f.token_seconds, Unit.SECONDS, "a token takes"),
    _Comparison(SignalId.OUTPUT_TO_PEERS, lambda f: f.tokens_per_second, Unit.TOKENS_PER_SECOND, "output of"),
)


def put_peers(board: Board, observed: Sequence[Observed], devices: Mapping[str, DeviceView]) -> None:
    """Ratios of the figures of each instance to the median of its peers: those of its role, engine, size and devices.

    Clocks and power are compared only while the devices are at work. A power draw below that of the peers says
    something of the devices only where they are as busy as theirs: those that wait for a slow host draw little too.
    """
    groups: dict[tuple[object, ...], list[_Figures]] = {}
    for o in observed:
        if o.instance.role is not Role.ROUTER:
            view = devices.get(o.instance.name)
            groups.setdefault(_kind(o, view), []).append(_figures(o, view))
    for members in groups.values():
        for one in members:
            others = [other for other in members if other is not one]
            for comparison in _COMPARISONS:
                if comparison.signal is not SignalId.POWER_TO_PEERS or _as_busy(one, others):
                    _put(board, comparison, one, others)


def _put(board: Board, comparison: _Comparison, one: _Figures, others: Sequence[_Figures]) -> None:
    own = comparison.figure(one)
    known = {other.name: value for other in others if (value := comparison.figure(other)) is not None}
    middle = median(known.values()) if known else 0.0
    if own is None or middle <= 0:
        return
    names = f"{', '.join([*known][:_NAMED])}{' ...' if len(known) > _NAMED else ''}"
    its, theirs = (format_quantity(value, comparison.unit) for value in (own, middle))
    source = f"{comparison.words} {its} on {one.name}, {theirs} on {names}"
    board.put(comparison.signal, own / middle, Quality.MEASURED, source, scope=instance_scope(one.name))


def _as_busy(one: _Figures, others: Sequence[_Figures]) -> bool:
    known = [other.busy for other in others if other.busy is not None]
    return one.busy is not None and bool(known) and one.busy >= _AS_BUSY * median(known)


def _kind(o: Observed, view: DeviceView | None) -> tuple[object, ...]:
    """What instances have in common that may be compared; hardware that nobody named goes by the devices' own names."""
    i = o.instance
    pages = view.windows if view is not None and i.hardware is None else ()
    models = frozenset(page.facts[Fact.DEVICE_MODEL] for page in pages if Fact.DEVICE_MODEL in page.facts)
    return (i.role, i.engine, i.tp, i.pp, i.dp, i.hardware, models)


def _figures(o: Observed, view: DeviceView | None) -> _Figures:
    seconds, tokens = _prompts(o) if o.instance.role is Role.PREFILL else _decoding(o)
    busy = _busy(view, o.instance.devices) if view is not None else None
    if view is None or busy is None or busy < _AT_WORK:
        return _Figures(o.instance.name, busy, None, None, seconds, tokens)
    clock, power = (_middle(view, metric) for metric in (Metric.DEVICE_CLOCK, Metric.DEVICE_POWER))
    return _Figures(o.instance.name, busy, clock, power, seconds, tokens)


def _busy(view: DeviceView, own: int) -> float | None:
    """Mean activity of the devices; None where some of them are not the instance's."""
    for metric in _ACTIVITY:
        parts = view.means(metric)
        if parts:
            return fmean(part.value for part in parts.values()) if len(parts) <= own else None
    return None


def _middle(view: DeviceView, metric: Metric) -> float | None:
    parts = view.means(metric)
    return median(part.value for part in parts.values()) if parts else None


def _decoding(o: Observed) -> tuple[float | None, float | None]:
    """Seconds a token, by Little's law, and tokens a second; an instance that is mostly empty has no steps to time."""
    running, made = o.level(Metric.RUNNING), o.rate(Metric.GENERATED_TOKENS)
    if made is None or made.gain <= 0:
        return None, None
    if o.asleep or running is None or running.mean < 1:
        return None, made.per_second
    return running.mean / made.per_second, made.per_second


def _prompts(o: Observed) -> tuple[float | None, float | None]:
    """Seconds of computation for a token of a prompt, and prompt tokens a second."""
    times, read = o.distribution(Metric.PREFILL_TIME), o.rate(Metric.PROMPT_TOKENS)
    if read is None or read.gain <= 0:
        return None, None
    mean = times.mean if times is not None else None
    if times is None or mean is None:
        return None, read.per_second
    return mean * times.count / read.gain, read.per_second
