"""Phase and verdicts, from what was recorded; the order of evidence is the daemon's."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.diagnosis.engine import ORDER
from pdscope.model.finding import Phase, Verdict
from pdscope.render.alerting.promql import select
from pdscope.render.alerting.recording import ALLOWED_FAILED_SHARE
from pdscope.render.standalone.book import Book
from pdscope.render.standalone.engines import Reader
from pdscope.render.standalone.latency import Latency, latency
from pdscope.render.standalone.parameters import CAPACITY, PREFIX, SLO_ITL, SLO_TTFT, threshold
from pdscope.render.standalone.traffic import Traffic, traffic
from pdscope.render.standalone.truth import against, all_of, any_of, known, negated
from pdscope.render.standalone.workers import Workers, workers

PHASES = (Phase.DECODE_STEADY_STATE, Phase.PREFILL, Phase.BOTH_OVER_SLO, Phase.WITHIN_SLO)
"""Those that are known."""

VERDICTS = (
    Verdict.KV_TRANSFER_FAILING,
    Verdict.DECODE_KV_CAPACITY,
    Verdict.DECODE_ADMISSION,
    Verdict.KV_TRANSFER_BANDWIDTH,
    Verdict.PREFILL_QUEUE,
)
"""Those that the engines' own series and the parameters can give, in the order of evidence."""


def rulebook(reader: Reader) -> Book:
    """All recording rules, in the order of evaluation."""
    book = Book(reader)
    waits = latency(book)
    ttft_over, itl_over = _objectives(book, waits)
    moves = traffic(book, waits)
    stages = workers(book, waits, moves)
    failed = _failed_share(book, stages, moves)
    _broken(book, (ttft_over, itl_over), _felt(book, waits, moves, failed))
    admits = _admission(book, stages, moves)
    findings = {
        Verdict.DECODE_KV_CAPACITY: _capacity(book, stages, moves),
        Verdict.DECODE_ADMISSION: admits,
        Verdict.KV_TRANSFER_FAILING: _failing(book, stages, failed),
        Verdict.KV_TRANSFER_BANDWIDTH: _bandwidth(book, moves),
        Verdict.PREFILL_QUEUE: _prefill(book, stages, ttft_over),
    }
    _verdicts(book, {verdict: findings[verdict] for verdict in VERDICTS})
    _phases(book, ttft_over, itl_over)
    return book


def _objectives(book: Book, waits: Latency) -> tuple[str, str]:
    """Whether each median is over its objective; TTFT only where both of its bounds are on the same side."""
    over, within = (against(bound, ">", SLO_TTFT.name) for bound in (waits.ttft_low, waits.ttft_high))
    ttft = book.deployment(
        "ttft_over_objective",
        f"(({over}) == 1)\nor\n(({within}) == 0)",
        "Whether the median TTFT is over its objective; absent while its bounds are on both sides of it.",
    )
    itl = book.deployment(
        "itl_over_objective", against(waits.itl, ">", SLO_ITL.name), "Whether the median ITL is over its objective."
    )
    return ttft, itl


def _failed_share(book: Book, stages: Workers, moves: Traffic) -> str:
    all_that_ends = book.of_deployment(stages.failures, "+", moves.finished)
    return book.worker(
        "kv_transfer_failed_share",
        f"{stages.failures} / (({all_that_ends}) > 0)",
        "Transfers and bootstraps of a worker that fail, by these and all requests that end.",
    )


def _felt(book: Book, waits: Latency, moves: Traffic, failed: str) -> tuple[str, str]:
    """What breaks a promise without a latency to show for it: requests that fail, and nobody who is served."""
    failing = book.deployment(
        "requests_failing",
        book.any_worker(f"{failed} > bool {ALLOWED_FAILED_SHARE:g}"),
        "Whether too many requests fail in the KV transfer.",
    )
    unserved = book.deployment(
        "unserved",
        f"({moves.finished} == bool 0)\nunless\n{waits.ttft_mean}",
        "Whether no request gets its first token or ends; also where nobody asks.",
    )
    return failing, unserved


