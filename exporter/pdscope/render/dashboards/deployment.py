"""The board of one deployment: the walk of a diagnosis, from the verdict to what changed."""

from __future__ import annotations

from pdscope.model.signal import SignalId
from pdscope.render import catalogue
from pdscope.render.dashboards.board import Board, Row
from pdscope.render.dashboards.panel import OBJECTIVE, Kind, Link, Panel, Unit
from pdscope.render.dashboards.places import Places
from pdscope.render.dashboards.query import Annotation, Query, code, fold
from pdscope.render.dashboards.scope import clusters, deployments
from pdscope.render.dashboards.stages import HERE, balance, decode, one_signal, prefill, signal_line, transfer
from pdscope.render.dashboards.states import CONFIDENCES, HOLDS, PHASES, VERDICTS, numbers

_S = SignalId
_D = catalogue.DEPLOYMENT_SIGNALS
_QUANTILES = ("p50", "p95", "p99")


def deployment(places: Places) -> Board:
    """The board."""
    return Board(
        name="deployment",
        title="pdscope / Deployment",
        description="One deployment, read from top to bottom as a diagnosis goes: verdict, objectives, prefill, "
        "transfer, decode, balance, headroom, what changed.",
        variables=(*clusters(), deployments(catalogue.DIAGNOSIS_TIMESTAMP, is_multi=False)),
        rows=(
            Row("1 Verdict", _verdict(places)),
            Row("2 Objectives", _objectives(places)),
            Row("3 Prefill", prefill(places)),
            Row("4 KV transfer", transfer(places)),
            Row("5 Decode", decode(places)),
            Row("6 Balance", balance(places)),
            Row("7 Headroom", _headroom(places)),
            Row("8 What changed", _changes(places)),
        ),
        pdscope_url=places.pdscope_url,
        links=(places.diagnosis(HERE), places.history(HERE)),
        annotations=(
            Annotation(
                "Changes of the verdict",
                f"{fold(catalogue.VERDICT, 'verdict')} == 1\n"
                f"unless {fold(catalogue.VERDICT, 'verdict', over='{} offset 1m')} == 1",
                "{{verdict}}",
                "#d64541",
            ),
        ),
    )


def _verdict(places: Places) -> tuple[Panel, ...]:
    verdict = code(catalogue.VERDICT, numbers(VERDICTS))
    since = fold(catalogue.VERDICT_SINCE)
    links = (places.diagnosis(HERE), places.history(HERE))
    return (
        Panel(
            "Verdict now",
            "What holds the deployment back. A click leads to its evidence, its culprits and what to do.",
            Kind.NUMBER,
            (Query(verdict, "{{deployment}}", is_instant=True),),
            width=8,
            height=4,
            states=VERDICTS,
            links=(Link("Verdicts", places.page("verdicts.md")),),
            data_links=links,
        ),
        Panel(
            "Confidence",
            "Of the verdict. At low, nothing is alerted on: see below which data are missing.",
            Kind.NUMBER,
            (Query(code(catalogue.CONFIDENCE, numbers(CONFIDENCES)), "{{deployment}}", is_instant=True),),
            width=4,
            height=4,
            states=CONFIDENCES,
        ),
        Panel(
            "For",
            "How long the verdict has held.",
            Kind.NUMBER,
            (Query(f"time() - {since}", "{{deployment}}", is_instant=True),),
            Unit.SECONDS,
            width=4,
            height=4,
        ),
        Panel(
            "Age of the diagnosis",
            "How old all of this is. Some seconds; more means that pdscope hangs or is not scraped.",
            Kind.NUMBER,
            (Query(f"time() - {fold(catalogue.DIAGNOSIS_TIMESTAMP)}", "{{deployment}}", is_instant=True),),
            Unit.SECONDS,
            width=4,
            height=4,
            links=(Link("Stale", places.page("runbooks/PdscopeDiagnosisStale.md")),),
        ),
        Panel(
            "Changes of the verdict",
            "In the range that is shown. Many: the deployment stands at a limit, or two causes take turns.",
            Kind.NUMBER,
            (Query(fold(catalogue.VERDICT_SINCE, over="changes({}[$__range])"), "{{deployment}}", is_instant=True),),
            width=4,
            height=4,
        ),
        Panel(
            "Verdict",
            "When it changed, and for how long each held.",
            Kind.STATES,
            (Query(verdict, "verdict"),),
            width=24,
            height=4,
            states=VERDICTS,
            links=(Link("Verdicts", places.page("verdicts.md")),),
            data_links=links,
        ),
        Panel(
            "Phase",
            "The phase is where the medians stand against their objectives and nothing else: it says which users "
            "suffer, the verdict says why. Both may point to different stages.",
            Kind.STATES,
            (Query(code(catalogue.PHASE, numbers(PHASES)), "phase"),),
            width=16,
            height=4,
            states=PHASES,
            data_links=links,
        ),
        Panel(
            "Confidence over time",
            "A drop without a change of the verdict is telemetry that was lost.",
            Kind.STATES,
            (Query(code(catalogue.CONFIDENCE, numbers(CONFIDENCES)), "confidence"),),
            width=8,
            height=4,
            states=CONFIDENCES,
        ),
    )


