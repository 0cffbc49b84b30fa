"""The page of all settings: each remedy that some program spells, and how each engine and router spells it."""

from __future__ import annotations

from collections.abc import Iterable

from pdscope.diagnosis.remedies import CATALOGUE
from pdscope.model.topology import EngineProfile

_HEAD = """# Settings of the remedies

An answer names a remedy with its setting as the engine of the role that it is about spells it. Versions stand where the
spelling differs between them. A remedy that an engine lacks is never offered for it; one without a row has no flag.
"""


def settings_page(profiles: Iterable[EngineProfile]) -> str:
    """One section for each remedy that somebody spells, in the order of the catalogue, as Markdown."""
    told = {profile.name: profile for profile in profiles}
    return _HEAD + "".join(_section(remedy, told.values()) for remedy in CATALOGUE)


def _section(remedy: str, profiles: Iterable[EngineProfile]) -> str:
    rows = [
        f"| {p.name} | {'has no such thing' if remedy in p.lacks else p.settings[remedy]} |\n"
        for p in profiles
        if remedy in p.settings or remedy in p.lacks
    ]
    if not rows:
        return ""
    entry = CATALOGUE[remedy]
    head = f"\n## `{remedy}`\n\n{entry.action}. Costs: {entry.cost}.\n"
    return f"{head}\n| engine | setting |\n| --- | --- |\n{''.join(rows)}"
