"""The paths of an SGLang server that a scraper asks for."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from pdscope.demo.http_server import Response
from pdscope.demo.sglang_server import SglangServer

_JSON = "application/json"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class SglangHttp:
    """Answers GET requests for one server, after letting its simulation reach the present.

    Args:
        server: what counts.
        catch_up: advances the simulation to now.
        wall_clock: unix seconds, for the time stamps of `/v1/loads`.
    """

    def __init__(self, server: SglangServer, catch_up: Callable[[], None], wall_clock: Callable[[], float]) -> None:
        self._server = server
        self._catch_up = catch_up
        self._paths: dict[str, Callable[[], Response]] = {
            "/metrics": lambda: Response(server.metrics().encode(), _TEXT),
            "/v1/loads": lambda: Response(orjson.dumps(server.loads(wall_clock())), _JSON),
            "/model_info": lambda: Response(orjson.dumps(server.model_info()), _JSON),
            "/health": lambda: Response(b"", _TEXT),
            "/ready": lambda: Response(b"", _TEXT),
        }

    def __call__(self, path: str) -> Response | None:
        """The answer to a GET of `path`; None if the server does not know it."""
        page = self._paths.get(path)
        if page is None:
            return None
        self._catch_up()
        self._server.opened(path, "GET")
        response = page()
        self._server.closed(path, "GET")
        return response
