"""What a poll of 8 GPUs costs on the double of NVML: asking, rendering the page, reading it again.

Prints CPU time of this process a poll, and resident memory and live samples of the driver before and after. The double
answers at once, so this is pdscope's and pynvml's own part. Usage: bench_nvml.py [polls, by default 2000]; 100000 show
whether anything grows.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from pdscope.sources import devices
from pdscope.sources.adapter import discover
from pdscope.sources.nvml.page import render_page
from pdscope.sources.nvml.sampler import Sampler
from pdscope.sources.reader import PageReader, TargetReader
from support.nvml_double.double import ALL_BOARD, Double, build

GPUS = 8
WARM_UP = 200
BUDGET_MS = 5.0


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main(polls: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        double = Double(build(Path(folder)))
    double.load(GPUS)
    for gpu in range(GPUS):
        double.process(gpu, os.getpid(), ALL_BOARD)
    now = 0.0
    sampler = Sampler(monotonic=lambda: now, wall=lambda: now, host="node-a")
    adapters = tuple(adapter for adapter in discover(devices) if adapter.name == "nvml")
    reader = TargetReader("t", PageReader(adapters), adapters)
    spent = dict.fromkeys(("poll, processes every 15 s", "page", "reading the page"), 0.0)
    page = b""

    def once() -> None:
        nonlocal now, page
        now += 1.0
        for gpu in range(GPUS):
            double.advance(gpu, 1.0, 0.7 + gpu / 100, 0.1, 0.6, 10.0, 20.0)
        times = [time.process_time()]
        snapshot = sampler.poll()
        times.append(time.process_time())
        page = render_page(snapshot)
        times.append(time.process_time())
        scrape = reader.read(page, now)
        times.append(time.process_time())
        assert scrape.ok
        for part, start, end in zip(spent, times[:-1], times[1:], strict=True):
            spent[part] += end - start

    for _ in range(WARM_UP):
        once()
    before_mib, before_samples = resident_mib(), double.live_samples()
    spent = dict.fromkeys(spent, 0.0)
    for _ in range(polls):
        once()
    after_mib, after_samples = resident_mib(), double.live_samples()
    assert sampler.latest().reason is None
    sampler.close()
    print(f"{GPUS} GPUs, {polls} polls, page of {len(page) / 1e3:.0f} KB with {page.count(b'{')} samples")
    for part, seconds in spent.items():
        print(f"{part:<30}{seconds / polls * 1e3:8.2f} ms CPU")
    total_ms = sum(spent.values()) / polls * 1e3
    print(f"{'together':<30}{total_ms:8.2f} ms CPU, {total_ms / BUDGET_MS:.2f} of the budget")
    print(f"resident memory               {before_mib:8.1f} MiB before, {after_mib:.1f} MiB after")
    closed = double.live_samples()
    print(f"samples of the driver         {before_samples:8d} before, {after_samples} after, {closed} when closed")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
