"""The way in by hand: GET says what there is, POST changes one thing. JSON, on the loopback interface only.

Beside it lies the configuration of pdscope for what runs, as its user would have written it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from pdscope.demo.runner.http import HOST, Request, Response
from pdscope.demo.runner.parameters import PARAMETERS, find
from pdscope.demo.runner.stage import How, Stage
from pdscope.demo.scenarios import SCENARIOS
from pdscope.demo.scenarios import find as find_scenario
from pdscope.errors import UsageError

CONFIG_PATH = "/pdscope.yml"
"""Where the configuration is."""

_JSON = "application/json"
_YAML = "application/yaml; charset=utf-8"
_HERE = frozenset({HOST, "localhost"})


class Control:
    """Answers requests about the stage.

    Args:
        stage: what is changed.
        config_text: the configuration that fits the stage now.
        changed: awaited after every change, with what was done in words.
    """

    def __init__(
        self, stage: Stage, config_text: Callable[[], str], changed: Callable[[How, str], Awaitable[None]]
    ) -> None:
        self._stage = stage
        self._config_text = config_text
        self._changed = changed

    async def answer(self, request: Request) -> Response:
        """The answer to any request: 200, or a 4xx with one sentence under `error`."""
        if not _from_here(request):
            return _error(HTTPStatus.FORBIDDEN, "only for programs on this machine, by its loopback address")
        if request.path == CONFIG_PATH and request.method == "GET":
            return Response(self._config_text().encode(), _YAML)
        if request.path != "/":
            return _error(HTTPStatus.NOT_FOUND, f"there is / and, to GET, {CONFIG_PATH}")
        if request.method == "GET":
            return _response(self._state())
        if request.method != "POST":
            return _error(HTTPStatus.METHOD_NOT_ALLOWED, "GET or POST")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
            return _error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body is {_JSON}, and the header says so")
        try:
            name, value = _read(request.body)
            how, words = self._do(name, value)
        except UsageError as error:
            return _error(HTTPStatus.BAD_REQUEST, str(error))
        await self._changed(how, words)
        return _response({"parameter": name, "value": value, "change": how})

    def _do(self, name: str, value: Any) -> tuple[How, str]:
        if name == "scenario":
            if not isinstance(value, str):
                raise UsageError(f"scenario: takes a name out of {', '.join(SCENARIOS)}")
            scenario = find_scenario(value[:80])
            return self._stage.play(scenario), f"{scenario.name}: {scenario.story}"
        if name == "killed":
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                raise UsageError(f"killed: takes a list of names out of {', '.join(self._stage.servers)}")
            names = frozenset(value)
            how = self._stage.kill(names)
            return how, f"dead now: {', '.join(sorted(names)) or 'nobody'}"
        parameter = find(name)
        number = parameter.read(value)
        before = parameter.of(self._stage.draw)
        return self._stage.change(parameter, number), f"{name}: {_text(before)} becomes {_text(number)}"

    def _state(self) -> dict[str, Any]:
        stage = self._stage
        values = stage.values()
        return {
            "scenario": stage.scenario.name,
            "story": stage.scenario.story,
            "watch": stage.scenario.watch,
            "on_seconds": round(stage.on_seconds, 3),
            "killed": sorted(stage.killed),
            "servers": list(stage.servers),
            "scenarios": list(SCENARIOS),
            "parameters": {
                name: {
                    "value": values[name],
                    "low": parameter.low,
                    "high": parameter.high,
                    "null": parameter.is_optional,
                    "change": How.LIVE if parameter.is_live else How.RESTART,
                }
                for name, parameter in PARAMETERS.items()
            },
        }


def _read(body: bytes) -> tuple[str, Any]:
    """Parameter and value of a request.

    Raises:
        UsageError: it is not that.
    """
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON") from None
    if not isinstance(read, dict) or set(read) != {"parameter", "value"} or not isinstance(read["parameter"], str):
        raise UsageError('send {"parameter": "link.path_bytes_per_second", "value": 4e8}')
    return read["parameter"], read["value"]


def _from_here(request: Request) -> bool:
    """Whether neither a name that somebody else resolves to us nor a page of somebody else's brought the request."""
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    origin = request.headers.get("origin")
    return host in _HERE and (origin is None or urlsplit(origin).hostname in _HERE)


def _text(value: float | None) -> str:
    return "none" if value is None else f"{value:g}"


def _error(status: HTTPStatus, text: str) -> Response:
    return _response({"error": text}, status)


def _response(content: dict[str, Any], status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(json.dumps(content, indent=2).encode() + b"\n", _JSON, status)
