"""A diagnosis without a cluster: from a capture bundle."""

from __future__ import annotations

from pathlib import Path

from pdscope.config import parse_config
from pdscope.errors import BundleError
from pdscope.model.report import Report
from pdscope.runtime.plugins import Plugins, check, load_plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import Bundle, read_bundle


def diagnose_bundle(path: Path, plugins: Plugins | None = None) -> tuple[Report, Bundle]:
    """One diagnosis of a capture bundle, at the time of its newest scrape.

    Raises:
        BundleError: the bundle cannot be read.
        ConfigError: its configuration is wrong.
    """
    found = plugins or load_plugins()
    bundle = read_bundle(path)
    config = parse_config(bundle.config_text, path.parent, file=f"{bundle.name}/pdscope.yml")
    check(config, found)
    if bundle.newest is None:
        raise BundleError(f"{bundle.name}: no scrape in samples/")
    watch = Watch(config, found, retention_seconds=float("inf"))
    for page in bundle.last_window(config.window_seconds):
        watch.feed(page.target, page.kind, page.body, page.at)
    return watch.report(bundle.newest), bundle
