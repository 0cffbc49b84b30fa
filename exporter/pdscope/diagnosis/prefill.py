"""What the two verdicts on prefill share: when requests wait for it, and whether its devices compute at their limit."""

from __future__ import annotations

from functools import reduce
from operator import or_

from pdscope.diagnosis.base import Bench, Threshold, objectives
from pdscope.model.finding import Op, Truth
from pdscope.model.signal import Quality, SignalId
from pdscope.model.units import Unit

THRESHOLDS = (
    Threshold("queue", 1, Unit.REQUESTS, "requests that stand there during the newer half of the window"),
    Threshold(
        "most", 0.5, Unit.RATIO, "share of TTFT: a queue that comes and goes, and yet is most of what users wait"
    ),
    Threshold("ttft_share", 0.2, Unit.RATIO, "share of TTFT from which a stage counts; tensward's warning level"),
    Threshold(
        "wait_to_service", 9, Unit.RATIO, "wait by service time with TTFT within: load 0.9 of a queue (rho / (1 - rho))"
    ),
    Threshold("free", 0.03, Unit.RATIO, "of a KV pool of unknown size, below which it counts as full"),
    Threshold("sm", 0.8, Unit.RATIO, "SM activity; 0.8 is necessary for effective use (DCGM documentation)"),
    Threshold("tensor", 0.5, Unit.RATIO, "tensor activity of well-running matrix multiplications"),
    Threshold("flop", 0.6, Unit.RATIO, "estimated share of the FLOP that matrix multiplications reach on the device"),
    Threshold("flop_idle", 0.2, Unit.RATIO, "estimated share under which nothing computes at its limit"),
)


def requests_wait(board: Bench) -> Truth:
    """A queue at prefill that hurts.

    It stands, and TTFT is over and the wait is a good part of it; or it comes and goes, and the wait is most of a TTFT
    that is over; or the wait is that of a queue at 0.9 of its capacity although TTFT
    is within (or not promised). Neither counts while the KV pool is full: then finished prompts that nobody fetches,
    or running requests, hold prefill up.
    """
    stands = board.weigh(SignalId.PREFILL_QUEUE, Op.GE, "queue")
    over = _ttft_over(board)
    if stands is Truth.FALSE and over is Truth.TRUE and board.signal(SignalId.PREFILL_WAIT_TTFT_SHARE) is not None:
        stands = board.weigh(SignalId.PREFILL_WAIT_TTFT_SHARE, Op.GE, "most")
    share = board.weigh(SignalId.PREFILL_WAIT_TTFT_SHARE, Op.GE, "ttft_share")
    saturated = board.weigh(SignalId.PREFILL_WAIT_TO_SERVICE, Op.GE, "wait_to_service")
    return stands & ((over & share) | saturated) & ~_pool_full(board)


def _ttft_over(board: Bench) -> Truth:
    """Some objective on TTFT is exceeded; unknown when none is set."""
    truths = [board.weigh(signal, Op.GT, limit) for signal, limit in objectives(board.case.deployment, "ttft")]
    return reduce(or_, truths) if truths else Truth.UNKNOWN


def _pool_full(board: Bench) -> Truth:
    if board.value(SignalId.KV_FREE_REQUESTS) is not None:
        return board.weigh(SignalId.KV_FREE_REQUESTS, Op.LT, 1.0)
    if board.value(SignalId.KV_USAGE_NET) is not None:
        return board.weigh(SignalId.KV_USAGE_NET, Op.GE, 1.0 - board.case.threshold(board.rule, "free"))
    return Truth.FALSE  # an engine that exports no usage gives nothing that speaks for a full pool


def computes_at_limit(board: Bench) -> Truth:
    """Compute activity decides; the busy fraction does not.

    A scheduler that always has a batch is busy at any efficiency, so a high busy fraction says nothing. SM activity
    below 0.5 is ineffective use by DCGM's own documentation; tensor pipes stop near 0.93, and a matrix multiplication
    that runs well keeps them above 0.5. "Some kernel runs" (quality `estimated`) is no computation and decides nothing.
    Without telemetry the FLOP of the prompts decide where they are much or little of what the device reaches; between
    the two lies all that a roofline does not know.
    """
    if board.signal(SignalId.TENSOR_UTILIZATION) is None and not _sm_measured(board):
        return _by_flop(board)
    tensor = board.weigh(SignalId.TENSOR_UTILIZATION, Op.GE, "tensor")
    if not _sm_measured(board):
        return tensor
    return board.weigh(SignalId.COMPUTE_UTILIZATION, Op.GE, "sm") | tensor


def _by_flop(board: Bench) -> Truth:
    if board.signal(SignalId.PREFILL_FLOP_UTILIZATION) is None:
        return board.weigh(SignalId.TENSOR_UTILIZATION, Op.GE, "tensor")  # notes what is missing
    if board.weigh(SignalId.PREFILL_FLOP_UTILIZATION, Op.GE, "flop") is Truth.TRUE:
        return Truth.TRUE
    idle = board.weigh(SignalId.PREFILL_FLOP_UTILIZATION, Op.LT, "flop_idle")
    if idle is Truth.TRUE:
        return Truth.FALSE
    board.missing.append(SignalId.COMPUTE_UTILIZATION)
    return Truth.UNKNOWN


def activity_signal(board: Bench) -> SignalId:
    """The signal on which `computes_at_limit` hangs."""
    if _sm_measured(board):
        return SignalId.COMPUTE_UTILIZATION
    estimated = board.signal(SignalId.TENSOR_UTILIZATION) is None and board.signal(SignalId.PREFILL_FLOP_UTILIZATION)
    return SignalId.PREFILL_FLOP_UTILIZATION if estimated else SignalId.TENSOR_UTILIZATION


def queue_text(board: Bench) -> str:
    """Queue and wait in words."""
    queue = board.value(SignalId.PREFILL_QUEUE)
    passing = queue is not None and queue < board.case.threshold(board.rule, "queue")
    return (
        f"{'requests, in a queue that comes and goes,' if passing else board.text(SignalId.PREFILL_QUEUE)} "
        f"wait for prefill on {board.scope.name} for "
        f"{board.text(SignalId.PREFILL_WAIT)} ({board.text(SignalId.PREFILL_WAIT_TTFT_SHARE)} of TTFT)"
    )


def activity_text(board: Bench) -> str:
    """Device activity in words."""
    if activity_signal(board) is SignalId.PREFILL_FLOP_UTILIZATION:
        share = board.text(SignalId.PREFILL_FLOP_UTILIZATION)
        return f"by the FLOP of its prompts it computes at {share} of what its devices reach, as estimated"
    sm, tensor = board.text(SignalId.COMPUTE_UTILIZATION), board.text(SignalId.TENSOR_UTILIZATION)
    if _sm_measured(board):
        return f"SM active {sm}, tensor {tensor}"
    # "some kernel runs" is not how much of the device it uses
    busy = "" if board.signal(SignalId.COMPUTE_UTILIZATION) is None else f"; some kernel runs {sm} of the time"
    return f"tensor {tensor}{busy}"


def _sm_measured(board: Bench) -> bool:
    sm = board.signal(SignalId.COMPUTE_UTILIZATION)
    return sm is not None and sm.quality is Quality.MEASURED
