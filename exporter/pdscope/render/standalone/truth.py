"""Three-valued logic in PromQL: a condition is 1 (holds), 0 (does not) or absent (not known), as in the daemon."""

from __future__ import annotations


def compare(left: str, operator: str, right: str) -> str:
    """A comparison of a signal with something that has the same labels, as a condition."""
    return f"({left}) {operator} bool ({right})"


def against(left: str, operator: str, constant: str) -> str:
    """A comparison of a signal with a constant of its deployment."""
    return f"({left}) {operator} bool on (deployment) group_left () {constant}"


def all_of(*conditions: str) -> str:
    """0 where any is 0, 1 where all are 1, else absent. The conditions have the same labels."""
    return _joined("0", conditions)


def any_of(*conditions: str) -> str:
    """1 where any is 1, 0 where all are 0, else absent. The conditions have the same labels."""
    return _joined("1", conditions)


def negated(condition: str) -> str:
    """1 for 0 and 0 for 1."""
    return f"(1 - {condition})"


def known(signal: str, value: int) -> str:
    """The constant 0 or 1 wherever a signal has a value."""
    return f"({signal}) * 0 + {value}" if value else f"({signal}) * 0"


def _joined(decisive: str, conditions: tuple[str, ...]) -> str:
    """With conditions of 0 and 1 the product is 1 for all of them; where none is 1 it is 0, as it must be for any."""
    decided = [f"({condition} == {decisive})" for condition in conditions]
    return "\nor\n".join([*decided, " * ".join(conditions)])
