"""What a router says of its workers: `GET /workers` of vllm-router, smg and sglang_router."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from pdscope.config.places import BaseUrl
from pdscope.config.problems import shown
from pdscope.errors import UsageError
from pdscope.model.topology import Role

_ROLES = {"prefill": Role.PREFILL, "decode": Role.DECODE}
"""`worker_type` -> role. Anything else (`regular`) says only that the router splits nothing."""
_RANK = re.compile(r"@[0-9]+$")
"""A router that balances over data-parallel ranks lists an engine once a rank, the rank behind its address."""
_ADDRESS: TypeAdapter[str] = TypeAdapter(BaseUrl)


@dataclass(frozen=True, slots=True)
class Worker:
    """An address to look at. `role` None: nobody has said it."""

    url: str
    role: Role | None = None


def base_url(text: str, where: str) -> str:
    """An address as the configuration wants it.

    Args:
        text: as written.
        where: what wrote it, for the error.

    Raises:
        UsageError: it is none.
    """
    try:
        return _ADDRESS.validate_python(text)
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        why = detail.get("ctx", {}).get("error", detail["msg"])
        # a password may stand in it, and what a router lists may be anything
        told = "" if "@" in text else f" {shown(text)}"
        raise UsageError(f"{where}{told}: {why}") from None


def read_workers(body: bytes, place: str) -> tuple[list[Worker], list[str]]:
    """The workers of a router's answer, each address once, and what was left out and why.

    Args:
        body: a list of workers, or a mapping that has it under `workers`.
        place: where the answer came from, for errors.

    Raises:
        UsageError: the answer is no list of workers.
    """
    try:
        document: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise UsageError(f"{place}: the answer is no JSON, so it is no router that lists its workers") from None
    listed = document.get("workers") if isinstance(document, dict) else document
    if not isinstance(listed, list):
        raise UsageError(f"{place}: the answer is no list of workers")
    workers: dict[str, Worker] = {}
    left_out: list[str] = []
    for item in listed:
        url = item.get("url") if isinstance(item, dict) else item
        if not isinstance(url, str):
            left_out.append(f"{place}: a worker without an address is left out")
            continue
        try:
            address = base_url(_RANK.sub("", url), f"{place}: worker")
        except UsageError as error:  # one bad entry (a gRPC worker has no page) must not lose the others
            left_out.append(f"{error}; left out")
            continue
        kind = item.get("worker_type") if isinstance(item, dict) else None
        workers[address] = Worker(address, _ROLES.get(kind) if isinstance(kind, str) else None)
    return list(workers.values()), left_out
