"""What a picture of a board says."""

from __future__ import annotations

from xml.etree import ElementTree as ET

_SVG = "{http://www.w3.org/2000/svg}"


def words(drawn: str) -> list[str]:
    """All texts of an SVG document, in its order."""
    return [element.text or "" for element in ET.fromstring(drawn).iter(f"{_SVG}text")]
