"""Bytes of a parameter as stored: by the type of the weights and the quantisation that a `config.json` names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

_TYPES: Final[Mapping[str, float]] = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}
_NVFP4 = 0.5 + 1 / 16  # a byte of scale for each 16
_MXFP4 = 0.5 + 1 / 32
_MODELOPT: Final[Mapping[str, float]] = {"NVFP4": _NVFP4, "FP8": 1.0}
_SCALE_BYTES = 2.0
_BLOCK_SCALE_BYTES = 4.0
_IGNORE_KEYS = ("ignore", "modules_to_not_convert", "exclude_modules", "ignored_layers")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_ATTENTION = re.compile(r"(?:^|[.*])(?:self_attn|linear_attn)$")
_SHARED = re.compile(r"(?:^|[.*])shared_experts?$")
_DENSE = re.compile(r"(?:^|[.*])mlp\.\(gate\|up\|gate_up\|down\)_proj$")


class Groups(NamedTuple):
    """Parameters of a model by where they are; quantisations leave some of these alone.

    Attributes:
        attention: projections of all attention layers, linear ones included.
        dense: MLPs of layers without experts.
        shared: experts that every token passes through.
        routed: experts that a router chooses from.
        head: of the output.
        other: norms, routers, biases.
    """

    attention: float
    dense: float
    shared: float
    routed: float
    head: float
    other: float


def bytes_per_parameter(
    groups: Groups, dtype: str | None, quantisation: Mapping[str, Any] | None, layers: int
) -> float | None:
    """The mean over all parameters, scales included; None: the type or the quantisation is not known.

    Args:
        groups: what there is to store.
        dtype: of what is not quantised.
        quantisation: `quantization_config`; None: there is none.
        layers: of the model; a quantisation may list modules layer by layer.
    """
    plain = _TYPES.get(dtype or "")
    if plain is None or quantisation is None:
        return plain
    packed = _packed(quantisation)
    if packed is None:
        return None
    if quantisation.get("quant_method") == "mxfp4":
        quantised = groups.routed
    else:
        names = tuple(_ignored(quantisation))
        quantised = groups.routed
        for size, pattern in ((groups.attention, _ATTENTION), (groups.shared, _SHARED), (groups.dense, _DENSE)):
            quantised += size * (1 - _share_left(names, pattern, layers))
    return plain + (packed - plain) * quantised / sum(groups)


def _packed(part: Mapping[str, Any]) -> float | None:
    """Bytes of a quantised parameter."""
    method = part.get("quant_method")
    if "quant_algo" in part:
        return _MODELOPT.get(str(part["quant_algo"]))
    match method:
        case "fp8" | "fbgemm_fp8":
            block = part.get("weight_block_size")
            if block is None:
                return 1.0
            rows, columns = _whole(block[0]), _whole(block[-1]) if isinstance(block, list) and len(block) == 2 else None
            return 1 + _BLOCK_SCALE_BYTES / (rows * columns) if rows and columns else None
        case "mxfp4":
            return _MXFP4
        case "awq" | "gptq":
            bits = part.get("bits", part.get("w_bit"))
            return _grouped(bits, part.get("group_size", part.get("q_group_size")), zeros=True)
        case "compressed-tensors":
            groups = part.get("config_groups")
            found = {_compressed(group) for group in groups.values()} if isinstance(groups, Mapping) else set()
            return found.pop() if len(found) == 1 else None
    return None


def _compressed(group: Any) -> float | None:
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(weights, Mapping):
        return None
    bits, size = weights.get("num_bits"), weights.get("group_size")
    if weights.get("type") == "float" and bits == 4:
        return {16: _NVFP4, 32: _MXFP4}.get(size) if isinstance(size, int) else None
    return _grouped(bits, size, zeros=weights.get("symmetric") is False)


def _grouped(bits: Any, size: Any, *, zeros: bool) -> float | None:
    """Whole numbers of few bits, with a scale (and a zero point) for each so many; None or -1: for a whole row."""
    wide = _whole(bits)
    if wide is None or wide > 8:
        return None
    if size is None or size == -1:
        return wide / 8
    members = _whole(size)
    return wide / 8 + (_SCALE_BYTES + (wide / 8 if zeros else 0)) / members if members else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _ignored(part: Mapping[str, Any]) -> Iterator[str]:
    """Modules that are not quantised, without what patterns put around their names."""
    for key in _IGNORE_KEYS:
        listed = part.get(key)
        for name in listed if isinstance(listed, list) else ():
            if isinstance(name, str):
                yield name.removeprefix("re:").replace("\\", "").strip(".*")


def _share_left(names: Iterable[str], pattern: re.Pattern[str], layers: int) -> float:
    """Share of the layers whose modules of that name are not quantised."""
    left: set[int] = set()
    for name in names:
        if pattern.search(name):
            layer = _LAYER.search(name)
            if layer is None:
                return 1.0
            left.add(int(layer[1]))
    return len(left & set(range(layers))) / layers
