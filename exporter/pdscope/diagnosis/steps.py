"""Whose steps are slow: ITL is known for the deployment, and one instance of it may make all of the bad ones."""

from __future__ import annotations

from pdscope.diagnosis.base import Bench
from pdscope.model.finding import Op, Truth
from pdscope.model.signal import SignalId
from pdscope.model.topology import Role

_AS_SLOW = 0.75
"""Of the mean ITL, from which an instance makes tokens as slowly as all together."""


def slow_steps(board: Bench) -> Truth:
    """Whether the instance of the bench has part in a long ITL; the only one that decodes always has.

    A request of it waits running requests / generated tokens a second for a token. An instance with few requests and
    quick steps beside a slow one must not answer for it: its idle devices would be taken for the cause.
    """
    if len(board.case.instances(Role.DECODE, Role.UNIFIED)) == 1:
        return Truth.TRUE
    itl, running = board.value(SignalId.ITL_MEAN), board.value(SignalId.RUNNING)
    if itl is None or running is None:
        board.missing += [
            signal
            for signal, value in ((SignalId.ITL_MEAN, itl), (SignalId.RUNNING, running))
            if value is None and signal not in board.missing
        ]
        return Truth.UNKNOWN
    if itl <= 0:
        return Truth.FALSE
    return board.weigh(SignalId.GENERATION_RATE, Op.LE, running / (_AS_SLOW * itl))
