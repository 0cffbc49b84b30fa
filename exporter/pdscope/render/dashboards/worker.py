"""The board of workers: what each instance says, its devices, and how well it can be read."""

from __future__ import annotations

from pdscope.render import catalogue
from pdscope.render.catalogue import MetricDef
from pdscope.render.dashboards.board import Board, Row
from pdscope.render.dashboards.panel import Kind, Link, Panel, Unit
from pdscope.render.dashboards.places import Places
from pdscope.render.dashboards.query import RATE_WINDOW, Query, code, fold
from pdscope.render.dashboards.scope import clusters, deployments, workers
from pdscope.render.dashboards.states import ANSWERS, VERDICTS, numbers

_HERE = "${deployment}"
_OF = {"worker": "$worker"}
_SOURCE = "{{target}} ({{source}})"


def worker(places: Places) -> Board:
    """The board."""
    return Board(
        name="worker",
        title="pdscope / Worker",
        description="The instances of one deployment: verdict, devices, and the pages that they are read from.",
        variables=(*clusters(), deployments(catalogue.DIAGNOSIS_TIMESTAMP, is_multi=False), workers()),
        rows=(
            Row("Verdicts", _verdicts(places)),
            Row("Devices", _devices(places)),
            Row("Sources of the deployment", _sources(places)),
        ),
        pdscope_url=places.pdscope_url,
        links=(places.diagnosis(_HERE), places.history(_HERE)),
    )


def _verdicts(places: Places) -> tuple[Panel, ...]:
    columns = ("worker", "role", "engine", "engine_version", "model", "address")
    info = fold(catalogue.WORKER_INFO, *columns, matchers=_OF)
    return (
        Panel(
            "Verdict",
            "What each instance says of itself. One that differs from the others of its role is the place to look.",
            Kind.STATES,
            (Query(code(catalogue.WORKER_VERDICT, numbers(VERDICTS), "worker", matchers=_OF), "{{worker}}"),),
            width=24,
            height=8,
            states=VERDICTS,
            links=(Link("Verdicts", places.page("verdicts.md")),),
            data_links=(places.diagnosis(_HERE),),
        ),
        Panel(
            "Instances",
            "Role, engine and version as the instance itself says, or as they are configured.",
            Kind.TABLE,
            (Query(info, is_instant=True, name="known"),),
            width=24,
            height=6,
            columns={name: name.replace("_", " ").capitalize() for name in columns},
        ),
    )


def _devices(places: Places) -> tuple[Panel, ...]:
    def lines(metric: MetricDef) -> tuple[Query, ...]:
        return (Query(fold(metric, "worker", "role", "quality", matchers=_OF), "{{worker}} ({{role}}, {{quality}})"),)

    return (
        Panel(
            "Compute",
            "Activity of an instance's devices. Prefill should be high, decode need not be. `measured` is read from "
            "the device, `estimated` from a model of it.",
            Kind.LINES,
            lines(catalogue.WORKER_COMPUTE),
            Unit.RATIO,
            links=(Link("Prefill compute", places.page("rules/prefill_compute.md")),),
            is_share=True,
        ),
        Panel(
            "Memory bandwidth",
            "Use of an instance's HBM bandwidth. Decode lives on it; prefill should be low.",
            Kind.LINES,
            lines(catalogue.WORKER_HBM),
            Unit.RATIO,
            links=(Link("Decode HBM", places.page("rules/decode_hbm_bandwidth.md")),),
            is_share=True,
        ),
    )


def _sources(places: Places) -> tuple[Panel, ...]:
    source = ("target", "source")
    success = fold(catalogue.SOURCE_LAST_SUCCESS, *source)
    failures = fold(catalogue.SOURCE_FAILURES, *source, "reason", over=f"rate({{}}[{RATE_WINDOW}])")
    down = Link("Source down", places.page("runbooks/PdscopeSourceDown.md"))
    return (
        Panel(
            "Answers",
            "Whether the last scrape of a page brought data. An instance and its devices are separate pages.",
            Kind.STATES,
            (Query(fold(catalogue.SOURCE_UP, *source), _SOURCE),),
            states=ANSWERS,
            links=(down,),
        ),
        Panel(
            "Age of the last answer",
            "A line that climbs is a page that pdscope no longer gets.",
            Kind.LINES,
            (Query(f"time() - {success}", _SOURCE),),
            Unit.SECONDS,
            links=(down,),
        ),
        Panel(
            "Time of a scrape",
            "Large beside the interval: the page is too long or the engine too busy to print it.",
            Kind.LINES,
            (Query(fold(catalogue.SOURCE_DURATION, *source), _SOURCE),),
            Unit.SECONDS,
            width=8,
            links=(Link("Cost of scraping", places.page("rules/scrape_cost.md")),),
        ),
        Panel(
            "Failed scrapes",
            "By reason, a second. Absent while none has failed since pdscope was started.",
            Kind.LINES,
            (Query(failures, "{{target}} ({{source}}): {{reason}}"),),
            Unit.EVENTS_PER_SECOND,
            width=8,
            links=(down,),
        ),
        Panel(
            "Metrics that are missing",
            "What every program of that version and role prints and this page lacks: renamed in a release, or switched "
            "off. Zero is right.",
            Kind.LINES,
            (Query(fold(catalogue.SOURCE_MISSING, *source), _SOURCE),),
            width=8,
            links=(Link("Schema drift", places.page("runbooks/PdscopeSchemaDrift.md")),),
        ),
    )
