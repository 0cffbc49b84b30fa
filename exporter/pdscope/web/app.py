"""The daemon's HTTP interface: routes only. What they answer is the last report, in the form that was asked for."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Protocol

import orjson
from fastapi import APIRouter, FastAPI, Query, Request, Response

from pdscope.model.report import Report
from pdscope.render.json import report_json
from pdscope.render.text import report_text

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"

_INDEX = b"""\
pdscope: metrics and bottleneck diagnosis for LLM serving with prefill and decode apart

/diagnose       what limits each deployment: JSON, or text by Accept: text/plain or ?format=text; ?deployment=NAME
/metrics        the same as Prometheus metrics
/-/healthy      200 while the process serves
/-/ready        200 once every target was tried and judged
/openapi.json   the description of this interface
"""
_FORMATS = {"json": JSON, "text": "text/plain"}


class AppState(Protocol):
    """What the interface serves; it may change between two requests, never during one."""

    @property
    def report(self) -> Report | None:
        """The last cycle; None before the first, or while judging fails."""

    @property
    def ready(self) -> bool:
        """Whether there is something to serve."""

    @property
    def version(self) -> str:
        """Of pdscope."""

    def metrics_body(self, *, openmetrics: bool) -> tuple[bytes, str]:
        """`/metrics` of the last cycle and its content type; the same object until the next. Needs a report."""


def create_app(state: AppState) -> FastAPI:
    """The application. Pages that load their scripts from elsewhere are left out: many clusters have no way out."""
    app = FastAPI(title="pdscope", version=state.version, docs_url=None, redoc_url=None)
    app.include_router(_routes(state))
    return app


def _routes(state: AppState) -> APIRouter:
    router = APIRouter()
    compressed = _Compressed()

    @router.get("/metrics", response_class=Response, responses=_answers("text/plain", "application/openmetrics-text"))
    async def metrics(request: Request) -> Response:
        """The last cycle as Prometheus metrics: text format 0.0.4, or OpenMetrics by Accept."""
        return _not_yet() if state.report is None else _metrics(state, request, compressed)

    @router.get("/diagnose", response_class=Response, responses=_answers(JSON, "text/plain", errors=(400, 404)))
    async def diagnose(
        request: Request,
        form: Annotated[str | None, Query(alias="format", description="json or text; wins over Accept")] = None,
        deployment: Annotated[str | None, Query(description="only the deployment of this name")] = None,
    ) -> Response:
        """What limits each deployment, why, and what to do. Status 200 also when engines are down."""
        if form is None:
            accept = preferred(request.headers.get("Accept", ""), tuple(_FORMATS.values()))
            form = "text" if accept == _FORMATS["text"] else "json"
        if form not in _FORMATS:
            return _error(HTTPStatus.BAD_REQUEST, f"format must be one of {', '.join(_FORMATS)}")
        return _not_yet() if state.report is None else _diagnosis(state.report, form, deployment)

    @router.get("/-/healthy", response_class=Response, responses=_answers("text/plain"))
    async def healthy() -> Response:
        """Whether the process serves; for a liveness probe."""
        return Response(b"healthy\n", media_type=TEXT)

    @router.get("/-/ready", response_class=Response, responses=_answers("text/plain"))
    async def ready() -> Response:
        """Whether every target was tried and the result was judged; for a readiness probe."""
        if state.ready:
            return Response(b"ready\n", media_type=TEXT)
        return Response(b"not ready\n", status_code=503, media_type=TEXT)

    @router.get("/", response_class=Response, responses=_answers("text/plain"))
    async def index() -> Response:
        """The paths that this version serves, as text. It is no page for on-call: there is none yet."""
        return Response(_INDEX, media_type=TEXT)

    return router


def _metrics(state: AppState, request: Request, compressed: _Compressed) -> Response:
    offers = ("text/plain", "application/openmetrics-text")
    wanted = preferred(request.headers.get("Accept", ""), offers)
    body, content_type = state.metrics_body(openmetrics=wanted == offers[1])
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if preferred(request.headers.get("Accept-Encoding", ""), ("gzip",)):
        body = compressed.of(body)
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers)


def _diagnosis(report: Report, form: str, deployment: str | None) -> Response:
    if deployment is not None and report.deployment(deployment) is None:
        known = ", ".join(d.deployment.name for d in report.deployments)
        return _error(HTTPStatus.NOT_FOUND, f"there is no such deployment; known: {known}")
    headers = {"Vary": "Accept"}
    if form == "text":
        text = report_text(report, deployment=deployment)
        return Response(text.encode(), media_type=TEXT, headers=headers)
    return Response(report_json(report, deployment=deployment), media_type=JSON, headers=headers)


class _Compressed:
    """The compressed form of the last bodies, so that several scrapers of one cycle cost one compression."""

    def __init__(self) -> None:
        self._last: list[tuple[bytes, bytes]] = []

    def of(self, body: bytes) -> bytes:
        for plain, packed in self._last:
            if plain is body:
                return packed
        packed = gzip.compress(body, compresslevel=6, mtime=0)
        self._last = [*self._last[-1:], (body, packed)]  # one of each format
        return packed


def preferred(header: str, offers: Sequence[str]) -> str | None:
    """The offer that an Accept or Accept-Encoding header likes best; the first of equals.

    None: it likes none of them. A server may send its default then, as to a client that says nothing.
    """
    weights = {name: weight for name, weight in map(_weighted, header.split(",")) if name}
    best, highest = None, 0.0
    for offer in offers:
        wildcard = f"{offer.partition('/')[0]}/*"
        weight = next((weights[name] for name in (offer, wildcard, "*/*", "*") if name in weights), 0.0)
        if weight > highest:
            best, highest = offer, weight
    return best


def _weighted(item: str) -> tuple[str, float]:
    """`text/plain;version=0.0.4;q=0.5` to ("text/plain", 0.5); a weight that is no number counts as 0."""
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return name, float(value)
            except ValueError:
                return name, 0.0
    return name, 1.0


def _not_yet() -> Response:
    return _error(HTTPStatus.SERVICE_UNAVAILABLE, "no cycle is complete: not every target was tried and judged yet")


def _error(status: HTTPStatus, message: str) -> Response:
    return Response(orjson.dumps({"error": message}), status_code=status, media_type=JSON)


def _answers(*media_types: str, errors: Sequence[int] = ()) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of a route's answers; FastAPI cannot see it in a `Response`."""
    ok: dict[str, Any] = {"description": "OK", "content": {media_type: {} for media_type in media_types}}
    unavailable = {"description": HTTPStatus.SERVICE_UNAVAILABLE.phrase}
    return {200: ok, **{code: {"description": HTTPStatus(code).phrase} for code in errors}, 503: unavailable}
