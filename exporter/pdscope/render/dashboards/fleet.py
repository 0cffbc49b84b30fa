"""The board of all deployments: who is in trouble, with what, and whether pdscope itself is well."""

from __future__ import annotations

from pdscope.model.signal import SignalId
from pdscope.render import catalogue
from pdscope.render.dashboards.board import Board, Row
from pdscope.render.dashboards.panel import Kind, Link, Panel, Unit
from pdscope.render.dashboards.places import Places
from pdscope.render.dashboards.query import IDENTITY, RATE_WINDOW, Query, Variable, code, fold, pick
from pdscope.render.dashboards.scope import clusters, deployments
from pdscope.render.dashboards.states import CONFIDENCES, GREEN, RED, VERDICTS, State, numbers

_S = SignalId
_D = catalogue.DEPLOYMENT_SIGNALS
_QUIET = "!healthy|idle|insufficient_data|metrics_untrusted|undetermined"
_BLIND = "insufficient_data|metrics_untrusted|undetermined"
_RELOAD = (State(0, "old configuration", RED), State(1, "as configured", GREEN))


def fleet(places: Places) -> Board:
    """The board."""
    return Board(
        name="fleet",
        title="pdscope / Fleet",
        description="All deployments: what holds each of them back, and how near its limits it is.",
        variables=(*clusters(), _deployment()),
        rows=(
            Row("Verdicts", _verdicts(places)),
            Row("Objectives and limits", _limits(places)),
            Row("pdscope itself", _own(places)),
        ),
        pdscope_url=places.pdscope_url,
        links=(Link("What pdscope says now", places.home()),),
    )


def _deployment() -> Variable:
    return deployments(catalogue.DIAGNOSIS_TIMESTAMP, is_multi=True)


def _verdicts(places: Places) -> tuple[Panel, ...]:
    verdict = code(catalogue.VERDICT, numbers(VERDICTS))
    return (
        Panel(
            "Deployments",
            "How many pdscope judges now. Fewer than you run: the others are not in its configuration.",
            Kind.NUMBER,
            (Query(f"count({fold(catalogue.DIAGNOSIS_TIMESTAMP)})", "deployments", is_instant=True),),
            width=4,
            height=5,
        ),
        Panel(
            "With a bottleneck",
            "Deployments whose verdict blames a stage. Not every one breaks an objective: see below which does.",
            Kind.NUMBER,
            (
                Query(
                    f"sum({fold(catalogue.VERDICT, 'verdict', matchers={'verdict': _QUIET})})",
                    "with a bottleneck",
                    is_instant=True,
                ),
            ),
            width=4,
            height=5,
            links=(Link("Verdicts", places.page("verdicts.md")),),
        ),
        Panel(
            "Without an answer",
            "Deployments of which nothing can be said: data are missing, contradict each other, or explain nothing.",
            Kind.NUMBER,
            (
                Query(
                    f"sum({fold(catalogue.VERDICT, 'verdict', matchers={'verdict': _BLIND})})",
                    "without an answer",
                    is_instant=True,
                ),
            ),
            width=4,
            height=5,
            links=(Link("Insufficient data", places.page("runbooks/PdscopeInsufficientData.md")),),
        ),
        Panel(
            "Deployments by verdict",
            "Several that change to one verdict at once share a cause: a network, a release, a router.",
            Kind.LINES,
            (Query(f"sum by (verdict) ({fold(catalogue.VERDICT, 'verdict')}) > 0", "{{verdict}}"),),
            width=12,
            height=5,
            states=VERDICTS,
            links=(Link("Verdicts", places.page("verdicts.md")),),
        ),
        Panel(
            "Verdict of each deployment",
            "One line a deployment. Look for the moment of a change and what else changed then; a click leads to the "
            "walk through that deployment and to what pdscope says of it.",
            Kind.STATES,
            (Query(verdict, "{{deployment}}"),),
            width=24,
            height=9,
            states=VERDICTS,
            links=(Link("Verdicts", places.page("verdicts.md")),),
            data_links=(places.walk("${__field.labels.deployment}"), places.diagnosis("${__field.labels.deployment}")),
        ),
        Panel(
            "Now",
            "Latencies as users wait them; the verdict with its confidence. Sort by the share of the link in use to "
            "find who is next.",
            Kind.TABLE,
            (
                Query(verdict, is_instant=True, name="verdict"),
                Query(
                    code(catalogue.CONFIDENCE, numbers(CONFIDENCES)),
                    is_instant=True,
                    name="confidence",
                ),
                *(Query(fold(_D[s]), is_instant=True, name=s.value) for s in _COLUMNS),
            ),
            width=24,
            height=9,
            columns={"deployment": "Deployment", "verdict": "Verdict", "confidence": "Confidence"}
            | {s.value: title for s, (title, _) in _COLUMNS.items()},
            column_units={"Verdict": (Unit.NUMBER, VERDICTS), "Confidence": (Unit.NUMBER, CONFIDENCES)}
            | {title: (unit, ()) for title, unit in _COLUMNS.values()},
            data_links=(
                places.walk("${__data.fields.Deployment}"),
                places.diagnosis("${__data.fields.Deployment}"),
            ),
        ),
    )


