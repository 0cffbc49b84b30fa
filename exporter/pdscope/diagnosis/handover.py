"""What the verdicts on the hand-over share: whether it hurts, and whether posting small pieces explains its pace."""

from __future__ import annotations

from pdscope.diagnosis.base import Bench, Case, Threshold
from pdscope.model.finding import Op, Truth
from pdscope.model.signal import SignalId
from pdscope.model.topology import Attention, Role
from pdscope.model.units import Unit

POSTING = (
    Threshold("post", 0.3, Unit.RATIO, "share of a transfer's time that posting may take"),
    Threshold("busy", 0.5, Unit.RATIO, "of a rank's time; with it transfers wait for posting as long as it takes"),
    Threshold("piece", 65536, Unit.BYTES, "below it a descriptor costs more to post than to move at 50 GB/s"),
    Threshold("piece_time", 2e-5, Unit.SECONDS, "of one piece on one rank; posting it takes 2 to 10 us"),
)


def hurts(case: Case) -> Truth:
    """Whether the hand-over may be at fault: not where TTFT is within its objectives. Without any it may be."""
    return Truth.FALSE if case.broken("ttft") is Truth.FALSE else Truth.TRUE


def heads_are_cut(case: Case) -> bool:
    """Whether unequal tensor parallelism slices the heads of a GQA cache, so that its pages do not go in one piece."""
    shape = case.deployment.model.kv or case.deployment.model.file_kv
    sides = [{i.attention_ranks for i in case.instances(role)} for role in (Role.PREFILL, Role.DECODE)]
    return shape is not None and shape.attention is not Attention.MLA and sides[0] != sides[1]


def posting_explains(board: Bench) -> Truth:
    """Whether a transfer is as slow as its pieces are many.

    Where the engine times the posting that decides: its share of a transfer, or of the thread's time. Else pieces have
    to be small, and to follow each other about as fast as they can be posted: a way that is slower than that is slow
    for another reason.
    """
    if board.signal(SignalId.POST_SHARE) is not None:
        long = board.weigh(SignalId.POST_SHARE, Op.GE, "post")
        if long is Truth.TRUE or board.signal(SignalId.POST_BUSY) is None:
            return long
        return long | board.weigh(SignalId.POST_BUSY, Op.GE, "busy")
    small = board.weigh(SignalId.DESCRIPTOR_BYTES, Op.LT, "piece")
    return small & board.weigh(SignalId.DESCRIPTOR_TIME, Op.LE, "piece_time")
