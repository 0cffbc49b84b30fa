"""A diagnosis without a cluster: from a capture bundle."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pdscope.config import Config, parse_config
from pdscope.errors import BundleError
from pdscope.model.report import Report
from pdscope.runtime.named_files import bundled_files
from pdscope.runtime.plugins import Plugins, check, load_plugins
from pdscope.runtime.silence import missed_scrapes
from pdscope.runtime.targets import Asked
from pdscope.runtime.unjudged import log_faults
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
    folder = path.parent / bundle.name
    config = parse_config(bundle.config_text, folder, file=f"{bundle.name}/pdscope.yml")
    check(config, found)
    if bundle.newest is None:
        raise BundleError(f"{bundle.name}: no scrape in samples/")
    files, remarks = bundled_files(config, folder, bundle.models)
    watch = Watch(config, found, files=files, retention_seconds=float("inf"))
    for page in bundle.last_window(config.window_seconds):
        watch.feed(page.target, page.kind, page.body, page.at)
    for (target, kind), count in missed_scrapes(bundle, _intervals_seconds(config)).items():
        watch.miss(target, kind, count)
    report = watch.report(bundle.newest)
    log_faults({f"deployment {name}": error for name, error in watch.faults.items()})
    return report, replace(bundle, remarks=remarks)


def _intervals_seconds(config: Config) -> dict[str, float]:
    """Between two scrapes of each target."""
    targets: list[Asked] = [i for d in config.deployments for i in d.instances]
    targets += [device for d in config.deployments for device in d.devices]
    return {target.name: target.scrape.interval_seconds for target in targets}
