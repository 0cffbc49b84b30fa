"""Instances, roles and deployments."""

from __future__ import annotations

import pytest

from pdscope.model.topology import Role
from support.windows import VLLM, deployment, instance


def test_devices_of_an_instance() -> None:
    """Tensor times pipeline parallelism; attention data parallelism splits the tensor group and adds none."""
    assert instance("d0", Role.DECODE, tp=8, pp=2, dp=8).devices == 16
    assert instance("d0", Role.DECODE, VLLM, tp=8, pp=2, dp=8).devices == 128
    assert instance("d0", Role.DECODE).devices == 1


@pytest.mark.parametrize(
    ("role", "prefills", "decodes"),
    [
        (Role.PREFILL, True, False),
        (Role.DECODE, False, True),
        (Role.UNIFIED, True, True),
        (Role.ROUTER, False, False),
    ],
)
def test_what_a_role_does(role: Role, prefills: bool, decodes: bool) -> None:
    """A unified instance does both, a router neither."""
    one = instance("x", role)
    assert (one.prefills, one.decodes) == (prefills, decodes)


def test_instances_by_role_keep_their_order() -> None:
    """As in the configuration."""
    names = {"d1": Role.DECODE, "p0": Role.PREFILL, "d0": Role.DECODE, "r": Role.ROUTER}
    found = deployment(*(instance(name, role) for name, role in names.items()))
    assert [i.name for i in found.of_role(Role.DECODE)] == ["d1", "d0"]
    assert [i.name for i in found.of_role(Role.ROUTER, Role.PREFILL)] == ["p0", "r"]


@pytest.mark.parametrize(
    ("roles", "apart"),
    [
        ((Role.PREFILL, Role.DECODE), True),
        ((Role.PREFILL, Role.UNIFIED), False),
        ((Role.UNIFIED, Role.UNIFIED), False),
        ((Role.DECODE, Role.ROUTER), False),
    ],
)
def test_disaggregated_means_both_roles(roles: tuple[Role, ...], apart: bool) -> None:
    """Half of a pair transfers nothing."""
    assert deployment(*(instance(f"i{n}", role) for n, role in enumerate(roles))).disaggregated is apart