def _broken(book: Book, objectives: tuple[str, str], felt: tuple[str, str]) -> None:
    without_latency = "\nor\n".join(f"({condition} == 1)" for condition in felt)
    book.deployment(
        "slo_broken", f"{without_latency}\nor\n{any_of(*objectives)}", "Whether users get less than was promised."
    )


def _phases(book: Book, ttft: str, itl: str) -> None:
    """The rule of ITL and TTFT, exactly: half a comparison decides nothing."""
    for phase in PHASES:
        decode = itl if phase in (Phase.DECODE_STEADY_STATE, Phase.BOTH_OVER_SLO) else negated(itl)
        prefill = ttft if phase in (Phase.PREFILL, Phase.BOTH_OVER_SLO) else negated(ttft)
        book.deployment(
            "phase", f"{prefill} * {decode}", "ITL and TTFT against their objectives; no bottleneck.", phase=str(phase)
        )


def _admission(book: Book, stages: Workers, moves: Traffic) -> str:
    """A standing queue before decode that is a good part of TTFT, and that KV in flight does not explain."""
    crowded = f"({against(stages.usage, '>=', threshold('decode_admission.crowded'))})"
    arriving = f"({against(f'({stages.usage} - {stages.net_usage})', '>=', threshold('decode_admission.in_flight'))})"
    full = book.worker(
        "decode_full", any_of(stages.slots_full, stages.memory_full), "Whether slots or memory are used up."
    )
    by_transfers = book.worker(
        "held_by_transfers",
        all_of(crowded, arriving),
        "Whether decode's pool is full only by KV that is still arriving.",
    )
    most_of_ttft = f"(({against(moves.transfer_share, '>=', threshold('decode_admission.transfer_share'))}) == 1)"
    free_of_them = f"(({by_transfers} == 0) unless {book.reader.settings.on()} {most_of_ttft})"
    told = f"({stages.told_apart})"
    cause = book.worker(
        "admission_cause",
        f"({full} == 1)\nor\n({free_of_them} * 0 + {told})\nor\n({full} unless {book.same_worker()} {told})",
        "Whether something of decode's own stops admission.",
    )
    handed_over = f"(({stages.received_share} > bool 0)\nor\n{known(stages.admission_queue, 1)})"
    holds = book.worker(
        "finding",
        all_of(
            f"({against(stages.admission_queue, '>=', threshold('decode_admission.queue'))})",
            f"({against(stages.admission_share, '>=', threshold('decode_admission.ttft_share'))})",
            handed_over,
            cause,
        ),
        "Whether a verdict holds of a worker.",
        verdict=Verdict.DECODE_ADMISSION,
    )
    return book.any_worker(holds)


def _capacity(book: Book, stages: Workers, moves: Traffic) -> str:
    """The pool is full and requests are pushed out of it."""
    share = book.of_deployment(stages.preemptions, "/", f"({moves.finished} > 0)")
    many = f"({against(share, '>=', threshold('decode_kv_capacity.preemptions'))})"
    net = f"({stages.net_usage} and {book.same_worker()} {stages.preemptions})"  # prefill's pool is none of this
    pressed = f"({against(net, '>=', threshold('decode_kv_capacity.usage_when_pushed'))})"
    holds = book.worker(
        "finding",
        all_of(f"({stages.preemptions} > bool 0)", many, pressed),
        "Whether a verdict holds of a worker.",
        verdict=Verdict.DECODE_KV_CAPACITY,
    )
    return book.any_worker(holds)


