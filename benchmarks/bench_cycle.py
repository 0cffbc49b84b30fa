"""One cycle of the daemon over 32 SGLang instances without its HTTP: pages in, report and /metrics out.

Prints CPU time, memory, and the ratio to what the official parser alone would take for the same pages, in one run.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from pdscope import __version__
from pdscope.config import parse_config
from pdscope.render.json import report_json
from pdscope.render.metrics import render_metrics
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind

PAGES = Path(__file__).parents[1] / "tests" / "fixtures" / "expositions"
INSTANCES = 32
SCRAPES = 13


def cpu(action: object) -> float:
    """Process CPU seconds of one call."""
    started = time.process_time()
    action()  # type: ignore[operator]
    return time.process_time() - started


def main() -> None:
    roles = ["prefill"] * (INSTANCES // 2) + ["decode"] * (INSTANCES // 2)
    names = [f"{role[0]}{number}" for number, role in enumerate(roles)]
    instances = ", ".join(
        f"{{name: {name}, role: {role}, engine: sglang, tp: 4, url: 'http://{name}.invalid:1'}}"
        for name, role in zip(names, roles, strict=True)
    )
    watch = Watch(parse_config(f"deployments: [{{name: a, instances: [{instances}]}}]", Path()), load_plugins())
    before = {role: (PAGES / f"sglang-0.5.23-{role}-t0.prom").read_bytes() for role in ("prefill", "decode")}
    after = {role: (PAGES / f"sglang-0.5.23-{role}.prom").read_bytes() for role in ("prefill", "decode")}

    def feed(pages: dict[str, bytes], at: float) -> None:
        for name, role in zip(names, roles, strict=True):
            watch.feed(name, PageKind.METRICS, pages[role], at)

    first = cpu(lambda: feed(before, 0.0))
    for scrape in range(1, SCRAPES):
        feed(before if scrape < SCRAPES - 1 else after, scrape * 5.0)
    now = SCRAPES * 5.0
    feeding = cpu(lambda: feed(after, now))
    judging = cpu(lambda: watch.report(now))
    report = watch.report(now)
    rendering = cpu(lambda: (render_metrics(report, version=__version__), report_json(report)))
    official = cpu(lambda: sum(1 for _ in text_string_to_metric_families(after["decode"].decode())))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    total = feeding + judging + rendering
    print(f"{INSTANCES} instances, pages of {len(after['decode']) / 1e3:.0f} KB")
    print(f"first pages of new layouts      {first * 1e3:8.1f} ms CPU")
    print(f"reading the pages of a cycle    {feeding * 1e3:8.1f} ms CPU, {feeding / INSTANCES * 1e3:.2f} ms a page")
    print(
        f"windows, signals, rules         {judging * 1e3:8.1f} ms CPU, {judging / INSTANCES * 1e3:.2f} ms an instance"
    )
    print(f"/metrics and JSON               {rendering * 1e3:8.1f} ms CPU")
    print(f"cycle                           {total * 1e3:8.1f} ms CPU = {total / (official * INSTANCES):.3f} of the")
    print(f"official parser on these pages  {official * INSTANCES * 1e3:8.1f} ms CPU")
    print(f"peak memory of the process      {memory:8.1f} MiB")


if __name__ == "__main__":
    main()
