"""The ITL-vs-TTFT rule, exactly: p50 against the objective, and nothing else."""

from __future__ import annotations

from pdscope.model.finding import Phase
from pdscope.model.signal import SignalId, SignalSet
from pdscope.model.topology import Slo


def phase(signals: SignalSet, slo: Slo) -> Phase:
    """ITL over and TTFT within: the bottleneck is decode, not prefill; and so on (VERDICTS, section 1).

    Unknown when an objective is not configured or a latency is missing: half a comparison decides nothing.
    """
    ttft, itl = signals.value(SignalId.TTFT_P50), signals.value(SignalId.ITL_P50)
    if ttft is None or itl is None or slo.ttft_p50_seconds is None or slo.itl_p50_seconds is None:
        return Phase.UNKNOWN
    match ttft > slo.ttft_p50_seconds, itl > slo.itl_p50_seconds:
        case False, True:
            return Phase.DECODE_STEADY_STATE
        case True, False:
            return Phase.PREFILL
        case True, True:
            return Phase.BOTH_OVER_SLO
        case _:
            return Phase.WITHIN_SLO
