"""What the signals of a deployment cost beside one reading by the official parser and the least that numpy can do.

A hundred SGLang instances, half of them prefill, with a window of thirteen scrapes each: recorded pages, read once by
the real adapters; in later scrapes counters and histograms have grown. The floor takes the same rows, stacks them, and
computes every increase and every mean, for one instance after the other, without knowing what they mean. The official
parser's figure is one reading of one decode page, and a scrape interval brings each instance one page.

All figures are CPU time of this process, the least of several runs, taken in turns so that the load of the machine
meets all alike. Compare ratios; microseconds belong to a machine. Usage: bench_signals.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from pdscope.analysis.signals import compute_signals
from pdscope.model.metric import Kind
from pdscope.model.scrape import Row, Schema, Scrape
from pdscope.model.signal import SignalSet
from pdscope.model.topology import Attention, Deployment, Instance, Interconnect, KvShape, ModelFacts, Role, Slo
from pdscope.model.window import Window, build_window
from pdscope.sources import engines
from pdscope.sources.adapter import discover
from pdscope.sources.reader import PageReader, TargetReader

PAGES = Path(__file__).parents[1] / "tests" / "fixtures" / "expositions"
BODIES = {role: (PAGES / f"sglang-0.5.23-{role}.prom").read_bytes() for role in (Role.PREFILL, Role.DECODE)}
INSTANCES = 100
SCRAPES = 13
STEP_SECONDS = 5.0
GROWTH_PER_SCRAPE = 0.01
ROUNDS = 5


def growing(schema: Schema) -> Row:
    """1 for the numbers of a row that only grow, 0 for gauges."""
    mask = np.zeros(schema.width)
    for key, index in schema.scalars.items():
        mask[index] = key.metric.spec.kind is Kind.COUNTER
    for slot in schema.histograms.values():
        mask[slot.start : slot.start + len(slot.bounds) + 1] = 1.0
    return mask


def scraped(page: Scrape) -> list[Scrape]:
    """A window's scrapes out of one."""
    assert page.schema is not None
    assert page.row is not None
    grown = page.row * growing(page.schema) * GROWTH_PER_SCRAPE
    return [
        replace(page, at=page.at + STEP_SECONDS * number, row=page.row + grown * number) for number in range(SCRAPES)
    ]


def made() -> tuple[Deployment, Mapping[str, list[Scrape]]]:
    """The deployment and the scrapes of each of its instances."""
    adapters = discover(engines)
    profile = next(a.profile for a in adapters if a.profile is not None and a.profile.name == "sglang")
    reader = PageReader(adapters)
    instances, scrapes = [], {}
    for number in range(INSTANCES):
        role = Role.PREFILL if number % 2 else Role.DECODE
        name = f"{role}-{number // 2}"
        instances.append(Instance(name, role, "sglang", f"http://{name}:30000", profile, tp=4))
        page = TargetReader(name, reader, reader.candidates(engine="sglang", role=role)).read(BODIES[role], 0.0)
        assert page.ok, page.detail
        scrapes[name] = scraped(page)
    deployment = Deployment(
        name="bench",
        model=ModelFacts("model", kv=KvShape(Attention.GQA, 32, 2, kv_heads=8, head_dim=128)),
        instances=tuple(instances),
        slo=Slo(ttft_p50_seconds=2.0, itl_p50_seconds=0.05),
        interconnect=Interconnect(50e9),
    )
    return deployment, scrapes


def windows(scrapes: Mapping[str, Sequence[Scrape]]) -> dict[str, list[Window]]:
    """As a cycle builds them."""
    built = {name: build_window(own) for name, own in scrapes.items()}
    return {name: [window] for name, window in built.items() if window is not None}


def signals(deployment: Deployment, of: Mapping[str, Sequence[Window]]) -> SignalSet:
    now = STEP_SECONDS * (SCRAPES - 1)
    return compute_signals(deployment, of, {}, now, now)


def floor(rows: Mapping[str, Sequence[Row]]) -> list[tuple[Row, Row]]:
    """Increase and mean of every number."""
    stacked = (np.stack(own) for own in rows.values())
    return [(table[-1] - table[0], table.mean(axis=0)) for table in stacked]


def cpu_seconds(call: Callable[[], object]) -> float:
    start = process_time()
    call()
    return process_time() - start


def main() -> None:
    deployment, scrapes = made()
    built = windows(scrapes)
    rows = {name: [s.row for s in own if s.row is not None] for name, own in scrapes.items()}
    text = BODIES[Role.DECODE].decode()
    found = signals(deployment, built)
    assert len(built) == INSTANCES
    assert len(found) > 10 * INSTANCES
    calls: Mapping[str, tuple[Callable[[], object], int]] = {
        "build_window": (lambda: windows(scrapes), INSTANCES),
        "compute_signals": (lambda: signals(deployment, built), INSTANCES),
        "both": (lambda: signals(deployment, windows(scrapes)), INSTANCES),
        "numpy floor": (lambda: floor(rows), INSTANCES),
        "official parser": (lambda: list(text_string_to_metric_families(text)), 1),
    }
    rounds = [[cpu_seconds(call) / share for call, share in calls.values()] for _ in range(ROUNDS)]
    seconds = dict(zip(calls, map(min, zip(*rounds, strict=True)), strict=True))
    print(f"{INSTANCES} instances, {SCRAPES} scrapes each, {len(found)} signals")
    print(f"{'':<18}{'us an instance':>16}{'official parser/it':>21}{'it/numpy floor':>17}")
    for name, taken in seconds.items():
        ratios = f"{seconds['official parser'] / taken:>20.0f}x{taken / seconds['numpy floor']:>16.1f}x"
        print(f"{name:<18}{taken * 1e6:>16.0f}{ratios}")


if __name__ == "__main__":
    main()
