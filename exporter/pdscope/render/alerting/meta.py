"""Alerts on pdscope itself: when nothing else can be relied on to fire."""

from __future__ import annotations

from pdscope.model.finding import Stage, Verdict
from pdscope.render import catalogue
from pdscope.render.alerting import template
from pdscope.render.alerting.alert import Alert, Firing, Runbook, Severity
from pdscope.render.alerting.promql import select
from pdscope.render.alerting.recording import Recording
from pdscope.render.alerting.settings import Settings
from pdscope.render.alerting.verdicts import KEEP_SECONDS, VERDICT_SHARE, WINDOW_SECONDS, broken

_TARGET = "{{ $labels.target }} ({{ $labels.source }}) of deployment {{ $labels.deployment }}"
_SILENT = "Alerts on verdicts cannot fire."


def meta_alerts(settings: Settings, recorded: Recording) -> tuple[Alert, ...]:
    """All of them; none pages, since none says that a user waits."""
    return (
        _exporter_down(settings),
        _replica_down(settings),
        _diagnosis_stale(settings),
        _replica_stale(settings),
        _replicas_disagree(settings, recorded),
        _low_confidence(settings, recorded),
        _source_down(settings),
        _schema_drift(settings),
        _rule_failures(settings),
        _reload_failed(settings),
    )


def _warning(expr: str, for_seconds: float) -> tuple[Firing, ...]:
    return (Firing(Severity.WARNING, expr, for_seconds, KEEP_SECONDS / 2),)


def _exporter_down(settings: Settings) -> Alert:
    build = select(catalogue.BUILD_INFO)
    return Alert(
        name="PdscopeExporterDown",
        firings=_warning(f"absent(last_over_time({build}[{settings.span(120)}]))", 180.0),
        summary="No replica of pdscope answers.",
        description="Prometheus has no series `" + build + "` {{ with $externalLabels.cluster }}of cluster {{ . }} "
        "{{ end }}any more: every replica of pdscope is down, or is not scraped.",
        runbook=Runbook(
            meaning="Prometheus has had nothing from any pdscope for some minutes.",
            impact=f"{_SILENT} The engines are not touched by it.",
            diagnosis="- No answer: is the process there, and does it listen? Its log ends with the reason.\n"
            "- An answer: Prometheus does not scrape it. Look at the target in Prometheus' page of targets.\n"
            "- 503: it has not tried every target once; wait for one interval of scraping.",
            mitigation="- Start it again; `pdscope check-config FILE` says whether the configuration is at fault.\n"
            "- Where it is not to run any more, take these rules out.",
        ),
        of_deployment=False,
    )


def _replica_down(settings: Settings) -> Alert:
    keep = ", ".join((*settings.keep_labels, "job"))
    known = f"last_over_time({select(catalogue.BUILD_INFO)}[{settings.span(3600)}])"
    return Alert(
        name="PdscopeReplicaDown",
        firings=_warning(f"count by ({keep}) (up == 0 and on (job, instance) {known})", 300.0),
        summary="A replica of pdscope does not answer.",
        description="{{ $value }} replicas of pdscope of job {{ $labels.job }} have been scraped within the hour and "
        "do not answer.",
        runbook=Runbook(
            meaning="A target that was pdscope within the last hour is down.",
            impact="None while another replica answers.",
            diagnosis="The call above reaches a replica that lives. Which target is down, Prometheus says:\n\n"
            f"```promql\nup == 0 and on (job, instance) {known}\n```",
            mitigation="Start the replica again. One that was taken away on purpose is forgotten after an hour.",
        ),
        of_deployment=False,
    )


