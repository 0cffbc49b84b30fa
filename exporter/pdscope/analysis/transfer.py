"""The KV transfer: bytes, demand, achieved rate, time, share of TTFT.

Three different numbers never share a name: demand (arrivals x bytes), achieved rate (bytes a second on the wire) and
the time that one transfer takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from statistics import fmean

from pdscope.analysis import kv
from pdscope.analysis.board import Board
from pdscope.analysis.histograms import merge
from pdscope.analysis.observed import Observed
from pdscope.analysis.traffic import total_rate
from pdscope.model.metric import Metric
from pdscope.model.scrape import SeriesKey
from pdscope.model.signal import Quality, SignalId, worst
from pdscope.model.topology import Attention, Deployment, Instance, Role

_MIN_HALF = 3
"""Scrapes in each half of the window, for a gauge to tell of a trend."""
_ALL = (Role.PREFILL, Role.DECODE, Role.UNIFIED)


def put_transfer(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """Bytes, achieved rate and time as the engines count them; needs traffic and latency on the board."""
    _put_bytes_per_token(board, deployment, observed)
    if not deployment.disaggregated:
        return
    _put_bytes_per_request(board, deployment, observed)
    _put_achieved(board, observed)
    _put_speed(board, observed)
    _put_time(board, observed)
    _put_in_flight(board, observed)


def _put_bytes_per_token(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """Logical bytes of one copy: the configured shape, else what the engine says, else the model's config.json."""
    model = deployment.model
    said = _engine_bytes_per_token(observed, deployment)
    if said is not None:
        board.put(SignalId.KV_BYTES_PER_TOKEN_ENGINE, said[0], said[1], said[2])
    if model.kv is not None:
        board.put(
            SignalId.KV_BYTES_PER_TOKEN, kv.bytes_per_token(model.kv), Quality.ASSUMED, "KV shape of the configuration"
        )
    elif said is not None:
        board.put(SignalId.KV_BYTES_PER_TOKEN, said[0], said[1], said[2])
    elif model.file_kv is not None:
        board.put(
            SignalId.KV_BYTES_PER_TOKEN, kv.bytes_per_token(model.file_kv), Quality.ASSUMED, "the model's config.json"
        )


def _engine_bytes_per_token(observed: Sequence[Observed], deployment: Deployment) -> tuple[float, Quality, str] | None:
    """What the engines say of the logical cache: bytes by tokens on the wire, or a rank's pool by its tokens."""
    shape = deployment.model.kv or deployment.model.file_kv
    received = total_rate(observed, Metric.KV_RECEIVED_TOKENS, Role.DECODE)
    moved = total_bytes_rate(observed)
    if received is not None and moved is not None and received.gain > 0 and moved[0] > 0:
        # all copies cross the wire, and whole blocks
        copies = 1.0 if shape is None else kv.wire_copies(shape, receiver_ranks(deployment.of_role(Role.DECODE)))
        return moved[0] / received.per_second / copies, Quality.ESTIMATED, "bytes by tokens on the wire, whole blocks"
    for o in observed:
        size, tokens = o.level(Metric.KV_POOL_BYTES), o.level(Metric.KV_POOL_TOKENS_PER_RANK)
        ranks = receiver_ranks([o.instance])
        if size is None or tokens is None or tokens.last <= 0 or (ranks > 1 and shape is None):
            # a rank holds all of an MLA latent but its share of GQA heads: without the kind its part says nothing
            continue
        factor = 1.0 if shape is None else kv.bytes_per_token(shape) / kv.rank_bytes_per_token(shape, ranks)
        value = size.last / tokens.last * factor * o.instance.pp
        return value, Quality.DERIVED, f"KV pool of a rank of {o.instance.name} by its tokens, all {ranks} rank(s)"
    return None


def total_bytes_rate(observed: Sequence[Observed]) -> tuple[float, str] | None:
    """Bytes a second that the engines count as transferred, with its source; None where none counts them."""
    parts = [
        (o, d)
        for o in observed
        if o.instance.role in _ALL and (d := o.distribution(Metric.KV_TRANSFER_BYTES)) is not None and d.seconds > 0
    ]
    if not parts:
        return None
    names = ", ".join(o.instance.name for o, _ in parts[:4])
    return sum(d.total / d.seconds for _, d in parts), f"rate of the transferred bytes of {names}"


