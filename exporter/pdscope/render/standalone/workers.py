"""Of each worker: who waits in front of it and for how long, and whether its slots and its KV pool have room."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.model.metric import Metric
from pdscope.render.alerting.promql import select
from pdscope.render.standalone import engines
from pdscope.render.standalone.book import Book
from pdscope.render.standalone.engines import SGLANG, VLLM, either
from pdscope.render.standalone.latency import Latency
from pdscope.render.standalone.parameters import MAX_RUNNING, threshold
from pdscope.render.standalone.traffic import Traffic
from pdscope.render.standalone.truth import against, any_of, known

_ROOMY = "0.8"
"""Usage of a pool of unknown size below which the next prompt surely fits; from it on nobody can tell."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Selectors of what was recorded."""

    usage: str
    net_usage: str
    memory_full: str
    slots_full: str
    prefill_full: str
    admission_queue: str
    told_apart: str
    admission_share: str
    received_share: str
    preemptions: str
    failures: str
    prefill_queue: str
    prefill_share: str
    wait_to_service: str


def workers(book: Book, waits: Latency, moves: Traffic) -> Workers:
    """Record them."""
    usage = book.worker(
        "kv_usage_ratio",
        book.reader.mean(Metric.KV_USAGE, engines.ALL),
        "Share of the KV pool in use, KV in flight included.",
    )
    running = book.worker(
        "running_requests", book.reader.mean(Metric.RUNNING, engines.DECODE), "Requests in decode's batch, mean."
    )
    net = _net_usage(book, usage)
    free = _free_requests(book, net, moves)
    queue, told_apart, share = _admission(book, waits)
    prefill_queue, prefill_share, to_service = _prefill(book, waits)
    reader = book.reader
    received = reader.rate(Metric.KV_RECEIVED_TOKENS, engines.DECODE, (VLLM,))
    return Workers(
        usage=usage,
        net_usage=net,
        memory_full=_memory_full(book, usage, net, free, running),
        slots_full=_slots_full(book, running),
        prefill_full=_prefill_full(book, usage, free),
        admission_queue=queue,
        told_apart=told_apart,
        admission_share=share,
        received_share=book.worker(
            "kv_received_share",
            f"({received})\n/\n(({reader.rate(Metric.PROMPT_TOKENS, engines.DECODE, (VLLM,))}) > 0)",
            "Share of decode's prompt tokens whose KV came from prefill.",
        ),
        preemptions=book.worker(
            "preemptions_per_second",
            reader.rate(Metric.PREEMPTIONS, engines.DECODES),
            "Requests pushed out of a full KV pool.",
        ),
        failures=_failures(book),
        prefill_queue=prefill_queue,
        prefill_share=prefill_share,
        wait_to_service=to_service,
    )


def _net_usage(book: Book, usage: str) -> str:
    """Usage without KV that is still arriving.

    vLLM exports the size of its pool as a label, which PromQL cannot count with: where fetches are in progress, what
    they hold is not known.
    """
    reader = book.reader
    arriving = reader.mean(Metric.KV_USAGE_IN_TRANSFER, engines.DECODE, (SGLANG,))
    fetching = f"(({reader.mean(Metric.KV_FETCH_ACTIVE, engines.DECODE, (VLLM,))}) > 0)"
    return book.worker(
        "kv_usage_net_ratio",
        f"clamp_min({usage} - ({arriving}), 0)\nor\n({usage} unless {book.same_worker()} {fetching})",
        "The same less KV in flight, where that is known.",
    )


def _free_requests(book: Book, net: str, moves: Traffic) -> str:
    pool = book.reader.mean(Metric.KV_POOL_TOKENS, engines.ALL, (SGLANG,))
    room = f"((1 - {net}) * ({pool}))"
    return book.worker(
        "kv_free_requests",
        book.of_deployment(f"clamp_min({room}, 0)", "/", f"({moves.prompt_tokens} > 0)"),
        "Mean prompts that fit into what is free.",
    )


def _memory_full(book: Book, usage: str, net: str, free: str, running: str) -> str:
    """Of decode: less is free than the next request needs, or nearly all is used.

    Where the gross usage leaves plenty, it is not full, whatever is in flight.
    """
    nearly = against(net, ">=", f"(1 - {threshold('decode_admission.free')})")
    short = f"({free} < bool 1)"
    roomy = f"(({usage} < {_ROOMY}) * 0 unless {book.same_worker()} {free})"
    return book.worker(
        "kv_pool_full",
        f"({any_of(short, f'({nearly})')}\nor\n{roomy})\nand {book.same_worker()} {running}",
        "Whether decode has no memory for the next request.",
    )


