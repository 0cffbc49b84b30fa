"""The paths of an SGLang server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pdscope.demo.pages.hosts import Instance
from pdscope.demo.pages.page import JSON, TEXT, Page
from pdscope.demo.pages.sglang_decode import SglangDecode
from pdscope.demo.pages.sglang_decoding import SglangDecoding
from pdscope.demo.pages.sglang_loads import loads_body, model_info_body, server_info_body
from pdscope.demo.pages.sglang_prefill import SglangPrefill
from pdscope.demo.pages.sglang_server import SglangServer
from pdscope.demo.pages.sglang_unified import SglangUnified
from pdscope.demo.physics.simulation import Simulation

_SERVERS: Mapping[str, type[SglangServer]] = {
    "prefill": SglangPrefill,
    "decode": SglangDecode,
    "unified": SglangUnified,
}


def sglang_pages(simulation: Simulation, instance: Instance, unix_seconds: Callable[[], float]) -> Mapping[str, Page]:
    """What the server of `instance` answers, by path.

    Args:
        simulation: that has not run.
        instance: of it.
        unix_seconds: the wall clock, printed by `/v1/loads`.
    """
    server = _SERVERS[instance.role](simulation, instance)
    bodies: dict[str, tuple[str, Callable[[], bytes]]] = {
        "/v1/loads": (JSON, partial(_loads, server, unix_seconds)),
        "/model_info": (JSON, partial(model_info_body, instance)),
        "/server_info": (JSON, partial(_server_info, server)),
        "/health": (TEXT, bytes),
        "/ready": (TEXT, bytes),
    }
    pages = {path: Page(kind, partial(_answer, server, path, body)) for path, (kind, body) in bodies.items()}
    return {"/metrics": Page(TEXT, server.metrics), **pages}


def _answer(server: SglangServer, path: str, body: Callable[[], bytes]) -> bytes:
    answer = body()
    server.answered(path)
    return answer


def _loads(server: SglangServer, unix_seconds: Callable[[], float]) -> bytes:
    return loads_body(
        server.loads(),
        server.instance,
        server.simulation.draw,
        weight_gib=server.weight_gib,
        kv_cache_gib=server.kv_cache_gib,
        unix_seconds=unix_seconds(),
    )


def _server_info(server: SglangServer) -> bytes:
    return server_info_body(
        server.instance,
        server.simulation.draw,
        weight_gib=server.weight_gib,
        kv_cache_gib=server.kv_cache_gib,
        generated_per_second=server.generated_per_second if isinstance(server, SglangDecoding) else 0.0,
    )
