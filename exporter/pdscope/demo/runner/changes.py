"""Changes one cause of a draw: in the deployment that runs, where it reads it whenever it needs it; else on paper."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace

from pdscope.demo.physics.draw import Deployment, Draw, Link
from pdscope.demo.runner.parameters import PARAMETERS, Parameter, Value


def private(draw: Draw) -> Draw:
    """`draw` with parts that belong to nobody else, so that they can be changed in place."""
    return deepcopy(draw)


def with_value(draw: Draw, parameter: Parameter, value: Value) -> Draw:
    """A draw of its own that differs in this."""
    part = replace(getattr(draw, parameter.part), **{parameter.field: value})
    return replace(draw, **{parameter.part: part})


def alter(draw: Draw, parameter: Parameter, value: Value) -> None:
    """Changes it in the draw of a running deployment, whose parts all hold the same settings.

    A draw is frozen so that nobody changes one by mistake; this is on purpose, and on a copy (`private`).
    """
    object.__setattr__(getattr(draw, parameter.part), parameter.field, value)


def cut_off(link: Link, pairs: Iterable[tuple[int, int]]) -> None:
    """From now on, and in place, transfers between just these (prefill, decode) numbers fail."""
    object.__setattr__(link, "failing_pairs", tuple(sorted(set(pairs))))


def kill_prefills(deployment: Deployment, numbers: Iterable[int]) -> None:
    """From now on, and in place, just these prefill instances are dead."""
    object.__setattr__(deployment, "dead_prefills", tuple(sorted(set(numbers))))


def differences(before: Draw, after: Draw) -> tuple[Parameter, ...] | None:
    """The parameters in which two draws differ; None when they differ in something else besides."""
    found = tuple(one for one in PARAMETERS.values() if one.of(before) != one.of(after))
    altered = before
    for one in found:
        altered = with_value(altered, one, one.of(after))
    return found if altered == after else None
