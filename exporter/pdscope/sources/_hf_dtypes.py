"""What an element of the KV cache takes: by the engine's KV type, else by the type of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from pdscope.errors import ConfigError
from pdscope.sources._hf_fields import REMEDY, Fields, shown

_WEIGHT_BYTES: Final[Mapping[str, float]] = {"float32": 4.0, "bfloat16": 2.0, "float16": 2.0}
_KV_BYTES: Final[Mapping[str, float]] = {
    **_WEIGHT_BYTES,
    **dict.fromkeys(("bf16", "fp16", "half"), 2.0),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "float8_e4m3fn", "float8_e5m2", "mxfp8"), 1.0),
    **dict.fromkeys(("nvfp4", "fp4_mx_block16"), 0.5),
}
_SCALE_BLOCKS: Final[Mapping[str, int]] = {"mxfp8": 32, "nvfp4": 16, "fp4_mx_block16": 16}
_WEIGHT_KEYS = ("dtype", "torch_dtype")
QUANTISATION_KEYS: Final = ("quantization_config", "compression_config")
_QUANTISED_KV_KEYS = ("kv_cache_scheme", "kv_cache_quant_algo")


class KvType(NamedTuple):
    """A type of KV elements.

    Attributes:
        name: as known here.
        bytes_per_element: of the data alone.
        scale_block: elements that share one more byte, their scale; None: no scales beside the data.
        given: it is the engine's setting, not just the type of the weights.
    """

    name: str
    bytes_per_element: float
    scale_block: int | None = None
    given: bool = False


def weight_dtype(places: tuple[Fields, ...]) -> str | None:
    """Type of the weights, from the first key in the first place that names one; None: none does.

    Raises:
        ConfigError: two keys name different types.
    """
    found = None
    for place in places:
        for key in _WEIGHT_KEYS:
            dtype = (place.word(key) or "").removeprefix("torch.")
            if dtype and found and dtype != found:
                raise place.refusal(key, f"is {dtype}, but {found} stands elsewhere in the file")
            found = found or dtype or None
    return found


def kv_type(given: str | None, dtype: str | None, places: tuple[Fields, ...]) -> KvType:
    """The KV type.

    Args:
        given: as the engine calls it; None or `auto`: that of the weights.
        dtype: type of the weights; None: not known.
        places: objects of the document where the weights' type and a quantisation may stand, the inner one first.

    Raises:
        ConfigError: it is not known.
    """
    name = "auto" if given is None else given.lower().removeprefix("torch.")
    if name != "auto":
        if name not in _KV_BYTES:
            raise ConfigError("kv_dtype", f"{shown(given)} is no KV type of known size; {REMEDY}")
        return KvType(name, _KV_BYTES[name], _SCALE_BLOCKS.get(name), given=True)
    for place in places:
        _refuse_quantised_kv(place)
    if dtype is None:
        raise places[0].refusal("dtype", "(or torch_dtype) is required")
    if dtype not in _WEIGHT_BYTES:
        raise places[0].refusal("dtype", f"is {dtype!r:.60}, in which no KV is kept")
    return KvType(dtype, _WEIGHT_BYTES[dtype])


def _refuse_quantised_kv(place: Fields) -> None:
    """Refuse weights that ask for a quantised KV: whether an engine heeds that differs by engine and version."""
    for key in QUANTISATION_KEYS:
        part = place.part(key)
        for kv_key in _QUANTISED_KV_KEYS if part is not None else ():
            if part is not None and part.get(kv_key):
                raise part.refusal(kv_key, "quantises KV, if the engine heeds it: give the KV type that it uses")
