"""The paths of a vLLM server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import orjson

from pdscope.demo.pages.hosts import Instance
from pdscope.demo.pages.page import JSON, Page
from pdscope.demo.pages.vllm_decoding import VllmDecode, VllmUnified
from pdscope.demo.pages.vllm_prefill import VllmPrefill
from pdscope.demo.pages.vllm_server import VllmServer
from pdscope.demo.physics.simulation import Simulation

_VERSION = "0.32.0"
_TEXT = "text/plain; version=1.0.0; charset=utf-8"
"""What the program says, although the page is text format 0.0.4."""
_SERVERS: Mapping[str, type[VllmServer]] = {"prefill": VllmPrefill, "decode": VllmDecode, "unified": VllmUnified}


def vllm_pages(simulation: Simulation, instance: Instance, unix_seconds: Callable[[], float]) -> Mapping[str, Page]:
    """What the server of `instance` answers, by path.

    Args:
        simulation: that has not run.
        instance: of it.
        unix_seconds: the wall clock.
    """
    server = _SERVERS[instance.role](simulation, instance, unix_seconds)
    version = orjson.dumps({"version": _VERSION})
    return {
        "/metrics": Page(_TEXT, server.metrics),
        "/version": Page(JSON, partial(bytes, version)),
        "/health": Page(JSON, bytes),
    }
