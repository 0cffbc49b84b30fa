"""rules/standalone.yml: parameters, recording rules and alerts, and what the shared runbooks say of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from pdscope.model.finding import Verdict
from pdscope.render.alerting.pack import as_yaml
from pdscope.render.alerting.promql import Recorded
from pdscope.render.alerting.settings import Settings
from pdscope.render.standalone import parameters
from pdscope.render.standalone.alerts import alert_rules, runbook, standalone_name
from pdscope.render.standalone.engines import Reader
from pdscope.render.standalone.parameters import EXAMPLE, Parameters
from pdscope.render.standalone.verdicts import VERDICTS, rulebook

PATH = "rules/standalone.yml"
_HEAD = """\
# Written by scripts/generate_rules.py. Edit exporter/pdscope/render/standalone.
#
# pdscope without pdscope: phase, KV demand against capacity, and the verdicts that the engines' own series can give.
# SGLang and vLLM are read, in both spellings of their names (sglang:, sglang_). docs/standalone-rules.md explains it.
#
# Wanted of each series of an engine: the labels deployment, role (prefill, decode, unified or router) and {worker}.
# pdscope's /sd gives them; so does relabelling.
#
# ---------------------------------------------------------------------------------------------------------------------
# EDIT THE FIRST GROUP, and nothing else: one block a deployment. Or let the file be written from a pdscope.yml:
#   .venv/bin/python scripts/generate_rules.py --output ./mine --standalone-config pdscope.yml
# What is taken out of it stays without a verdict; nothing is assumed in its place.
# ---------------------------------------------------------------------------------------------------------------------
"""


@dataclass(frozen=True, slots=True)
class Standalone:
    """What may differ from one file to the next.

    Attributes:
        settings: labels that tell deployments of one name apart, addresses, time scale.
        deployments: their parameters.
        window_seconds: over which rates and means are taken; at least four scrapes.
        interval_seconds: how often the rules are evaluated; None: as the server does it.
        worker: label that tells the instances of a deployment apart.
    """

    settings: Settings = field(default_factory=Settings)
    deployments: Sequence[Parameters] = (EXAMPLE,)
    window_seconds: float = 120.0
    interval_seconds: float | None = None
    worker: str = "worker"


def standalone_file(made: Standalone) -> str:
    """The text of rules/standalone.yml.

    Raises:
        ValueError: two deployments have one name, or a threshold is none of the daemon's.
    """
    names = [p.deployment for p in made.deployments]
    if len(set(names)) != len(names):
        raise ValueError("two deployments have the same name")
    records = rulebook(Reader(made.settings, made.worker, made.window_seconds)).records
    interval = {} if made.interval_seconds is None else {"interval": made.settings.span(made.interval_seconds)}
    told = "\n".join(_parameter_lines(made.deployments))
    every = "".join(f"  {line}\n" for line in as_yaml(interval).splitlines()) if interval else ""
    groups = [
        {"name": "pdscope.standalone.rules", **interval, "rules": [_recording_rule(r) for r in records]},
        {"name": "pdscope.standalone.alerts", **interval, "rules": list(alert_rules(made.settings))},
    ]
    return (
        f"{_HEAD.format(worker=made.worker)}groups:\n- name: pdscope.standalone.parameters\n{every}  rules:\n{told}\n"
        f"{as_yaml(groups)}"
    )


def with_notes(runbooks: Mapping[str, str]) -> dict[str, str]:
    """The runbooks (path -> text), those that serve these alerts too with a note that says so."""
    notes = {f"docs/runbooks/{runbook(verdict)}": _note(verdict) for verdict in VERDICTS}
    missing = sorted(set(notes) - set(runbooks))
    if missing:
        raise ValueError(f"there is no {', '.join(missing)}")
    return {path: text + notes.get(path, "") for path, text in runbooks.items()}


def _note(verdict: Verdict) -> str:
    return (
        f"\nThis page serves `{standalone_name(verdict)}` of `rules/standalone.yml` too. Where that fires there may be "
        "no daemon to ask: then look at the series `pdscope_standalone:*` of the deployment, which "
        "`docs/standalone-rules.md` lists.\n"
    )


def _recording_rule(recorded: Recorded) -> dict[str, object]:
    rule: dict[str, object] = {"record": recorded.name, "expr": recorded.expr}
    return {**rule, "labels": {name: str(value) for name, value in recorded.static}} if recorded.static else rule


def _parameter_lines(deployments: Sequence[Parameters]) -> Iterator[str]:
    """With comments, which YAML libraries do not write; each is said once a deployment."""
    for deployment in deployments:
        yield f"  # ---- {deployment.deployment} ----"
        before = ""
        for why, rule in parameters.rules(deployment):
            if why != before:
                yield from (f"  # {line}" for line in wrap(why, 116))
            before = why
            body = as_yaml([rule])
            yield from (f"  {line}" for line in body.splitlines())
