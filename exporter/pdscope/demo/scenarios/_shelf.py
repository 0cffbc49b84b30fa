"""The scenarios that there are, in the order of the tour."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

import pdscope.demo.scenarios as package
from pdscope.demo.scenarios._scenario import Scenario
from pdscope.errors import UsageError


def _load() -> dict[str, Scenario]:
    """Every module of this package whose name does not start with an underscore.

    Faultless ones come first, and engines stay together: a tour changes what it can without a restart.
    """
    names = sorted(module.name for module in iter_modules(package.__path__) if not module.name.startswith("_"))
    found: list[Scenario] = [import_module(f"{package.__name__}.{name}").SCENARIO for name in names]
    found.sort(key=lambda scenario: (not scenario.is_faultless, scenario.draw.engine, scenario.name))
    return {scenario.name: scenario for scenario in found}


SCENARIOS: Mapping[str, Scenario] = MappingProxyType(_load())
"""By name, those with nothing wrong first."""


def find(name: str) -> Scenario:
    """The scenario of that name.

    Raises:
        UsageError: there is none.
    """
    try:
        return SCENARIOS[name]
    except KeyError:
        raise UsageError(f"no scenario is called {name!r}; there are {', '.join(SCENARIOS)}") from None
