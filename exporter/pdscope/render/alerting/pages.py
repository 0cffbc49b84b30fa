"""The runbooks: what rules and remedies already say, put in the order in which somebody who was woken reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pdscope.diagnosis.base import Rule
from pdscope.diagnosis.engine import discover
from pdscope.model.signal import SignalId
from pdscope.pages import prose
from pdscope.render.alerting.alert import Alert, Runbook
from pdscope.render.alerting.settings import Settings
from pdscope.render.alerting.template import EVIDENCE_NAMES, metric_of, resource_matcher
from pdscope.render.pages import rule_page


@dataclass(frozen=True, slots=True)
class Pages:
    """Runbooks from the pages of rules.

    Attributes:
        rules: all, by their id.
    """

    rules: Mapping[str, Rule]

    @classmethod
    def installed(cls) -> Pages:
        """From the rules of this version."""
        return cls({rule.id: rule for rule in discover()})

    def of_rule(self, rule: str, impact: str, signals: Sequence[SignalId] = ()) -> Runbook:
        """The runbook of a rule's alert.

        Args:
            rule: its id.
            impact: what it does to users.
            signals: that show it, beside the two medians.

        Raises:
            KeyError: there is no such rule.
        """
        sections = _sections(rule_page(self.rules[rule], prose(rule)))
        return Runbook(
            meaning=f"{sections['What it means']}\n\nThe whole of it: [{rule}](../rules/{rule}.md).",
            impact=impact,
            diagnosis=(
                f"The finding `{rule}` has the evidence: each number with its threshold, its source and its age. What "
                f"is compared:\n\n{sections['Signals']}\n\n{_queries(signals)}"
                f"It may be wrong where one of these is true:\n\n{sections['False positives']}"
            ),
            mitigation=sections["Remedies and their cost"],
        )


def _sections(page: str) -> dict[str, str]:
    parts = page.split("\n## ")[1:]
    return {title: text.strip() for title, _, text in (part.partition("\n") for part in parts)}


def _queries(signals: Sequence[SignalId]) -> str:
    if not signals:
        return ""
    lines = "\n".join(
        f'{metric_of(signal)[0].name}{{deployment="NAME"{resource_matcher(signal)}}}  # {EVIDENCE_NAMES[signal]}'
        for signal in signals
    )
    return f"Over time, in Prometheus:\n\n```promql\n{lines}\n```\n\n"


def runbook_page(alert: Alert, settings: Settings) -> str:
    """The page of an alert, as Markdown; its diagnosis begins with the call of /diagnose."""
    book = alert.runbook
    deployment = "deployment=NAME&" if alert.of_deployment else ""
    call = f"```sh\ncurl '{settings.diagnose_url}/diagnose?{deployment}format=text'\n```"
    where = (
        "The annotation `diagnose_url` of the alert has the address with the deployment's name in it."
        if alert.of_deployment
        else "The annotation `diagnose_url` of the alert has the address."
    )
    firings = "\n".join(
        f"- `{f.severity}`: after {settings.span(f.for_seconds)}, and until {settings.span(f.keep_seconds)} later."
        for f in alert.firings
    )
    return (
        f"# {alert.name}\n\n{alert.summary}\n\n{firings}\n"
        f"\n## Meaning\n\n{book.meaning}\n"
        f"\n## Impact\n\n{book.impact}\n"
        f"\n## Diagnosis\n\n{call}\n\n{where}\n\n{book.diagnosis}\n"
        f"\n## Mitigation\n\n{book.mitigation}\n"
    )


def index_page(alerts: Sequence[Alert], settings: Settings) -> str:
    """All alerts in one table."""
    rows = "\n".join(f"| [{a.name}]({a.name}.md) | {_severities(a, settings)} | {a.summary} |" for a in alerts)
    head = "# Runbooks\n\nOne an alert. In brackets, how long the condition holds before the alert fires.\n\n"
    return f"{head}| alert | severity | says |\n|---|---|---|\n{rows}\n"


def _severities(alert: Alert, settings: Settings) -> str:
    return ", ".join(f"`{firing.severity}` ({settings.span(firing.for_seconds)})" for firing in alert.firings)
