"""One simulated server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pdscope.demo.pages.page import Page


@dataclass(frozen=True, slots=True)
class Server:
    """One port.

    Attributes:
        name: unique in the deployment, and the name of the instance or device in the configuration.
        role: `prefill`, `decode`, `unified`, `devices` or `router`.
        engine: `sglang`, `vllm`, `dcgm` or `smg`.
        pages: by path, which begins with a slash and has no query.
    """

    name: str
    role: str
    engine: str
    pages: Mapping[str, Page]
