"""The objectives are met and nothing is near a limit."""

from __future__ import annotations

from collections.abc import Iterator

from pdscope.diagnosis.base import Case, Rule, bench, objectives
from pdscope.model.finding import Finding, Op, Truth, Verdict
from pdscope.model.signal import SignalId


def evaluate(case: Case) -> Iterator[Finding]:
    """Every configured objective that can be checked is met, and there is traffic to say so.

    With no objective configured the service is healthy as far as anybody has said what it should do: confidence low.
    """
    board = bench(RULE, case)
    traffic = board.weigh(SignalId.REQUESTS_FINISHED, Op.GT, 0.0)
    met = Truth.TRUE
    checked: list[SignalId] = []
    for latency in ("ttft", "itl"):
        for signal, limit in objectives(case.deployment, latency):
            met &= board.weigh(signal, Op.LE, limit)
            checked.append(signal)
    if objectives(case.deployment, "itl") and board.signal(SignalId.UNTIMED) is not None:
        # the ITL that is known is that of other requests
        met &= Truth.TRUE if board.weigh(SignalId.UNTIMED, Op.LT, 1.0) is Truth.TRUE else Truth.UNKNOWN
        board.missing += [SignalId.ITL_P50] if met is Truth.UNKNOWN else []
    latencies = f"TTFT p50 {board.text(SignalId.TTFT_P50)}, ITL p50 {board.text(SignalId.ITL_P50)}"
    rate = board.text(SignalId.REQUESTS_PER_SECOND)
    headline = (
        f"{latencies} at {rate}: within the objectives"
        if checked
        else f"{latencies} at {rate}: no objective is configured"
    )
    yield board.finding(traffic & met, headline=headline, strength=1.0, decisive=checked)


RULE = Rule(id="healthy", verdict=Verdict.HEALTHY, evaluate=evaluate, fallback=True)
