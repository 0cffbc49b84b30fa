"""A device is slow, or all devices of an instance are: held down by heat or power, behind their peers, or faulty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pdscope.diagnosis import symptoms
from pdscope.diagnosis.base import Bench, Case, Rule, Threshold, bench, objectives
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import Quality, SignalId
from pdscope.model.topology import Role
from pdscope.model.units import Unit

_ROLES = (Role.PREFILL, Role.DECODE, Role.UNIFIED)
_BETWEEN = frozenset((SignalId.CLOCK_TO_PEERS, SignalId.POWER_TO_PEERS))


def evaluate(case: Case) -> Iterator[Finding]:
    """Per instance: one of its devices cannot keep up with the others, or all of them not with those of its peers.

    The devices of an instance work in step, so the slowest sets the pace and the others wait. A slowdown for heat, a
    power brake or a fault of the hardware says it outright; without one, a clock or a power draw far below that of the
    peers at the same work does. A power limit that all share is usual in prefill and no fault. Devices that are all
    slow alike show only beside another instance, and only where their instance is slower too: a hot one that draws on
    its power limit has a lower clock and puts out more.

    An objective is broken, or the clocks are clearly held down and the instance is visibly slower for it: then half of
    the users may be slow while the median keeps its objective.
    """
    for instance in case.instances(*_ROLES):
        board = bench(RULE, case, instance)
        own, between = _own_signs(board), _signs_between(board)
        apart = any(between.values())
        held = own[SignalId.DEVICE_SLOWDOWN] is Truth.TRUE
        clear = held or _clearly_low(board)
        slower = _slower(board) if apart or clear else Truth.FALSE
        hurts = _hurts(case, board, instance.role)
        sign = own[SignalId.DEVICE_SLOWDOWN] | own[SignalId.DEVICE_CLOCK_LOWEST] | own[SignalId.DEVICE_POWER_LOWEST]
        sign |= own.get(SignalId.HARDWARE_FAULTS, Truth.FALSE) | (Truth.of(apart) & slower)
        decisive = [signal for signal, truth in own.items() if truth is Truth.TRUE]
        if slower is Truth.TRUE:
            decisive += [signal for signal, holds in between.items() if holds]
        found = board.finding(
            (sign & hurts) | (Truth.of(clear) & slower),
            headline=_headline(board, instance.name, decisive, kept=hurts is Truth.FALSE),
            strength=0.7,
            decisive=decisive[:1],
            at_best=Quality.DERIVED if decisive[:1] == [SignalId.POWER_TO_PEERS] else Quality.MEASURED,
            culprits=(instance.name,),
        )
        if hurts is Truth.FALSE:
            found = replace(found, verdict=None)  # users are served as promised: worth knowing, and no bottleneck
        elif hurts is Truth.UNKNOWN:
            found = replace(found, before=Verdict.UNDETERMINED)
        yield found


def told_faults(case: Case) -> Iterator[Finding]:
    """A fault of the hardware that was told at some time, where an objective is broken and nothing explains it.

    The code of a fault stays until the next one, so it may be old and mended: it says nothing beside an explanation.
    """
    for instance in case.instances(*_ROLES):
        board = bench(RULE, case, instance)
        if board.signal(SignalId.HARDWARE_FAULTS) is None:
            continue
        told = board.weigh(SignalId.HARDWARE_FAULTS, Op.GE, "faults")
        yield board.finding(
            told & _hurts(case, board, instance.role),
            headline=f"nothing else explains what is slow, and on {instance.name} "
            f"{_words(board, SignalId.HARDWARE_FAULTS)}",
            strength=0.5,
            decisive=(SignalId.HARDWARE_FAULTS,),
            at_best=Quality.DERIVED,
            culprits=(instance.name,),
        )


def _own_signs(board: Bench) -> Mapping[SignalId, Truth]:
    """What one of its devices shows; a fault only where it came within the window."""
    case = board.case
    signs = {
        SignalId.DEVICE_SLOWDOWN: board.weigh(SignalId.DEVICE_SLOWDOWN, Op.GE, "slowdown"),
        SignalId.DEVICE_CLOCK_LOWEST: board.weigh(
            SignalId.DEVICE_CLOCK_LOWEST, Op.LE, 1.0 - case.threshold(RULE, "clock_lag")
        ),
        SignalId.DEVICE_POWER_LOWEST: board.weigh(
            SignalId.DEVICE_POWER_LOWEST, Op.LE, 1.0 - case.threshold(RULE, "power_lag")
        ),
    }
    fault = board.signal(SignalId.HARDWARE_FAULTS)
    if fault is not None and fault.quality is Quality.MEASURED:
        signs = {SignalId.HARDWARE_FAULTS: board.weigh(SignalId.HARDWARE_FAULTS, Op.GE, "faults"), **signs}
    return signs


def _signs_between(board: Bench) -> Mapping[SignalId, bool]:
    """What all its devices show beside those of its peers; nothing where there is no peer, or one of them idles."""
    lags = {SignalId.CLOCK_TO_PEERS: "clock_lag", SignalId.POWER_TO_PEERS: "power_lag"}
    return {
        signal: board.weigh(signal, Op.LE, 1.0 - board.case.threshold(RULE, lag)) is Truth.TRUE
        for signal, lag in lags.items()
        if board.signal(signal) is not None
    }


def _clearly_low(board: Bench) -> bool:
    """A clock so far down that nobody needs a broken objective to see it."""
    limit = 1.0 - board.case.threshold(RULE, "clear_lag")
    clocks = (board.value(signal) for signal in (SignalId.DEVICE_CLOCK_LOWEST, SignalId.CLOCK_TO_PEERS))
    return any(clock is not None and clock <= limit for clock in clocks)


def _slower(board: Bench) -> Truth:
    """It takes longer for a token than its peers although it is not given more to do; of one alone nothing is said."""
    needed = (SignalId.TOKEN_TIME_TO_PEERS, SignalId.OUTPUT_TO_PEERS)
    if any(board.signal(signal) is None for signal in needed):
        return Truth.FALSE
    longer = board.weigh(SignalId.TOKEN_TIME_TO_PEERS, Op.GE, "token_time")
    return longer & board.weigh(SignalId.OUTPUT_TO_PEERS, Op.LE, "output")


def _hurts(case: Case, board: Bench, role: Role) -> Truth:
    """Whether the objective on what this role makes is broken."""
    for latency in ("ttft", "itl"):
        for signal, limit in objectives(case.deployment, latency):
            board.weigh(signal, Op.GT, limit)
    if role is Role.PREFILL:
        return case.broken("ttft")
    return case.broken("itl") if role is Role.DECODE else case.slo_broken


def _headline(board: Bench, name: str, decisive: list[SignalId], *, kept: bool) -> str:
    """The signs with their numbers, those inside the instance first."""
    if not decisive:
        return ""
    inside = [signal for signal in decisive if signal not in _BETWEEN]
    text = f"{name} is as slow as its slowest device: " if inside else f"{name} is slower than its peers: "
    text += "; ".join(_words(board, signal) for signal in decisive)
    if SignalId.TOKEN_TIME_TO_PEERS in {e.signal for e in board.evidence}:
        pace = board.signal(SignalId.TOKEN_TIME_TO_PEERS)
        text += f"; {pace.source}" if pace is not None else ""
    return text + ("; no objective is broken for it" if kept else "")


def _words(board: Bench, signal: SignalId) -> str:
    found = board.signal(signal)
    source = found.source if found is not None else ""
    if signal is SignalId.DEVICE_SLOWDOWN:
        return f"its clocks are held down {board.text(signal)} of the time ({source})"
    if signal is SignalId.HARDWARE_FAULTS:
        return f"the driver told of {source}"
    clock = signal in (SignalId.DEVICE_CLOCK_LOWEST, SignalId.CLOCK_TO_PEERS)
    return f"its {'clock' if clock else 'power'} is {board.text(signal)} of theirs ({source})"


RULE = Rule(
    id="hardware_degraded",
    verdict=Verdict.HARDWARE_DEGRADED,
    evaluate=evaluate,
    last_resort=told_faults,
    thresholds=(
        Threshold("slowdown", 0.3, Unit.RATIO, "share of the window in which a device is slowed down by its hardware"),
        Threshold("clock_lag", 0.15, Unit.RATIO, "by which a clock lies below the median of its peers"),
        Threshold("power_lag", 0.25, Unit.RATIO, "by which less power is drawn than the median of the peers at work"),
        Threshold("clear_lag", 0.3, Unit.RATIO, "of a clock, from which no objective need be broken to see it"),
        Threshold("token_time", 1.5, Unit.RATIO, "time for a token by that of the peers: more than unequal batches do"),
        Threshold("output", 1.2, Unit.RATIO, "tokens by those of the peers, above which it is busier and not slower"),
        Threshold("faults", 1, Unit.COUNT, "devices of which the driver told a fault of the hardware"),
    ),
    remedies=("drain_device", "cool_device"),
    covers=symptoms.WORK | symptoms.FETCH | {"host_bound", "router_imbalance", "itl_unstable", "pd_ratio"},
    covers_culprits_only=True,
)