def _latency(latency: str) -> tuple[Query, ...]:
    lines = [Query(fold(_D[SignalId(f"{latency}_{q}_seconds")]), q) for q in _QUANTILES]
    objectives = [Query(fold(catalogue.SLO[f"{latency}_{q}_seconds"]), f"{OBJECTIVE} {q}") for q in _QUANTILES]
    return (*lines, *objectives)


def _objectives(places: Places) -> tuple[Panel, ...]:
    return (
        Panel(
            "Time to first token",
            "What users wait for the first token, over prefill, transfer and decode, against the dashed objectives. "
            "Prefill, the link or decode's admission can be the cause: rows 3 to 5 tell them apart.",
            Kind.LINES,
            _latency("ttft"),
            Unit.SECONDS,
        ),
        Panel(
            "Inter-token latency",
            "Between two tokens of an answer: decode's alone, against the dashed objectives.",
            Kind.LINES,
            _latency("itl"),
            Unit.SECONDS,
        ),
        Panel(
            "Within the objective",
            "Share of requests (TTFT) and of tokens (ITL) within the median's objective. It must stay above a half.",
            Kind.LINES,
            (signal_line(_S.TTFT_ATTAINMENT, "requests: TTFT"), signal_line(_S.ITL_ATTAINMENT, "tokens: ITL")),
            Unit.RATIO,
            is_share=True,
        ),
        one_signal(
            _S.STABILITY_WINDOW,
            "Stable for",
            "How long the p95 of both latencies has stayed near its median and within the objective; absent while it "
            "does not. Compare splits only over stable times.",
            12,
        ),
        one_signal(_S.REQUESTS_PER_SECOND, "Requests", "Those that finish. A fall while latencies grow is saturation."),
        one_signal(
            _S.PROMPT_TOKENS_PER_REQUEST,
            "Prompt length",
            "Mean tokens of a prompt. Long prompts cost prefill and the link; short ones gain nothing from the split.",
            8,
            Link("Workload mismatch", places.page("rules/workload_mismatch.md")),
        ),
        one_signal(_S.GENERATION_TOKENS_PER_SECOND, "Tokens generated", "By decode, in tokens a second."),
    )


def _headroom(places: Places) -> tuple[Panel, ...]:
    return (
        Panel(
            "Headroom",
            "Spare share of each resource at today's shape of traffic. The lowest line is the next bottleneck. A role "
            "with much of it beside one with none: sizes are wrong for each other.",
            Kind.LINES,
            (Query(fold(catalogue.HEADROOM, "resource"), "{{resource}}"),),
            Unit.RATIO,
            width=24,
            links=(Link("Sizes of the roles", places.page("rules/pd_ratio.md")),),
        ),
    )


def _changes(places: Places) -> tuple[Panel, ...]:
    wrong = {"rule": "!healthy|idle"}
    finding = fold(catalogue.FINDING_ACTIVE, "rule", matchers=wrong)
    lately = fold(catalogue.FINDING_ACTIVE, "rule", matchers=wrong, over="max_over_time({}[$__range] @ end())")
    by = "role, engine, engine_version, model"
    info = fold(catalogue.WORKER_INFO, "worker", *by.split(", "))
    return (
        Panel(
            "Findings",
            "All that was wrong at some time in this range, the verdict's cause and what stands beside it. What begins "
            "just before a change of the verdict is the first suspect.",
            Kind.STATES,
            (Query(f"{finding}\nand {lately} == 1", "{{rule}}"),),
            width=24,
            height=10,
            states=HOLDS,
            data_links=(places.diagnosis(HERE),),
        ),
        Panel(
            "Instances by role and version",
            "A step is an instance that came or went, or a release. Two versions of one role are a release under way.",
            Kind.LINES,
            (Query(f"count by ({by}) ({info})", "{{role}}: {{engine}} {{engine_version}}"),),
            width=12,
        ),
        Panel(
            "Sources that answer",
            "Pages that brought data, by their kind. What vanishes here cannot be seen by a rule, and lowers the "
            "confidence.",
            Kind.LINES,
            (Query(f"sum by (source) ({fold(catalogue.SOURCE_UP, 'target', 'source')})", "{{source}}"),),
            width=12,
            links=(Link("Source down", places.page("runbooks/PdscopeSourceDown.md")),),
        ),
    )
