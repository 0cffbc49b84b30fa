"""Programs that tests run as they are."""

from __future__ import annotations

import shutil

import pytest


def needed(*names: str, package: str) -> str:
    """Path of the first of these that there is; skips where none is, which CI refuses (tests/conftest.py)."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"{names[0]} is not on the PATH (Debian: apt-get install {package})")
    return found