_COLUMNS = {
    _S.TTFT_P50: ("TTFT p50", Unit.SECONDS),
    _S.ITL_P50: ("ITL p50", Unit.SECONDS),
    _S.REQUESTS_PER_SECOND: ("Requests/s", Unit.REQUESTS_PER_SECOND),
    _S.LINK_UTILIZATION: ("Link in use", Unit.RATIO),
}


def _limits(places: Places) -> tuple[Panel, ...]:
    def by_objective(signal: SignalId) -> Query:
        return Query(f"{fold(_D[signal])} / {fold(catalogue.SLO[signal.value])}", "{{deployment}}")

    return (
        Panel(
            "TTFT p50 by its objective",
            "Above 1 the objective is broken. A step that stays is a change of load or release; a slope is a queue.",
            Kind.LINES,
            (by_objective(_S.TTFT_P50),),
        ),
        Panel(
            "ITL p50 by its objective",
            "Above 1 decode is too slow for its users. TTFT can be fine meanwhile.",
            Kind.LINES,
            (by_objective(_S.ITL_P50),),
        ),
        Panel(
            "Link in use",
            "KV demand by what the interconnect can carry. Towards 100 % the wait for the first token grows without "
            "bound, and more prefill or decode makes it worse.",
            Kind.LINES,
            (Query(fold(_D[_S.LINK_UTILIZATION]), "{{deployment}}"),),
            unit=Unit.RATIO,
            links=(Link("Transfer bandwidth", places.page("rules/kv_transfer_bandwidth.md")),),
        ),
        Panel(
            "Least headroom",
            "Spare share of whichever resource is scarcest: link, prefill, decode's slots or its KV memory.",
            Kind.LINES,
            (Query(f"min by ({', '.join(IDENTITY)}) ({fold(catalogue.HEADROOM, 'resource')})", "{{deployment}}"),),
            unit=Unit.RATIO,
            links=(Link("Sizes of the roles", places.page("rules/pd_ratio.md")),),
        ),
    )


def _own(places: Places) -> tuple[Panel, ...]:
    failures = pick(catalogue.RULE_FAILURES, of_deployment=False)
    return (
        Panel(
            "Age of the diagnosis",
            "How old what you see is. It stays below a few intervals of scraping; a line that climbs is a pdscope that "
            "hangs.",
            Kind.LINES,
            (Query(f"time() - {fold(catalogue.DIAGNOSIS_TIMESTAMP)}", "{{deployment}}"),),
            unit=Unit.SECONDS,
            width=8,
            links=(Link("Stale", places.page("runbooks/PdscopeDiagnosisStale.md")),),
        ),
        Panel(
            "Time of a diagnosis",
            "Of all deployments together. It should be small beside the interval of scraping.",
            Kind.LINES,
            (Query(fold(catalogue.DIAGNOSIS_DURATION, of_deployment=False), "slowest replica"),),
            unit=Unit.SECONDS,
            width=8,
        ),
        Panel(
            "Failed evaluations of rules",
            "Zero. Anything else is a fault of pdscope, and the log has its trace.",
            Kind.LINES,
            (Query(f"sum(increase({failures}[{RATE_WINDOW}]))", "failures"),),
            width=4,
            links=(Link("Rule failures", places.page("runbooks/PdscopeRuleFailures.md")),),
        ),
        Panel(
            "Configuration",
            "Whether the last reading of it succeeded; where it did not, the one before is still in force.",
            Kind.NUMBER,
            (Query(f"min({pick(catalogue.CONFIG_RELOAD, of_deployment=False)})", "last reading", is_instant=True),),
            width=4,
            states=_RELOAD,
            links=(Link("Failed", places.page("runbooks/PdscopeConfigReloadFailed.md")),),
        ),
        Panel(
            "Replicas and versions",
            "Each replica by its version. Two versions at once are a release under way.",
            Kind.TABLE,
            (
                Query(
                    f"count by (version, python_version) ({pick(catalogue.BUILD_INFO, of_deployment=False)})",
                    is_instant=True,
                    name="replicas",
                ),
            ),
            width=24,
            height=4,
            columns={"version": "Version", "python_version": "Python", "replicas": "Replicas"},
        ),
    )