def receiver_ranks(instances: Sequence[Instance]) -> int:
    """Attention tensor-parallel ranks of one decode replica; the largest where instances differ."""
    return max((i.attention_ranks for i in instances), default=1)


def _put_bytes_per_request(board: Board, deployment: Deployment, observed: Sequence[Observed]) -> None:
    """Physical bytes: counted by the engines where they do, else computed from the shape."""
    moved = total_bytes_rate(observed)
    tokens = board.value(SignalId.PROMPT_TOKENS_PER_REQUEST)
    if moved is not None and moved[0] > 0:
        counted = _counted_bytes(moved[0], observed, tokens)
        if counted is not None:
            board.put(SignalId.KV_BYTES_PER_REQUEST, counted[0], Quality.MEASURED, f"{moved[1]} by {counted[1]}")
            return
    shape = deployment.model.kv or deployment.model.file_kv
    if shape is None or tokens is None:
        return
    decoders = deployment.of_role(Role.DECODE)
    ranks = receiver_ranks(decoders)
    replicated = shape.attention is not Attention.MLA or any(i.profile.replicates_mla for i in decoders)
    page = _page_tokens(observed, decoders)
    board.put(
        SignalId.KV_BYTES_PER_REQUEST,
        kv.wire_bytes(shape, tokens, page, ranks if replicated else 1),
        Quality.ESTIMATED,
        f"KV shape x {tokens:,.0f} prompt tokens in pages of {page}, {ranks} receiving rank(s)",
    )


def _counted_bytes(
    bytes_per_second: float, observed: Sequence[Observed], prompt_tokens: float | None
) -> tuple[float, str] | None:
    """Bytes of one request from counters, and what they were divided by.

    SGLang's transfer histograms hold one observation a request on each rank, of which one rank is taken. Those of vLLM,
    which count descriptors too, hold one a remote rank, so the bytes are divided by the tokens that came with them;
    both move when a transfer ends, where finished requests lag by a whole generation.
    """
    sent = [
        d.count / d.seconds
        for o in observed
        if o.instance.role is Role.PREFILL
        and o.distribution(Metric.KV_DESCRIPTORS) is None
        and (d := o.distribution(Metric.KV_TRANSFER_TIME)) is not None
        and d.seconds > 0
    ]
    if sum(sent) > 0:
        return bytes_per_second / sum(sent), "transferred requests"
    received = total_rate(observed, Metric.KV_RECEIVED_TOKENS, Role.DECODE)
    prompts = total_rate(observed, Metric.PROMPT_TOKENS, Role.DECODE)
    if received is not None and prompts is not None and prompt_tokens and received.gain > 0 and prompts.gain > 0:
        share = min(1.0, received.gain / prompts.gain)
        return bytes_per_second / received.per_second * prompt_tokens * share, "transferred tokens, x prompt tokens"
    finished = total_rate(observed, Metric.REQUESTS_FINISHED, Role.DECODE)
    if finished is not None and finished.per_second > 0:
        return bytes_per_second / finished.per_second, "finished requests"
    return None


def _page_tokens(observed: Sequence[Observed], decoders: Sequence[Instance]) -> int:
    for o in observed:
        level = o.level(Metric.PAGE_TOKENS) if o.instance.role in _ALL else None
        if level is not None and level.last >= 1:
            return int(level.last)
    return next((i.page_tokens for i in decoders if i.page_tokens), decoders[0].profile.default_page_tokens)


def _put_achieved(board: Board, observed: Sequence[Observed]) -> None:
    moved = total_bytes_rate(observed)
    if moved is not None:
        board.put(SignalId.KV_ACHIEVED, moved[0], Quality.MEASURED, moved[1])