def _diagnosis_stale(settings: Settings) -> Alert:
    newest = f"time() - max {settings.by()} ({select(catalogue.DIAGNOSIS_TIMESTAMP)})"
    return Alert(
        name="PdscopeDiagnosisStale",
        firings=_warning(f"{newest} > {settings.stale_after_seconds:g}", 60.0),
        summary="No replica of pdscope has diagnosed the deployment lately.",
        description="The last diagnosis of deployment {{ $labels.deployment }} is {{ $value | humanizeDuration }} old.",
        runbook=Runbook(
            meaning="pdscope answers Prometheus but has ended no cycle of scraping and diagnosis for some time. What "
            "it exports is of then; these rules ignore it.",
            impact=_SILENT,
            diagnosis="`generated_at` in the answer is the time of the last cycle. `&debug=true` adds the log of "
            f"scrapes. `{catalogue.DIAGNOSIS_DURATION.name}` is the time that a diagnosis takes: near the interval of "
            "scraping, the daemon is short of CPU.",
            mitigation="- Restart it; send its log with a report.\n- Give it more CPU, or share the deployments "
            "between several daemons (`--shard`).",
        ),
    )


def _replica_stale(settings: Settings) -> Alert:
    stamp = select(catalogue.DIAGNOSIS_TIMESTAMP)
    return Alert(
        name="PdscopeReplicaStale",
        firings=_warning(
            f"max {settings.by()} ({stamp}) - min {settings.by()} ({stamp}) > {settings.stale_after_seconds:g}", 300.0
        ),
        summary="A replica of pdscope is behind the others.",
        description="A replica's diagnosis of deployment {{ $labels.deployment }} is {{ $value | humanizeDuration }} "
        "older than another's.",
        runbook=Runbook(
            meaning="One replica goes on, another exports an old answer.",
            impact="None: what is old is left out of the rules. A browser may be shown the old answer.",
            diagnosis="The call may reach either replica. Which one is behind:\n\n"
            f"```promql\ntime() - {select(catalogue.DIAGNOSIS_TIMESTAMP, deployment='NAME')}\n```",
            mitigation="Restart the replica that is behind; send its log with a report.",
        ),
    )


def _replicas_disagree(settings: Settings, recorded: Recording) -> Alert:
    window = settings.span(WINDOW_SECONDS)
    return Alert(
        name="PdscopeReplicasDisagree",
        firings=_warning(
            f"avg_over_time((sum {settings.by()} ({select(recorded.verdict)}))[{window}:]) > {1 + VERDICT_SHARE:g}",
            600.0,
        ),
        summary="Replicas of pdscope give different verdicts.",
        description=f"{template.preamble(settings)}Of deployment {{{{ $labels.deployment }}}} replicas say:\n"
        f'{{{{- range printf `{recorded.verdict.name}{{%s}} == 1` $of | query | sortByLabel "verdict" }}}}'
        " {{ .Labels.verdict }}{{ end }}.",
        runbook=Runbook(
            meaning="Replicas that judge the same deployment at the same time come to different answers.",
            impact="Alerts fire for both answers.",
            diagnosis="Ask every replica, at its own address. They differ in their configuration, in what they reach "
            "over the network, or in how long they have run.",
            mitigation="Give both the same configuration and the same reach.",
        ),
    )


def _low_confidence(settings: Settings, recorded: Recording) -> Alert:
    window = settings.span(WINDOW_SECONDS)
    blaming = "|".join(verdict for verdict in Verdict if verdict.stage is not Stage.NONE)
    said, sure = (f'{r.name}{{verdict=~"{blaming}"}}' for r in (recorded.verdict, recorded.confident))
    return Alert(
        name="PdscopeLowConfidence",
        firings=_warning(
            f"sum {settings.by()} (avg_over_time({said}[{window}]) - avg_over_time({sure}[{window}])) "
            f"> {VERDICT_SHARE:g}\nand {settings.on()} {broken(settings, recorded)}",
            600.0,
        ),
        summary="An objective is broken, and the verdict lacks a decisive signal.",
        description=f"{template.preamble(settings)}Deployment {{{{ $labels.deployment }}}}: what limits it hangs on a "
        f"signal that is missing.{template.broken(recorded.objectives[0], recorded.unserved)}{template.evidence(())}",
        runbook=Runbook(
            meaning="pdscope has a verdict, but says it with confidence `low`: a decisive signal is missing and the "
            "rest points one way. No alert of that verdict fires.",
            impact="Users wait longer than promised, and nobody is paged for it by these rules.",
            diagnosis="`missing` of the first finding names the signals, and the next steps say how to get them. "
            "`pdscope doctor` says of every target what it yields and what not.",
            mitigation="Bring the missing signal; until then, take the verdict as a guess and look at its evidence.",
        ),
    )


