"""What devices must at least do for the work that their instance is seen to do: physics, doubts to its favour.

An estimate (`estimates`) says what a step reads; a floor says what it cannot read less than. Where the model may be a
mixture of experts a step reads as few weights as the sparsest of them, and a token that is counted may be one of two
of the same step.
"""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.analysis import roofline
from pdscope.analysis.board import Board
from pdscope.analysis.estimates import decode_batch, kv_shape, prefill_share
from pdscope.analysis.observed import Observed
from pdscope.model.metric import Metric
from pdscope.model.topology import Deployment, Instance, ModelFacts

_SPARSEST = 1 / 48
"""Share of the experts that a token passes in the sparsest models that are served (8 of 384)."""
_TOKENS_A_STEP = 2.0
"""Of a request, as speculation makes them; where steps are not counted but concluded from tokens."""
_STEADY = 0.5
"""Of the mean batch, that the smallest one of the window reaches where the mean says something of all of it."""


@dataclass(frozen=True, slots=True)
class Floor:
    """A share of what a device can do that its work takes at least, and how that is known."""

    share: float
    source: str


def hbm_floor(board: Board, deployment: Deployment, o: Observed) -> Floor | None:
    """Share of the theoretical memory bandwidth that decode steps take; None where it is not known.

    Needs the hardware, steps of a batch that stays, and the weights or the shape of the cache.
    """
    hardware, running, batch = o.instance.hardware, o.level(Metric.RUNNING), decode_batch(board, o)
    peak = hardware.hbm_bandwidth_bytes_per_second if hardware is not None else None
    if not peak or running is None or batch is None or running.low < _STEADY * running.mean:
        return None
    shape = kv_shape(deployment)
    weights = _least_weights(deployment.model, batch.requests, o)
    cache = roofline.cache_bytes(shape, batch.requests, batch.context_tokens, o.instance) if shape is not None else 0.0
    steps = batch.steps_per_second / (1.0 if batch.counted else _TOKENS_A_STEP)
    read = roofline.StepBytes(weights, cache)
    return Floor(
        read.total * steps / peak,
        f"{read.weights / 1e9:.3g} GB of weights and {read.cache / 1e9:.3g} GB of KV that a step reads at least, "
        f"{steps:.3g} steps/s ({batch.source}{'' if batch.counted else ', two a step'}), by the peak of "
        f"{hardware.name if hardware is not None and hardware.name else 'these devices'}",
    )


def compute_floor(board: Board, deployment: Deployment, o: Observed) -> Floor | None:
    """Share of the dense peak that the prompts take, which is time in which some unit computes; None if unknown."""
    done, hardware = prefill_share(board, deployment, o), o.instance.hardware
    if done is None or hardware is None:
        return None
    share, source = done
    return Floor(share * roofline.achievable_bf16(hardware), f"{source}, of the peak")


def _least_weights(model: ModelFacts, batch: float, o: Observed) -> float:
    """Bytes of weights that one device reads in a step at least; 0 where nothing is known of them."""
    stated = o.level(Metric.WEIGHT_BYTES_PER_RANK)
    own = stated.last if stated is not None and stated.last > 0 else None
    each = batch / max(1, o.instance.dp)
    found = roofline.weight_bytes(model, each, own, _spread(model, o.instance))
    if found is None:
        return 0.0
    known = model.compute is not None or model.active_parameters is not None
    # nothing says that it is dense: then it may be a mixture whose tokens pass few of the weights
    return found[0] * (1.0 if known else 1.0 - (1.0 - _SPARSEST) ** max(1.0, each))


def _spread(model: ModelFacts, instance: Instance) -> int:
    """Devices over which weights are spread at most: those of all data-parallel ranks where there may be experts."""
    dense = model.compute is not None and model.compute.experts <= 0
    return instance.tp * instance.pp if dense else instance.devices
