"""How much KV crosses the link, how much wants to, and how long a transfer takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pdscope.model.metric import Metric
from pdscope.model.topology import Role
from pdscope.render.alerting.promql import select
from pdscope.render.standalone import engines
from pdscope.render.standalone.book import Book
from pdscope.render.standalone.engines import SGLANG, VLLM, either
from pdscope.render.standalone.latency import Latency
from pdscope.render.standalone.parameters import CAPACITY, KV_BYTES
from pdscope.sources.adapter import Adapter


@dataclass(frozen=True, slots=True)
class Traffic:
    """Selectors of what was recorded."""

    finished: str
    prompt_tokens: str
    demand: str
    achieved: str
    utilization: str
    transfer_time: str
    transfer_share: str
    in_flight: str


def traffic(book: Book, waits: Latency) -> Traffic:
    """Record them."""
    reader = book.reader
    finished = book.deployment(
        "requests_per_second",
        book.total(reader.rate(Metric.REQUESTS_FINISHED, engines.DECODES)),
        "Requests that ended on decode.",
    )
    prompt = book.deployment(
        "prompt_tokens_per_request",
        either(
            [
                _mean(book, Metric.PROMPT_LENGTH, engines.DECODES),
                _mean(book, Metric.PROMPT_LENGTH, engines.PREFILL),
            ]
        ),
        "Mean prompt.",
    )
    achieved = book.deployment(
        "kv_transfer_achieved_bytes_per_second",
        book.total(reader.sums(Metric.KV_TRANSFER_BYTES, engines.ALL)),
        "KV that crossed the link, all ranks; counted when a transfer ends.",
    )
    arrivals = _arrivals(book, finished)
    size = _bytes_per_request(book, finished, prompt, achieved)
    split = _split(book)
    demand = book.deployment(
        "kv_transfer_demand_bytes_per_second",
        f"{arrivals} * {size} and {reader.settings.on()} {split}",
        "KV that wants to cross the link.",
    )
    capacity = f"on (deployment) group_left () {select(CAPACITY)}"
    utilization = book.deployment(
        "kv_transfer_utilization_ratio", f"{demand} / {capacity}", "Demand by capacity; above 1 requests pile up."
    )
    time = book.deployment(
        "kv_transfer_seconds",
        either(
            [
                _mean(book, Metric.EXPOSED_TRANSFER_TIME, engines.PREFILL, (SGLANG,)),
                _mean(book, Metric.KV_TRANSFER_TIME, engines.ALL),
            ]
        ),
        "Mean time of a transfer: what a request waits for it (SGLang), or the transfer itself (vLLM).",
    )
    share = book.deployment(
        "kv_transfer_ttft_share", f"clamp_max({time} / {waits.ttft_mean}, 1)", "The same as a share of the mean TTFT."
    )
    in_flight = book.deployment(
        "kv_transfers_in_flight",
        either(
            [
                book.total(reader.mean(Metric.PREFILL_TRANSFER_QUEUE, engines.PREFILL, (SGLANG,))),
                book.total(reader.mean(Metric.KV_FETCH_ACTIVE, engines.DECODE, (VLLM,))),
            ]
        ),
        "Transfers at a time, mean over the window.",
    )
    return Traffic(finished, prompt, demand, achieved, utilization, time, share, in_flight)


def _split(book: Book) -> str:
    """1 where prefill and decode run apart: a unified engine moves no KV."""
    by = book.reader.settings.by()
    prefill, decode = (book.reader.mean(Metric.RUNNING, roles) for roles in (engines.PREFILL, engines.DECODE))
    return book.deployment(
        "disaggregated",
        f"max {by} (\n{prefill}\n) * 0 + 1\nand\nmax {by} (\n{decode}\n)",
        "1 where both roles are there; else absent.",
    )


def _arrivals(book: Book, served: str) -> str:
    """The router's; else what prefill finishes, with SGLang's growth of its transfer queue; else what decode does."""
    reader = book.reader
    computed = book.total(reader.rate(Metric.REQUESTS_FINISHED, engines.PREFILL))
    growth = book.total(reader.growth(Metric.PREFILL_TRANSFER_QUEUE, engines.PREFILL, (SGLANG,)))
    return book.deployment(
        "arrivals_per_second",
        either(
            [
                book.total(reader.rate(Metric.REQUESTS_ARRIVED, engines.ROUTER, engines.ROUTERS)),
                f"clamp_min({computed} + {growth}, 0)",
                computed,
                served,
            ]
        ),
        "Requests that arrive, which under overload is more than what ends.",
    )


def _bytes_per_request(book: Book, served: str, prompt: str, achieved: str) -> str:
    """As the daemon counts them: by transfers (SGLang), by tokens that came along (vLLM), by requests; else told."""
    reader = book.reader
    sent = book.total(reader.counts(Metric.KV_TRANSFER_TIME, engines.PREFILL, (SGLANG,)))
    received = book.deployment(
        "kv_received_tokens_per_second",
        book.total(reader.rate(Metric.KV_RECEIVED_TOKENS, engines.DECODE, (VLLM,))),
        "Prompt tokens whose KV came from prefill.",
    )
    prompts = book.total(reader.rate(Metric.PROMPT_TOKENS, engines.DECODE, (VLLM,)))
    told = f"on (deployment) group_left () {select(KV_BYTES)}"
    moved = f"({achieved} > 0)"
    return book.deployment(
        "kv_bytes_per_request",
        either(
            [
                f"{moved} / ({sent} > 0)",
                f"{moved} / ({received} > 0) * {prompt} * clamp_max({received} / ({prompts} > 0), 1)",
                f"{moved} / ({served} > 0)",
                f"{prompt} * {told}",
            ]
        ),
        "Bytes of one request on the wire.",
    )


def _mean(book: Book, metric: Metric, roles: Sequence[Role], adapters: Sequence[Adapter] = engines.ENGINES) -> str:
    """Sum by count over the window, of all workers together; the buckets do not matter."""
    reader = book.reader
    sums, counts = reader.sums(metric, roles, adapters), reader.counts(metric, roles, adapters)
    return f"{book.total(sums)}\n/\n({book.total(counts)} > 0)"
