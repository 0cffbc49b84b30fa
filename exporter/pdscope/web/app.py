"""The daemon's HTTP interface: routes only. What they answer is the last report, in the form that was asked for."""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from starlette.exceptions import HTTPException

from pdscope.errors import PdscopeError
from pdscope.model.report import Report
from pdscope.render.debug import debug_document
from pdscope.render.history import history_json
from pdscope.render.html import index_html, report_html
from pdscope.render.json import report_document, report_json
from pdscope.render.sd import sd_json
from pdscope.render.text import report_text
from pdscope.web.negotiation import preferred
from pdscope.web.paths import Paths
from pdscope.web.state import AppState

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
HTML = "text/html; charset=utf-8"

_INDEX = """\
pdscope: metrics and bottleneck diagnosis for LLM serving with prefill and decode apart

{base}/diagnose          what limits each deployment, by Accept or ?format=json|text|html; ?deployment=, ?debug=true
{base}/diagnose/history  what was said lately, and what changed when the verdict did; ?deployment=
{base}/metrics           the same as Prometheus metrics
{base}/sd                the configured targets, for http_sd_configs of Prometheus
{base}/-/healthy         200 while the process serves
{base}/-/ready           200 once every target was tried and judged
{base}/-/reload          POST: read the configuration file again
{base}/openapi.json      the description of this interface
"""
_FORMATS = {"json": JSON, "text": "text/plain", "html": "text/html"}
_PAGE_HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'", "Vary": "Accept"}
"""Whatever a name out of an engine's page may hold: nothing in our page runs or loads."""

_Form = Annotated[str | None, Query(alias="format", description="json, text or html; wins over Accept")]
_Deployment = Annotated[str | None, Query(description="only the deployment of this name")]
_Debug = Annotated[bool, Query(description="raw values, thresholds and scrape log beside each deployment; JSON only")]


def create_app(state: AppState, paths: Paths | None = None) -> FastAPI:
    """The application. Pages that load their scripts from elsewhere are left out: many clusters have no way out.

    Args:
        state: what is served.
        paths: where the interface lies; left out: at the root.
    """
    where = paths or Paths()
    app = FastAPI(
        title="pdscope",
        version=state.version,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{where.prefix}/openapi.json",
        exception_handlers={HTTPException: _refused, RequestValidationError: _misunderstood},
    )
    app.include_router(_answers_of(state), prefix=where.prefix)
    app.include_router(_pages(state, where), prefix=where.prefix)
    app.include_router(_lifecycle(state), prefix=where.prefix)
    if where.prefix:

        @app.get("/", include_in_schema=False)
        async def root() -> Response:
            """Whoever knows only host and port."""
            return RedirectResponse(f"{where.prefix}/")

    return app


def _answers_of(state: AppState) -> APIRouter:
    """What machines read."""
    router = APIRouter()
    compressed = _Compressed()

    @router.get("/metrics", response_class=Response, responses=_answers("text/plain", "application/openmetrics-text"))
    async def metrics(request: Request) -> Response:
        """The last cycle as Prometheus metrics: text format 0.0.4, or OpenMetrics by Accept."""
        return _not_yet() if state.report is None else _metrics(state, request, compressed)

    @router.get("/diagnose/history", response_class=Response, responses=_answers(JSON, errors=(404,)))
    async def history(deployment: _Deployment = None) -> Response:
        """The last diagnoses and, kept longer, the last changes of the verdict with what changed around them."""
        names = [d.name for d in state.config.deployments]
        if deployment is not None and deployment not in names:
            return _unknown(names)
        asked = names if deployment is None else [deployment]
        return Response(history_json(state.past(name) for name in asked), media_type=JSON)

    @router.get("/sd", response_class=Response, responses=_answers(JSON))
    async def targets() -> Response:
        """The configured targets as a Prometheus HTTP service-discovery list."""
        return Response(sd_json(state.config, state.report), media_type=JSON)

    return router