def _prefill_full(book: Book, usage: str, free: str) -> str:
    nearly = against(usage, ">=", f"(1 - {threshold('prefill_queue.free')})")
    return book.worker(
        "prefill_pool_full",
        f"({free} < bool 1)\nor\n(({nearly}) == 1)\nor\n(({usage} < {_ROOMY}) * 0)",
        "Whether finished prompts or running requests fill prefill's pool.",
    )


def _slots_full(book: Book, running: str) -> str:
    """One slot, or a twentieth, stays empty while the next KV arrives."""
    limit = select(MAX_RUNNING)
    reached = f"clamp_min({limit} - clamp_min(0.05 * {limit}, 1), 1)"
    return book.worker(
        "slots_full",
        f"{running} >= bool on (deployment) group_left () {reached}",
        "Whether decode's batch is at its limit; absent where the limit is not told.",
    )


def _admission(book: Book, waits: Latency) -> tuple[str, str, str]:
    reader = book.reader

    def queue(of: str) -> str:
        read = {"standing": reader.standing, "mean": reader.mean}[of]
        sglang = [read(m, engines.DECODE, (SGLANG,)) for m in (Metric.DECODE_ALLOCATION_QUEUE, Metric.WAITING_CAPACITY)]
        vllm = [read(m, engines.DECODE, (VLLM,)) for m in (Metric.KV_FETCH_WAITING, Metric.KV_FETCH_LANDED)]
        return "\nor\n".join(f"(({a}) + ({b}))" for a, b in (sglang, vllm))

    apart = book.worker(
        "admission_queue_told_apart", queue("standing"), "Requests that stand before decode's admission."
    )
    mixed = either([reader.standing(m, engines.DECODE, (VLLM,)) for m in (Metric.WAITING_CAPACITY, Metric.WAITING)])
    standing = book.worker(
        "admission_queue", f"{apart}\nor\n{mixed}", "The same; of a vLLM before 0.32 whatever waits, transfers too."
    )
    sums, counts = (read(Metric.ALLOCATION_TIME, engines.DECODE, (SGLANG,)) for read in (reader.sums, reader.counts))
    mean = either([queue("mean"), reader.mean(Metric.WAITING_CAPACITY, engines.DECODE, (VLLM,))])
    done = reader.rate(Metric.REQUESTS_FINISHED, engines.DECODE)
    wait = book.worker(
        "admission_wait_seconds",
        f"({sums})\n/\n(({counts}) > 0)\nor\n({mean})\n/\n(({done}) > 0)",
        "How long requests wait for it: as counted (SGLang), else queue by completion rate.",
    )
    share = book.worker(
        "admission_ttft_share",
        f"clamp_max({book.of_deployment(wait, '/', waits.ttft_mean)}, 1)",
        "The same as a share of the mean TTFT.",
    )
    return standing, known(apart, 1), share


def _prefill(book: Book, waits: Latency) -> tuple[str, str, str]:
    reader, roles = book.reader, engines.PREFILLS
    queue = book.worker(
        "prefill_queue",
        either(
            [
                reader.standing(Metric.WAITING_CAPACITY, roles),
                reader.standing(Metric.WAITING, roles, (VLLM,)),
            ]
        ),
        "Requests that stand before prefill.",
    )
    sums, counts = (read(Metric.QUEUE_TIME, roles) for read in (reader.sums, reader.counts))
    done = reader.rate(Metric.REQUESTS_FINISHED, roles)
    wait = book.worker(
        "prefill_wait_seconds",
        f"({sums})\n/\n(({counts}) > 0)\nor\n{queue}\n/\n(({done}) > 0)",
        "How long they wait.",
    )
    share = book.worker(
        "prefill_wait_ttft_share",
        f"clamp_max({book.of_deployment(wait, '/', waits.ttft_mean)}, 1)",
        "The same as a share of the mean TTFT.",
    )
    sums, counts = (read(Metric.PREFILL_TIME, roles) for read in (reader.sums, reader.counts))
    to_service = book.worker(
        "prefill_wait_to_service_ratio",
        f"{wait}\n/\n((({sums}) / (({counts}) > 0)) > 0)",
        "The wait by the time that a prompt is computed.",
    )
    return queue, share, to_service


def _failures(book: Book) -> str:
    reader, roles = book.reader, (*engines.PREFILL, *engines.DECODE)
    transfers = reader.rate(Metric.TRANSFER_FAILURES, roles)
    bootstraps = reader.rate(Metric.BOOTSTRAP_FAILURES, roles, (SGLANG,))
    return book.worker(
        "kv_transfer_failures_per_second",
        f"(({transfers}) + ({bootstraps}))\nor\n{transfers}\nor\n{bootstraps}",
        "Transfers and bootstraps that fail.",
    )
