"""Files that a script writes, and whether they are what it writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def differences(root: Path, wanted: Mapping[str, str], pattern: str) -> list[str]:
    """What is to be written, and what of `pattern` nothing writes any more: paths below the root."""
    there = {str(path.relative_to(root)) for path in root.glob(pattern)}
    stale = [path for path, text in wanted.items() if _read(root / path) != text]
    return sorted({*stale, *(there - set(wanted))})


def write(root: Path, wanted: Mapping[str, str], pattern: str) -> None:
    """Write what differs, and remove what nothing writes any more."""
    for path in differences(root, wanted, pattern):
        if path in wanted:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(wanted[path], encoding="utf-8")
        else:
            (root / path).unlink()


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