def _source_down(settings: Settings) -> Alert:
    up = select(catalogue.SOURCE_UP)
    labels = settings.by("target", "source")
    return Alert(
        name="PdscopeSourceDown",
        firings=_warning(f"max {labels} (max_over_time({up}[{settings.span(120)}])) == 0", 600.0),
        summary="A target of pdscope brings no data.",
        description=f"No replica of pdscope has had data from {_TARGET} for some minutes.",
        runbook=Runbook(
            meaning="Every scrape of an engine or of a device exporter fails.",
            impact="Signals of this target are unknown; verdicts that need them are not given, or with less "
            "confidence.",
            diagnosis="`&debug=true` adds the log of scrapes with the reason of each failure; by reason:\n\n"
            f"```promql\nincrease({select(catalogue.SOURCE_FAILURES, deployment='NAME')}[10m]) > 0\n```\n\n"
            "`pdscope doctor --config.file FILE` tries every target and says what is wrong.",
            mitigation="- Not reachable: address, firewall, TLS, credentials.\n"
            "- Too slow: raise `scrape.timeout` of the target.\n- Gone on purpose: take it out of the configuration.",
        ),
    )


def _schema_drift(settings: Settings) -> Alert:
    missing = select(catalogue.SOURCE_MISSING)
    labels = settings.by("target", "source")
    return Alert(
        name="PdscopeSchemaDrift",
        firings=_warning(f"max {labels} (min_over_time({missing}[{settings.span(300)}])) > 0", 300.0),
        summary="A page lacks metrics that its program should have.",
        description=f"{{{{ $value }}}} metrics that every program of its version and role has are missing "
        f"from {_TARGET}.",
        runbook=Runbook(
            meaning="An engine or a device exporter was upgraded and has renamed metrics, or has them switched off.",
            impact="Rules that need them answer unknown; a verdict may be missing or have less confidence.",
            diagnosis="`pdscope doctor --config.file FILE` lists for every target the metrics that are missing and how "
            "to switch each on.",
            mitigation="- Switched off: the option is in the page of the engine under docs/engines.\n"
            "- Renamed: upgrade pdscope to a version that knows the engine's; `pdscope capture` makes the attachment "
            "of a report.",
        ),
    )


def _rule_failures(settings: Settings) -> Alert:
    failures = select(catalogue.RULE_FAILURES)
    return Alert(
        name="PdscopeRuleFailures",
        firings=_warning(
            f"sum by ({', '.join((*settings.keep_labels, 'rule'))}) (increase({failures}[{settings.span(600)}])) > 0",
            60.0,
        ),
        summary="A rule of pdscope raises: a bug.",
        description="The rule {{ $labels.rule }} has raised {{ $value | humanize }} times within "
        f"{settings.span(600)}; what it would say is missing from all answers.",
        runbook=Runbook(
            meaning="An evaluation of a rule ended with an exception. The other rules ran.",
            impact="A cause that only this rule names goes unnamed, and no confidence is `high`.",
            diagnosis="The log of pdscope has the traceback.",
            mitigation="Upgrade, or report it with the traceback and a bundle of `pdscope capture`.",
        ),
        of_deployment=False,
    )


def _reload_failed(settings: Settings) -> Alert:
    state = f"max_over_time({select(catalogue.CONFIG_RELOAD)}[{settings.span(120)}])"
    by = f"by ({', '.join(settings.keep_labels)}) " if settings.keep_labels else ""
    return Alert(
        name="PdscopeConfigReloadFailed",
        firings=_warning(f"count {by}({state} == 0)", 300.0),
        summary="The configuration of pdscope is wrong and was not taken.",
        description="{{ $value }} replicas of pdscope run on with their old configuration: the new one has an error.",
        runbook=Runbook(
            meaning="The last reload met an error in the file.",
            impact="None yet: the old configuration holds. A restart would fail.",
            diagnosis="The log of pdscope has the path in the file and the reason; so has `pdscope check-config FILE`.",
            mitigation="Mend the file, then `POST /-/reload`.",
        ),
        of_deployment=False,
    )
