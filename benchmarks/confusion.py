"""How often the verdict is the cause: random simulated deployments, labelled by counterfactual, read as pages.

Each draw is a deployment of random size, model, hardware, engine and traffic with at most one thing wrong, of random
severity. The simulator says by counterfactual which single resource is scarce (`physics.truth`); pdscope reads the
pages of the same draw as it would read them over HTTP and knows nothing else. vLLM exports nothing about CUDA graphs,
so steps outside of them are drawn for SGLang alone. Prints the confusion table; `--write` puts it into
docs/confusion.md.

    python benchmarks/confusion.py --draws 500 --seed 1 --jobs 2
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from pdscope.config import parse_config
from pdscope.demo.pages.servers import configuration, servers
from pdscope.demo.physics.draw import Deployment, Draw
from pdscope.demo.physics.reliefs import RELIEFS
from pdscope.demo.physics.simulation import Simulation
from pdscope.demo.physics.truth import Label, truth
from pdscope.demo.scenarios._scenario import changed
from pdscope.errors import UsageError
from pdscope.model.finding import Verdict
from pdscope.runtime.plugins import check, load_plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind

PAGE = Path(__file__).parents[1] / "docs" / "confusion.md"
WARM_UP_SECONDS, WINDOW_SECONDS, STEP_SECONDS = 20.0, 60.0, 5.0
CLEAR = 0.25
"""Up to a quarter over or under an objective: the buckets of a histogram (50 to 75 ms) do not tell them from it."""
FAULTLESS = frozenset({"healthy", "idle"})

MODELS = (
    ("meta-llama/Llama-3.1-70B-Instruct", 4, 2.5),
    ("meta-llama/Llama-3.1-8B-Instruct", 1, 4.0),
)
HARDWARE = ("H100 SXM", "H200 SXM", "H100 SXM")

Fault = Callable[[Draw, random.Random], Draw]


def _log(chance: random.Random, low: float, high: float) -> float:
    """Between the two, even in its logarithm."""
    return low * (high / low) ** chance.random()


FAULTS: dict[str, Fault] = {
    "none": lambda d, _: d,
    "narrow link": lambda d, r: changed(d, link={"nic_bytes_per_second": _log(r, 0.2e9, 1.2e9)}),
    "narrow fabric": lambda d, r: changed(d, link={"shared_bytes_per_second": _log(r, 0.5e9, 3e9)}),
    "wrong path": lambda d, r: changed(d, link={"path_bytes_per_second": _log(r, 0.15e9, 0.5e9)}),
    "pages of one token": lambda d, r: changed(d, link={"page_tokens": 1, "threads": r.choice((4, 8))}),
    "dear descriptors": lambda d, r: changed(
        d, link={"descriptor_seconds": _log(r, 5e-6, 15e-6), "page_tokens": r.choice((4, 8))}
    ),
    "slow bootstrap": lambda d, r: changed(d, link={"bootstrap_seconds": r.uniform(1.0, 3.0)}),
    "a pair that fails": lambda d, _: changed(d, link={"failing_pairs": ((0, 0),)}),
    "orphans": lambda d, r: changed(
        d, engine="vllm", traffic={"orphan_share": r.uniform(0.3, 0.6)}, prefill={"pool_tokens": 60_000}
    ),
    "slow rank": lambda d, r: changed(d, prefill={"slow_rank": r.uniform(0.3, 0.5)}),
    "affinity": lambda d, _: changed(
        d,
        deployment={"prefill_instances": 2, "decode_instances": 2},
        frontend={"affinity": 1.0},
        traffic={"requests_per_second": d.traffic.requests_per_second * 1.8, "groups": 1},
    ),
    "slow router": lambda d, r: changed(d, frontend={"router_seconds": _slow_router(d, r)}),
    "slow detokenizer": lambda d, r: changed(d, frontend={"detokenize_seconds_per_token": r.uniform(0.002, 0.004)}),
    "few graphs": lambda d, r: changed(
        d, engine="sglang", decode={"graph_ceiling": 2, "launch_seconds_per_layer": r.uniform(6e-4, 1e-3)}
    ),
    "slow host": lambda d, r: changed(d, decode={"host_seconds": r.uniform(0.05, 0.1)}),
    "small budget": lambda d, r: changed(d, prefill={"batch_tokens": 256, "pass_seconds": r.uniform(0.02, 0.05)}),
    "few slots": lambda d, r: changed(d, decode={"slots": r.randint(3, 8)}),
    "small pool": lambda d, r: changed(d, decode={"pool_tokens": r.randint(20_000, 40_000)}),
    "much traffic": lambda d, r: changed(
        d, traffic={"requests_per_second": d.traffic.requests_per_second * r.uniform(1.8, 3.0)}
    ),
}


def _slow_router(draw: Draw, chance: random.Random) -> float:
    return chance.uniform(0.9, 1.2) / draw.traffic.requests_per_second


def draw_of(seed: int) -> tuple[str, Draw]:
    """The draw of a seed, and the name of what was changed."""
    chance = random.Random(seed)
    model, devices, rate = chance.choice(MODELS)
    pairs = chance.choice((1, 1, 2))
    base = Draw(
        engine=chance.choice(("sglang", "vllm")),
        hardware=chance.choice(HARDWARE),
        model=model,
        deployment=Deployment(pairs, pairs, prefill_devices=devices, decode_devices=devices),
        seed=seed,
        warm_up_seconds=WARM_UP_SECONDS,
    )
    base = changed(
        base,
        traffic={
            "requests_per_second": rate * pairs * chance.uniform(0.6, 1.0),
            "prompt_tokens": chance.uniform(1500, 4000),
            "output_tokens": chance.uniform(100, 300),
            "burst_factor": chance.choice((1.0, 1.2, 1.5)),
        },
        link={"page_tokens": chance.choice((16, 64))},
    )
    name = chance.choice(tuple(FAULTS))
    return name, FAULTS[name](base, chance)


@dataclass(frozen=True, slots=True)
class Result:
    """What was wrong, what it is called by counterfactual, and what was said."""

    seed: int
    fault: str
    label: str
    also: tuple[str, ...]
    violation: float
    load: float
    verdict: str
    confidence: str
    summary: str

    @property
    def right(self) -> bool:
        """The verdict is that of a resource whose relief alone restores the objectives; of a sound one, that it is."""
        if self.label == "healthy":
            return self.verdict in FAULTLESS
        return self.verdict == self.label or self.verdict in self.also

    @property
    def clear(self) -> bool:
        """Whether there is one right answer: some relief is enough, and the violation is no matter of buckets."""
        near = self.violation <= CLEAR if self.violation > 0.0 else self.load > 1.0 / (1.0 + CLEAR)
        return self.label != "undetermined" and not near

    @property
    def wrong_stage(self) -> bool:
        """A stage blamed that is not at fault."""
        said = Verdict(self.verdict).stage
        stages = {Verdict(one).stage for one in (self.label, *self.also)}
        return said.value != "none" and said not in stages


def judge(seed: int) -> Result | None:
    """One draw; None where it is no deployment (its model does not fit on its devices)."""
    name, draw = draw_of(seed)
    try:
        label = truth(draw, WINDOW_SECONDS)
        verdict, confidence, summary = read(draw)
    except UsageError:
        return None
    also = tuple(sorted(_verdicts(label)))
    return Result(seed, name, label.verdict, also, label.violation, _load(label), verdict, confidence, summary)


def _load(label: Label) -> float:
    """The greatest of the latencies by its objective, below one where all hold."""
    outcome, slo = label.outcome, label.outcome.draw.slo
    pairs = (
        (slo.ttft_p50_seconds, outcome.ttft(0.5)),
        (slo.ttft_p95_seconds, outcome.ttft(0.95)),
        (slo.itl_p50_seconds, outcome.itl(0.5)),
        (slo.itl_p95_seconds, outcome.itl(0.95)),
    )
    return max((value / limit for limit, value in pairs if limit is not None), default=0.0)


def _verdicts(label: Label) -> set[str]:
    """Names of all resources whose relief alone is enough."""
    return {r.verdict(label.outcome) for r in RELIEFS if r.resource in label.restoring}


def read(draw: Draw) -> tuple[str, str, str]:
    """Verdict, confidence and sentence of the pages of a draw."""
    plugins = load_plugins()
    simulation = Simulation(draw)
    listening = servers(simulation)
    urls = {one.name: f"http://{one.name}.invalid:{30000 + i}" for i, one in enumerate(listening)}
    text = yaml.safe_dump(configuration(simulation, urls) | {"window": f"{WINDOW_SECONDS:.0f}s"})
    config = parse_config(text, Path("/"), file="draw")
    check(config, plugins)
    watch = Watch(config, plugins, retention_seconds=1e9)
    begin = 1_796_000_000.0
    at = WARM_UP_SECONDS
    while at <= WARM_UP_SECONDS + WINDOW_SECONDS:
        simulation.run(at)
        for one in listening:
            for path, page in one.pages.items():
                kind = {"/metrics": PageKind.METRICS, "/v1/loads": PageKind.LOADS}.get(path)
                if kind is not None:
                    watch.feed(one.name, kind, page.read(), begin + at, 0.01)
        at += STEP_SECONDS
    diagnosis = watch.report(begin + at - STEP_SECONDS).deployments[0].diagnosis
    return diagnosis.verdict.value, diagnosis.confidence.value, diagnosis.summary


def table(results: Sequence[Result]) -> str:
    """The confusion table in Markdown: rows are the truth, columns what was said."""
    clear = [r for r in results if r.clear]
    labels = sorted({r.label for r in clear})
    said = sorted({r.verdict for r in clear})
    counts = Counter((r.label, r.verdict) for r in clear)
    right = Counter(r.label for r in clear if r.right)
    head = "| cause by counterfactual | draws | right | " + " | ".join(f"`{v}`" for v in said) + " |\n"
    head += "|---" * (len(said) + 3) + "|\n"
    rows = []
    for label in labels:
        total = sum(counts[label, v] for v in said)
        cells = " | ".join(str(counts[label, v] or "") for v in said)
        rows.append(f"| `{label}` | {total} | {right[label]} | {cells} |\n")
    return head + "".join(rows)


def summary(results: Sequence[Result], draws: int) -> str:
    """The figures in one paragraph."""
    clear = [r for r in results if r.clear]
    right = sum(r.right for r in clear)
    wrong = [r for r in clear if r.wrong_stage]
    sure = [r for r in wrong if r.confidence == "high"]
    several = sum(r.label == "undetermined" for r in results)
    return (
        f"{draws} draws; {len(results)} deployments; {several} in which no single relief is enough and "
        f"{len(results) - len(clear) - several} within {CLEAR:.0%} of an objective are not counted. Of the other "
        f"{len(clear)} the verdict is right in {right} ({right / max(1, len(clear)):.1%}); a wrong stage is named in "
        f"{len(wrong)}, with confidence high in {len(sure)}.\n"
    )


def main() -> int:
    """Run the draws."""
    parser = argparse.ArgumentParser(description="confusion of the verdict with the cause, over random draws")
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first draw")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="into docs/confusion.md")
    parser.add_argument("--details", type=Path, help="every result as a line of JSON")
    options = parser.parse_args()
    seeds = range(options.seed, options.seed + options.draws)
    results: list[Result] = []
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for done, result in enumerate(pool.imap_unordered(judge, seeds, chunksize=1), 1):
            if result is not None:
                results.append(result)
            if sys.stderr.isatty():
                print(f"\r{done}/{options.draws}", end="", file=sys.stderr)
    results.sort(key=lambda r: r.seed)
    if options.details is not None:
        lines = (json.dumps({f: getattr(r, f) for f in Result.__slots__} | {"right": r.right}) for r in results)
        options.details.write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = f"{summary(results, options.draws)}\n{table(results)}"
    print(text)
    if options.write:
        PAGE.write_text(f"{PREFACE}\n{text}", encoding="utf-8")
    return 0


PREFACE = """# How often the verdict is the cause

Random simulated deployments (size, model, hardware, engine, traffic, noise) with at most one thing wrong, of random
severity. The simulator relieves each resource alone under the same seed and says whose relief restores the objectives:
that is the truth. pdscope reads the pages of the draw and knows nothing else; simulator and rules share no formula.
A verdict is right where the relief of what it names is enough; rows are called by the cheapest of these. The rules were
reworked on draws among 1 to 500, 1001 to 1110 and 3001 to 3120, so other seeds are the fairer judge of them.
Made by `python benchmarks/confusion.py --draws 500 --seed 1 --write`.
"""

if __name__ == "__main__":
    sys.exit(main())