def _pages(state: AppState, where: Paths) -> APIRouter:
    """What people read too."""
    router = APIRouter()

    @router.get("/diagnose", response_class=Response, responses=_answers(*_FORMATS.values(), errors=(400, 404)))
    async def diagnose(
        request: Request,
        form: _Form = None,
        deployment: _Deployment = None,
        time: Annotated[str | None, Query(description="refused: this version keeps no past to judge")] = None,
        *,
        debug: _Debug = False,
    ) -> Response:
        """What limits each deployment, why, and what to do. Status 200 also when engines are down."""
        if time is not None:
            return _error(
                HTTPStatus.BAD_REQUEST, "time: the daemon judges now only; see /diagnose/history for the past"
            )
        if form is None:
            form = "json" if debug else _liked(request)
        if form not in _FORMATS:
            return _error(HTTPStatus.BAD_REQUEST, f"format must be one of {', '.join(_FORMATS)}")
        if debug and form != "json":
            return _error(HTTPStatus.BAD_REQUEST, "debug=true is a part of the JSON only: leave format out")
        if state.report is None:
            return _not_yet()
        if deployment is not None and state.report.deployment(deployment) is None:
            return _unknown([d.deployment.name for d in state.report.deployments])
        match form:
            case "text":
                return _page(report_text(state.report, deployment=deployment), TEXT)
            case "html":
                return _page(report_html(state.report, base=where.base, deployment=deployment), HTML)
        body = _debugged(state, state.report, deployment) if debug else report_json(state.report, deployment=deployment)
        return Response(body, media_type=JSON, headers={"Vary": "Accept"})

    @router.get("/", response_class=Response, responses=_answers("text/plain", "text/html"))
    async def index(request: Request) -> Response:
        """The paths that this version serves, as text, or with links to a browser."""
        text = _INDEX.format(base=where.base)
        wanted = preferred(request.headers.get("Accept", ""), ("text/plain", "text/html"))
        return _page(index_html(text, base=where.base), HTML) if wanted == "text/html" else _page(text, TEXT)

    return router


def _lifecycle(state: AppState) -> APIRouter:
    """What orchestrators ask."""
    router = APIRouter()

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

    @router.post("/-/reload", response_class=Response, responses=_answers("text/plain", errors=(404, 500)))
    async def reload() -> Response:
        """Read the configuration file again. When it is wrong, all goes on as before and the answer says what is."""
        if not state.can_reload:
            return _error(HTTPStatus.NOT_FOUND, "there is nothing to reload: this daemon has no configuration file")
        try:
            state.reload()
        except PdscopeError as error:
            return _error(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        return Response(b"reloaded\n", media_type=TEXT)

    return router


def _liked(request: Request) -> str:
    """The form that Accept asks for."""
    accept = preferred(request.headers.get("Accept", ""), tuple(_FORMATS.values()))
    return next((form for form, media_type in _FORMATS.items() if media_type == accept), "json")


def _metrics(state: AppState, request: Request, compressed: _Compressed) -> Response:
    offers = ("text/plain", "application/openmetrics-text")
    wanted = preferred(request.headers.get("Accept", ""), offers)
    body, content_type = state.metrics_body(openmetrics=wanted == offers[1])
    headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
    if preferred(request.headers.get("Accept-Encoding", ""), ("gzip",)):
        body = compressed.of(body)
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers)


def _debugged(state: AppState, report: Report, deployment: str | None) -> bytes:
    document = report_document(report, deployment=deployment)
    for part in document["deployments"]:
        part["debug"] = debug_document(state.debug(part["name"]))
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


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


def _page(text: str, media_type: str) -> Response:
    return Response(text.encode(), media_type=media_type, headers=_PAGE_HEADERS)


def _not_yet() -> Response:
    return _error(HTTPStatus.SERVICE_UNAVAILABLE, "no cycle is complete: not every target was tried and judged yet")


def _unknown(known: Sequence[str]) -> Response:
    return _error(HTTPStatus.NOT_FOUND, f"there is no such deployment; known: {', '.join(known)}")


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps({"error": message}), status_code=status, media_type=JSON, headers=headers)


async def _refused(_request: Request, error: Exception) -> Response:
    """A path or method that does not exist; Starlette names the methods that do."""
    if not isinstance(error, HTTPException):
        raise TypeError(type(error))
    return _error(error.status_code, error.detail, error.headers)


async def _misunderstood(_request: Request, error: Exception) -> Response:
    """A parameter of a wrong kind."""
    if not isinstance(error, RequestValidationError):
        raise TypeError(type(error))
    wrong = "; ".join(f"{detail['loc'][-1]}: {detail['msg']}" for detail in error.errors())
    return _error(HTTPStatus.BAD_REQUEST, wrong)


def _answers(*media_types: str, errors: Sequence[int] = ()) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of a route's answers; FastAPI cannot see it in a `Response`."""
    ok: dict[str, Any] = {"description": "OK", "content": {media_type: {} for media_type in media_types}}
    unavailable = {"description": HTTPStatus.SERVICE_UNAVAILABLE.phrase}
    return {200: ok, **{code: {"description": HTTPStatus(code).phrase} for code in errors}, 503: unavailable}
