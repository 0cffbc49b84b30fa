"""The files: rules for Prometheus, the same for its operator, an example for Alertmanager, and the runbooks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from pdscope.diagnosis.engine import discover
from pdscope.render.alerting.alert import Alert, Severity, rules_of
from pdscope.render.alerting.beside import finding_alerts
from pdscope.render.alerting.inhibition import inhibit_rules
from pdscope.render.alerting.meta import meta_alerts
from pdscope.render.alerting.pages import Pages, index_page, runbook_page
from pdscope.render.alerting.promql import Recorded
from pdscope.render.alerting.recording import recording
from pdscope.render.alerting.settings import Settings
from pdscope.render.alerting.verdicts import verdict_alerts

NOTE = "Written by scripts/generate_rules.py. Edit exporter/pdscope/render/alerting and the rules of the diagnosis."


@dataclass(frozen=True, slots=True)
class Pack:
    """All rules of one rendering."""

    settings: Settings
    recorded: tuple[Recorded, ...]
    groups: Mapping[str, tuple[Alert, ...]]

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Of all groups."""
        return tuple(alert for group in self.groups.values() for alert in group)


def pack(settings: Settings) -> Pack:
    """The rules of this version."""
    recorded, pages = recording(settings), Pages.installed()
    groups = {
        "pdscope.alerts": (*verdict_alerts(settings, recorded, pages), *finding_alerts(settings, recorded, pages)),
        "pdscope.meta": meta_alerts(settings, recorded),
    }
    return Pack(settings, recorded.all, groups)


def rule_files(made: Pack) -> dict[str, str]:
    """Path in the repository -> text, of what Prometheus and Alertmanager read."""
    recording_groups = [{"name": "pdscope.rules", "rules": [_recording_rule(r) for r in made.recorded]}]
    alert_groups = [
        {"name": name, "rules": [rule for alert in alerts for rule in rules_of(alert, made.settings)]}
        for name, alerts in made.groups.items()
    ]
    return {
        "rules/recording.yml": _yaml({"groups": recording_groups}),
        "rules/alerts.yml": _yaml({"groups": alert_groups}),
        "rules/alertmanager.example.yml": _yaml(_alertmanager(made)),
        "deploy/prometheusrule.yaml": _yaml(
            {
                "apiVersion": "monitoring.coreos.com/v1",
                "kind": "PrometheusRule",
                "metadata": {"name": "pdscope", "labels": {"app.kubernetes.io/name": "pdscope"}},
                "spec": {"groups": recording_groups + alert_groups},
            }
        ),
    }


def runbook_files(made: Pack) -> dict[str, str]:
    """Path in the repository -> text, of the runbooks and their table."""
    note = f"<!-- {NOTE} -->\n\n"
    pages = {f"docs/runbooks/{alert.name}.md": note + runbook_page(alert, made.settings) for alert in made.alerts}
    return {**pages, "docs/runbooks/README.md": note + index_page(made.alerts, made.settings)}


def _recording_rule(recorded: Recorded) -> dict[str, object]:
    rule: dict[str, object] = {"record": recorded.name, "expr": recorded.expr}
    return {**rule, "labels": dict(recorded.static)} if recorded.static else rule


def _alertmanager(made: Pack) -> dict[str, object]:
    ours = 'alertname=~"Pdscope.+"'
    at_once = f'severity=~"{Severity.CRITICAL}|{Severity.PAGE}"'
    severities = {alert.name: tuple(f.severity for f in alert.firings) for alert in made.alerts}
    return {
        "route": {
            "receiver": "default",
            "routes": [
                {
                    "receiver": "pdscope-ticket",
                    "matchers": [ours],
                    "group_by": ["alertname", *made.settings.identity],
                    "group_wait": made.settings.span(30),
                    "group_interval": made.settings.span(300),
                    "repeat_interval": made.settings.span(12 * 3600),
                    "routes": [
                        {
                            "receiver": "pdscope-page",
                            "matchers": [at_once],
                            # One page a deployment, whatever is wrong with it.
                            "group_by": list(made.settings.identity),
                            "group_wait": made.settings.span(15),
                            "repeat_interval": made.settings.span(4 * 3600),
                        },
                        {"receiver": "pdscope-nobody", "matchers": [f'severity="{Severity.INFO}"']},
                    ],
                }
            ],
        },
        "inhibit_rules": inhibit_rules(made.settings, severities, discover()),
        "receivers": [
            {"name": "default"},
            {"name": "pdscope-page", "webhook_configs": [{"url": "http://127.0.0.1:9095/page"}]},
            {"name": "pdscope-ticket", "webhook_configs": [{"url": "http://127.0.0.1:9095/ticket"}]},
            {"name": "pdscope-nobody"},
        ],
    }


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def as_yaml(document: object) -> str:
    """Plain YAML in the order given; text of several lines as a block."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return text


def _yaml(document: Mapping[str, object]) -> str:
    return f"# {NOTE}\n{as_yaml(document)}"
