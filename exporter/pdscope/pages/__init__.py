"""What a person wrote about verdicts; numbers, thresholds and remedies are added from the rules themselves.

A leaf: it imports nothing of pdscope, so prose can be read wherever it is needed.
"""

from __future__ import annotations

from importlib.resources import files

VERDICTS = "verdicts"
"""Name of the introduction to all verdicts; every other name is that of a rule."""


def names() -> frozenset[str]:
    """Names of all texts."""
    return frozenset(p.name.removesuffix(".md") for p in files(__name__).iterdir() if p.name.endswith(".md"))


def prose(rule_id: str) -> str:
    """The text about a rule (or `VERDICTS`), as Markdown.

    Raises:
        KeyError: there is none of that name.
    """
    if rule_id not in names():
        raise KeyError(rule_id)
    return files(__name__).joinpath(f"{rule_id}.md").read_text(encoding="utf-8")
