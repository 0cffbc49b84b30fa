"""What engines say of themselves beside their metrics: asked at the start and every few minutes, since it hardly moves.

SGLang's `/server_info` makes a round trip to every scheduler and holds keys in clear text: it is asked rarely, and only
the fields of an allow-list leave `server_info`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from pdscope.errors import PageError
from pdscope.model.metric import Fact
from pdscope.sources.server_info import allowed_server_info

Facts = Mapping[Fact, str]
Reader = Callable[[bytes], Facts]

_FIELDS: Mapping[str, Fact] = {
    "version": Fact.ENGINE_VERSION,
    "kv_cache_dtype": Fact.KV_CACHE_DTYPE,
    "disaggregation_mode": Fact.ROLE,
    "tp_size": Fact.TP,
    "pp_size": Fact.PP,
    "dp_size": Fact.DP,
}
_MAX_NAME = 200
_VERSION = re.compile(r"\d[0-9A-Za-z.+!]{0,39}")


def server_info(body: bytes) -> Facts:
    """SGLang's `/server_info`.

    Raises:
        PageError: the body is no such answer.
    """
    allowed = allowed_server_info(body)
    facts = {fact: str(allowed[field]) for field, fact in _FIELDS.items() if field in allowed}
    if facts.get(Fact.ROLE) == "null":
        facts[Fact.ROLE] = "unified"
    return facts


def version(body: bytes) -> Facts:
    """The `/version` of vLLM.

    Raises:
        PageError: the body is no such answer.
    """
    found = _object(body, "/version").get("version")
    if not isinstance(found, str) or not _VERSION.fullmatch(found):
        raise PageError("not a /version answer")
    return {Fact.ENGINE_VERSION: found}


def model_info(body: bytes) -> Facts:
    """SGLang's `/model_info`: the role, and the name under which the model is served.

    Raises:
        PageError: the body is no such answer.
    """
    document = _object(body, "/model_info")
    role, name = document.get("disaggregation_mode"), document.get("served_model_name")
    facts: dict[Fact, str] = {}
    if role in ("null", "prefill", "decode"):
        facts[Fact.ROLE] = "unified" if role == "null" else role
    if isinstance(name, str) and 0 < len(name) <= _MAX_NAME and name.isprintable():
        facts[Fact.MODEL] = name
    return facts


def _object(body: bytes, path: str) -> dict[str, object]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise PageError(f"not a {path} answer") from error
    if not isinstance(document, dict):
        raise PageError(f"not a {path} answer")
    return document


INTRODUCTIONS: Mapping[str, tuple[tuple[str, Reader], ...]] = {
    "sglang": (("/model_info", model_info), ("/server_info", server_info)),
    "vllm": (("/version", version),),
}
"""Name of the adapter that recognised the page -> where the engine introduces itself, and how to read it."""