def _failing(book: Book, stages: Workers, share: str) -> str:
    """Failures that decode's limit does not explain: a deadline may have run out in front of a full decode."""
    waits = f"({against(stages.admission_queue, '>=', threshold('decode_admission.queue'))})"
    limited = book.worker(
        "decode_at_limit", all_of(waits, f"{PREFIX}decode_full"), "Whether decode makes requests wait at its limit."
    )
    unknown = f"({stages.admission_queue} unless {book.same_worker()} {limited})"
    by, on = book.reader.settings.by(), book.reader.settings.on()
    excused = f"max {by} (({limited} == 1) or {unknown})"
    holds = book.worker(
        "finding",
        f"({against(share, '>=', threshold('kv_transfer_failing.share'))}) * ({stages.failures} > bool 0)\n"
        f"unless {on} {excused}",
        "Whether a verdict holds of a worker.",
        verdict=Verdict.KV_TRANSFER_FAILING,
    )
    return book.any_worker(holds)


def _bandwidth(book: Book, moves: Traffic) -> str:
    """Demand, or what moves, reaches the capacity; transfers are slow accordingly; and the capacity is possible."""
    capacity = select(CAPACITY)
    limit = threshold("kv_transfer_bandwidth.utilization")
    filled = f"({moves.achieved} / on (deployment) group_left () {capacity})"
    full = book.deployment(
        "link_full",
        any_of(f"({against(moves.utilization, '>=', limit)})", f"({against(filled, '>=', limit)})"),
        "Whether KV demand, or the KV that moves, reaches what the link can carry.",
    )
    slow = book.deployment(
        "transfers_late",
        any_of(
            f"({against(moves.transfer_share, '>=', threshold('kv_transfer_bandwidth.ttft_share'))})",
            f"({against(moves.in_flight, '>=', threshold('kv_transfer_bandwidth.in_flight'))})",
        ),
        "Whether transfers take a good part of TTFT, or many are in flight.",
    )
    most = f"(1 + {threshold('kv_transfer_bandwidth.excess')})"
    possible = f"({against(filled, '<=', most)})"
    return book.deployment(
        "finding",
        all_of(full, slow, possible),
        "Whether a verdict holds of the link.",
        verdict=Verdict.KV_TRANSFER_BANDWIDTH,
    )


def _prefill(book: Book, stages: Workers, ttft_over: str) -> str:
    """A standing queue that hurts, while prefill's pool is not full. Whether it computes at its limit is not known."""
    over = f"({book.of_deployment(f'({stages.prefill_queue} * 0)', '+', ttft_over)})"
    share = f"({against(stages.prefill_share, '>=', threshold('prefill_queue.ttft_share'))})"
    saturated = f"({against(stages.wait_to_service, '>=', threshold('prefill_queue.wait_to_service'))})"
    felt = book.worker("prefill_wait_felt", all_of(over, share), "Whether the wait breaks TTFT.")
    hurts = book.worker("prefill_wait_hurts", any_of(felt, saturated), "Whether the wait breaks TTFT or will.")
    holds = book.worker(
        "finding",
        all_of(
            f"({against(stages.prefill_queue, '>=', threshold('prefill_queue.queue'))})",
            hurts,
            negated(stages.prefill_full),
        ),
        "Whether a verdict holds of a worker.",
        verdict=Verdict.PREFILL_QUEUE,
    )
    return book.any_worker(holds)


def _verdicts(book: Book, findings: Mapping[Verdict, str]) -> None:
    """1 for the first that holds, 0 for the others that are known; what is not known stands in no one's way."""
    if list(findings) != [verdict for verdict in ORDER if verdict in findings]:
        raise ValueError("the verdicts are not in the daemon's order of evidence")
    on = book.reader.settings.on()
    earlier: list[str] = []
    for verdict, holds in findings.items():
        condition = f"({holds})"
        if earlier:
            condition = (
                f"({condition} unless {on} ({' or '.join(f'({e} == 1)' for e in earlier)}))\nor\n{condition} * 0"
            )
        earlier.append(
            book.deployment("verdict", condition, "The bottleneck, as far as these rules can see.", verdict=verdict)
        )
