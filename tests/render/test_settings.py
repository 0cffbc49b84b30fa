"""The page of all settings."""

from __future__ import annotations

from pdscope.diagnosis.remedies import CATALOGUE
from pdscope.model.topology import EngineProfile
from pdscope.render.settings import settings_page

ONE = EngineProfile("one", settings={"larger_pages": "--page"}, lacks=frozenset({"staging_buffer"}))
OTHER = EngineProfile("other", settings={"larger_pages": "--block"})


def test_each_engine_has_its_row() -> None:
    """By remedy, with what it costs; what an engine lacks is said, and what nobody spells is left out."""
    page = settings_page([ONE, ONE, OTHER])
    pages = CATALOGUE["larger_pages"]
    assert f"## `larger_pages`\n\n{pages.action}. Costs: {pages.cost}.\n" in page
    assert "\n| one | --page |\n| other | --block |\n" in page
    assert page.count("| one | --page |") == 1
    assert "| one | has no such thing |" in page
    assert page.count("\n## ") == 2
