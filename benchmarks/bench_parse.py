"""What reading a page costs beside the official parser and the floor of any parser that splits lines.

All figures are CPU time of this process, the least of several runs, taken in turns so that the load of the machine
meets all alike. Compare ratios; microseconds belong to a machine. Usage: bench_parse.py [part of a page's name ...]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from pdscope.sources.exposition import PageParser

PAGES = Path(__file__).parents[1] / "tests" / "fixtures" / "expositions"
ROUNDS = 5

# For each page, which samples a diagnosis needs; about a quarter to a half of the page.
WANTED = {
    "sglang-0.5.23-decode.prom": r"sglang:(num_\w+|\w*token_usage|\w+_total|gen_throughput|kv_\w+"
    r"|time_to_first_token_seconds_\w+|inter_token_latency_seconds_\w+|queue_time_seconds_\w+)",
    "sglang-0.5.23-decode-dpattn8.prom": r"sglang:(num_\w+|\w*token_usage|\w+_total|gen_throughput|kv_\w+"
    r"|time_to_first_token_seconds_\w+|inter_token_latency_seconds_\w+|queue_time_seconds_\w+)",
    "vllm-0.32.0-nixl-d-overload.prom": r"vllm:(num_\w+|kv_cache_usage_perc|\w+_total|nixl_\w+"
    r"|time_to_first_token_seconds_\w+|inter_token_latency_seconds_\w+|request_\w+_time_seconds_\w+)",
    "dynamo-1.6.1-frontend-longhigh-bw450-t1.prom": r"dynamo_frontend_\w+",
    "dcgm_t4_2gpu_fake-gpu-operator.txt": r"DCGM_FI_(PROF|DEV)_\w*(UTIL|ACTIVE|BYTES|FB_\w+|POWER\w*)",
}
COLUMNS = ("known layout", "first reading", "official", "body.split")


def cpu_seconds(call: Callable[[], object], repeat: int) -> float:
    start = process_time()
    for _ in range(repeat):
        call()
    return (process_time() - start) / repeat


def measure(body: bytes, wanted: frozenset[str]) -> tuple[list[float], int]:
    """Seconds of each column, and how many samples were wanted."""
    text = body.decode()
    parser = PageParser(wanted)
    page = parser.parse(body)
    again = parser.parse(body, page.layout)
    assert again.layout is page.layout
    np.testing.assert_array_equal(again.values, page.values)
    calls: tuple[tuple[Callable[[], object], int], ...] = (
        (lambda: parser.parse(body, page.layout), 50),
        (lambda: PageParser(wanted).parse(body), 1),
        (lambda: list(text_string_to_metric_families(text)), 1),
        (lambda: body.split(b"\n"), 50),
    )
    rounds = [[cpu_seconds(call, repeat) for call, repeat in calls] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)], len(page.values)


def main(parts: list[str]) -> None:
    header = "".join(f"{column + ', us':>19}" for column in COLUMNS)
    print(f"{'page':<46}{'KB':>5}{'samples':>9}{'wanted':>8}{header}{'official/known':>16}{'known/split':>13}")
    for name, pattern in WANTED.items():
        if parts and not any(part in name for part in parts):
            continue
        body = (PAGES / name).read_bytes()
        printed = [line.decode() for line in re.findall(rb"^[a-zA-Z_:][a-zA-Z0-9_:]*", body, re.MULTILINE)]
        wanted = frozenset(sample for sample in printed if re.fullmatch(pattern, sample))
        (known, first, official, split), count = measure(body, wanted)
        figures = "".join(f"{seconds * 1e6:>19.0f}" for seconds in (known, first, official, split))
        ratios = f"{official / known:>15.0f}x{known / split:>12.1f}x"
        print(f"{name:<46}{len(body) // 1000:>5}{len(printed):>9}{count:>8}{figures}{ratios}")


if __name__ == "__main__":
    main(sys.argv[1:])
