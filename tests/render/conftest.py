"""One report of a real run, and one with an idle deployment, for all renderers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdscope.model.report import Report
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.plugins import Plugins, load_plugins


@pytest.fixture(scope="session")
def plugins() -> Plugins:
    return load_plugins()


@pytest.fixture(scope="session")
def transfer_bound(fixtures_dir: Path, plugins: Plugins) -> Report:
    report, _ = diagnose_bundle(fixtures_dir / "runs" / "vllm-transferbound", plugins)
    return report


@pytest.fixture(scope="session")
def healthy(fixtures_dir: Path, plugins: Plugins) -> Report:
    report, _ = diagnose_bundle(fixtures_dir / "runs" / "dynamo-pd1p2d-bw450", plugins)
    return report
