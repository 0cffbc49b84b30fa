"""States as numbers, words and colours: the same on every board."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pdscope.model.finding import Confidence, Phase, Stage, Verdict

GREEN, BLUE, ORANGE, RED, GREY = "#3d9c47", "#5b8fd6", "#e8912d", "#d64541", "#8e8e8e"


@dataclass(frozen=True, slots=True)
class State:
    """One value of a timeline."""

    number: int
    text: str
    colour: str


_OF_STAGE: Mapping[Stage, tuple[str, ...]] = {
    Stage.PREFILL: ("#f2b134", "#e8912d"),
    Stage.KV_TRANSFER: ("#c77dff", "#a855f7", "#9333ea", "#7e22ce", "#6b21a8", "#d8a5ff"),
    Stage.DECODE: ("#f06a6a", "#d64541", "#a8322f"),
    Stage.ROUTER: ("#e3d026",),
    Stage.HOST: ("#26a69a", "#1f8a80", "#5fc9bf"),
    Stage.HARDWARE: ("#8d5a3b",),
    Stage.WORKLOAD: ("#e377c2",),
}
"""One colour a stage, in as many shades as it has verdicts."""

_NO_STAGE: Mapping[Verdict, str] = {
    Verdict.HEALTHY: GREEN,
    Verdict.IDLE: BLUE,
    Verdict.INSUFFICIENT_DATA: "#b8b8b8",
    Verdict.METRICS_UNTRUSTED: "#6f6f6f",
    Verdict.UNDETERMINED: GREY,
}
_PHASES: Mapping[Phase, str] = {
    Phase.DECODE_STEADY_STATE: RED,
    Phase.PREFILL: ORANGE,
    Phase.BOTH_OVER_SLO: "#8d2f5a",
    Phase.WITHIN_SLO: GREEN,
    Phase.UNKNOWN: GREY,
}
_CONFIDENCES: Mapping[Confidence, str] = {
    Confidence.HIGH: GREEN,
    Confidence.MEDIUM: ORANGE,
    Confidence.LOW: GREY,
}


def _verdicts() -> tuple[State, ...]:
    shades = {stage: iter(colours) for stage, colours in _OF_STAGE.items()}
    return tuple(
        State(number, str(verdict), _NO_STAGE[verdict] if verdict.stage is Stage.NONE else next(shades[verdict.stage]))
        for number, verdict in enumerate(Verdict)
    )


VERDICTS = _verdicts()
PHASES = tuple(State(number, str(phase), _PHASES[phase]) for number, phase in enumerate(Phase))
CONFIDENCES = tuple(State(number, str(level), _CONFIDENCES[level]) for number, level in enumerate(Confidence))
HOLDS = (State(0, "no", "#d9d9d9"), State(1, "holds", RED))
ANSWERS = (State(0, "no data", RED), State(1, "up", GREEN))


def numbers(states: tuple[State, ...]) -> Mapping[str, int]:
    """State -> number."""
    return {state.text: state.number for state in states}
