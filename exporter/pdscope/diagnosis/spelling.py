"""Whose programs a remedy is about, and how they spell its setting."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pdscope.model.topology import Deployment, EngineProfile, Role

_SPLIT = (Role.PREFILL, Role.DECODE)


def concerned(
    at: Collection[Role], deployment: Deployment, culprits: Collection[str] = ()
) -> tuple[EngineProfile, ...]:
    """Profiles of the programs that have the setting, each once: of those at fault, else of all of the roles.

    A finding on the link has no culprit, and one on an instance may be cured at the other side: then whoever has the
    role of the remedy spells it. A router that is not configured is spelt by the engines, which know their own.
    """
    roles = {*at, Role.UNIFIED} if any(role in _SPLIT for role in at) else {*at}
    members = deployment.of_role(*roles) or (deployment.instances if at else ())
    at_fault = [i for i in members if i.name in culprits]
    return tuple({i.profile.name: i.profile for i in at_fault or members}.values())


def setting(remedy: str, profiles: Sequence[EngineProfile]) -> str | None:
    """As the engine spells it; with several engines, as each that has it does. None where none of them does."""
    spelt = {p.name: p.settings[remedy] for p in profiles if remedy in p.settings}
    if len(profiles) == 1:
        return next(iter(spelt.values()), None)
    return "; ".join(f"{name}: {text}" for name, text in spelt.items()) or None
