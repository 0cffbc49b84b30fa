"""Who spells a remedy's setting, and how."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.spelling import concerned, setting
from pdscope.model.topology import EngineProfile, Role
from support.signals import deployment, instance

ONE = EngineProfile("one", settings={"larger_pages": "--page"})
OTHER = EngineProfile("other", settings={"larger_pages": "--block", "router_policy": "--policy"})
NONE = EngineProfile("none")
P0 = instance("p0", Role.PREFILL, profile=ONE)
D0 = instance("d0", Role.DECODE, profile=OTHER)
D1 = instance("d1", Role.DECODE, profile=NONE)
U0 = instance("u0", Role.UNIFIED, profile=ONE)
R0 = instance("r0", Role.ROUTER, profile=NONE)
BOTH = (Role.PREFILL, Role.DECODE)


@pytest.mark.parametrize(
    ("at", "culprits", "profiles"),
    [
        ((Role.PREFILL,), (), [ONE]),
        ((Role.DECODE,), (), [OTHER, NONE]),
        ((Role.DECODE,), ("d1",), [NONE]),
        ((Role.DECODE,), ("p0",), [OTHER, NONE]),
        (BOTH, (), [ONE, OTHER, NONE]),
        ((Role.ROUTER,), (), [ONE, OTHER, NONE]),
        ((), ("d0",), []),
    ],
    ids=["role", "several engines", "at fault", "cured at the other side", "both", "no router", "nobody"],
)
def test_whoever_has_the_setting(
    at: tuple[Role, ...], culprits: tuple[str, ...], profiles: list[EngineProfile]
) -> None:
    """Those at fault among the programs of the role, else all of the role."""
    assert list(concerned(at, deployment(P0, D0, D1), culprits)) == profiles


def test_a_unified_engine_has_the_settings_of_both_roles() -> None:
    """And not those of a router."""
    of = deployment(U0, R0)
    assert concerned((Role.DECODE,), of) == (ONE,)
    assert concerned((Role.ROUTER,), of) == (NONE,)


@pytest.mark.parametrize(
    ("remedy", "profiles", "text"),
    [
        ("larger_pages", (ONE,), "--page"),
        ("larger_pages", (ONE, OTHER), "one: --page; other: --block"),
        ("router_policy", (ONE, OTHER), "other: --policy"),
        ("router_policy", (ONE,), None),
        ("router_policy", (ONE, NONE), None),
        ("larger_pages", (), None),
    ],
)
def test_as_each_engine_spells_it(remedy: str, profiles: tuple[EngineProfile, ...], text: str | None) -> None:
    """With its name where there are several engines."""
    assert setting(remedy, profiles) == text