def _put_speed(board: Board, observed: Sequence[Observed]) -> None:
    """Bytes by the time of the transfers that moved them: the speed of one of them, whatever else moved meanwhile.

    Only where an engine observes bytes and time of the same thing (vLLM's connectors, which count descriptors too).
    SGLang's Mooncake times the last chunk alone, so its quotient is no speed.
    """
    both = [
        (moved, spent)
        for o in observed
        if o.distribution(Metric.KV_DESCRIPTORS) is not None
        and (moved := o.distribution(Metric.KV_TRANSFER_BYTES)) is not None
        and (spent := o.distribution(Metric.KV_TRANSFER_TIME)) is not None
    ]
    seconds = sum(spent.total for _, spent in both)
    if seconds > 0:
        board.put(
            SignalId.TRANSFER_SPEED,
            sum(moved.total for moved, _ in both) / seconds,
            Quality.MEASURED,
            "bytes by the time of the transfers that moved them",
        )


def _put_time(board: Board, observed: Sequence[Observed]) -> None:
    """How long a request waits for its KV, and the share of TTFT.

    SGLang: the exposed part (end of prefill to confirmed transfer). vLLM: the transfer itself, which comes after
    prefill has answered. Dynamo: life of a request on prefill minus prefill's answer.
    """
    quality = Quality.MEASURED
    exposed = merge([d for o in observed if (d := o.distribution(Metric.EXPOSED_TRANSFER_TIME)) is not None])
    seconds = exposed.mean if exposed is not None else None
    source = "end of prefill to confirmed transfer, mean"
    if seconds is None:
        times = merge([d for o in observed if (d := o.distribution(Metric.KV_TRANSFER_TIME)) is not None])
        seconds = times.mean if times is not None else None
        source = "one KV transfer, mean"
    if seconds is None:
        held = merge([d for o in observed if (d := o.distribution(Metric.HANDOVER_TIME)) is not None])
        stage = merge([d for o in observed if (d := o.distribution(Metric.PREFILL_STAGE_TIME)) is not None])
        if held is not None and stage is not None and held.mean is not None and stage.mean is not None:
            seconds = max(0.0, held.mean - stage.mean)
            source, quality = "life of a request on prefill minus prefill's answer, means", Quality.ESTIMATED
    board.put(SignalId.TRANSFER_TIME, seconds, quality, source)
    ttft = board.value(SignalId.TTFT_MEAN)
    if seconds is not None and ttft:
        share = min(1.0, seconds / ttft)
        board.put(
            SignalId.TRANSFER_TTFT_SHARE,
            share,
            worst(quality, board.quality(SignalId.TTFT_MEAN)),
            f"{source}, by mean TTFT",
        )


def _put_in_flight(board: Board, observed: Sequence[Observed]) -> None:
    for metric, role in ((Metric.PREFILL_TRANSFER_QUEUE, Role.PREFILL), (Metric.KV_FETCH_ACTIVE, Role.DECODE)):
        levels = [v for o in observed if o.instance.role is role and (v := o.level(metric)) is not None]
        if levels:
            board.put(
                SignalId.TRANSFER_IN_FLIGHT,
                sum(v.mean for v in levels),
                Quality.MEASURED,
                f"{metric.name} of {role}, mean over the window",
                age_seconds=max(v.age_seconds for v in levels),
            )
            _put_in_flight_trend(board, [o for o in observed if o.instance.role is role], metric)
            return


def _put_in_flight_trend(board: Board, observed: Sequence[Observed], metric: Metric) -> None:
    """Transfers in flight in the newer half of the window by those in the older one."""
    older, newer = 0.0, 0.0
    for o in observed:
        values = next((v for w in o.windows if (v := w.scalars.get(SeriesKey(metric))) is not None), None)
        points = [float(v) for v in values if isfinite(v)] if values is not None else []
        middle = len(points) // 2
        if middle >= _MIN_HALF:
            older += fmean(points[:middle])
            newer += fmean(points[-middle:])
    if older > 0:
        board.put(
            SignalId.TRANSFER_IN_FLIGHT_TREND,
            newer / older,
            Quality.MEASURED,
            f"{metric.name}, mean of the newer half of the window by that of the older",
        )
