"""The report as one HTML page that needs nothing else: no script, no font, no style from anywhere."""

from __future__ import annotations

from jinja2 import DictLoader, Environment, StrictUndefined

from pdscope.model.finding import Verdict
from pdscope.model.report import Report
from pdscope.render.json import timestamp
from pdscope.render.text import pending_words, report_text

_CALM = (Verdict.HEALTHY, Verdict.IDLE)
_BLIND = (Verdict.INSUFFICIENT_DATA, Verdict.METRICS_UNTRUSTED)

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{{ title }}</title>
<style>
body { font-family: system-ui, sans-serif; margin: 1.5rem; }
section { border-left: .4rem solid; padding-left: 1rem; margin: 1.5rem 0; }
.calm { border-color: #2a7f3f; } .blind { border-color: #888; } .trouble { border-color: #c0392b; }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.35; }
nav a { margin-right: 1rem; }
</style>
</head>
<body>
<h1>pdscope</h1>
<nav>{% for path, text in links %}<a href="{{ base }}{{ path }}">{{ text }}</a>{% endfor %}</nav>
{% block main %}{% endblock %}
</body>
</html>
"""
_DIAGNOSIS = """\
{% extends "page" %}{% block main %}
<p>{{ window }} s up to <time datetime="{{ at }}">{{ at }}</time></p>
{% for part in parts %}
<section class="{{ part.mood }}" id="{{ part.name }}">
<h2>{{ part.name }}: {{ part.verdict }}</h2>
<p>{{ part.summary }}</p>
<p>Since <time datetime="{{ part.since }}">{{ part.since }}</time>; confidence {{ part.confidence }}
{%- if part.pending %}; {{ part.pending.verdict }} is being confirmed ({{ part.pending_words }}){% endif %}.
<a href="{{ base }}/diagnose/history?deployment={{ part.name | urlencode }}">What was said before</a></p>
<pre>{{ part.text }}</pre>
</section>
{% endfor %}
{% endblock %}
"""
_INDEX = """\
{% extends "page" %}{% block main %}
<pre>{{ text }}</pre>
{% endblock %}
"""
_LINKS = (
    ("/diagnose", "Diagnosis"),
    ("/diagnose?format=json", "JSON"),
    ("/diagnose/history", "History"),
    ("/metrics", "Metrics"),
    ("/sd", "Targets"),
)


_TEMPLATES = Environment(
    loader=DictLoader({"page": _PAGE, "diagnosis": _DIAGNOSIS, "index": _INDEX}),
    autoescape=True,
    undefined=StrictUndefined,
)


def report_html(report: Report, *, base: str = "", deployment: str | None = None) -> str:
    """The page: for each deployment the answer, then the whole text.

    Args:
        report: of one cycle.
        base: what goes before the paths of links: a prefix or an address, without a slash at its end.
        deployment: only this one.
    """
    parts = [
        {
            "name": d.diagnosis.deployment,
            "verdict": d.diagnosis.verdict.value,
            "mood": _mood(d.diagnosis.verdict),
            "summary": d.diagnosis.summary,
            "since": timestamp(d.diagnosis.since),
            "confidence": d.diagnosis.confidence.value,
            "pending": d.diagnosis.pending,
            "pending_words": "" if d.diagnosis.pending is None else pending_words(d.diagnosis.pending),
            "text": report_text(report, deployment=d.diagnosis.deployment),
        }
        for d in report.deployments
        if deployment is None or d.deployment.name == deployment
    ]
    title = "pdscope: " + ", ".join(f"{part['name']} {part['verdict']}" for part in parts)
    return _TEMPLATES.get_template("diagnosis").render(
        title=title,
        links=_LINKS,
        base=base,
        window=f"{report.window_seconds:g}",
        at=timestamp(report.generated_at),
        parts=parts,
    )


def index_html(text: str, *, base: str = "") -> str:
    """The list of paths with links to those that a person reads."""
    return _TEMPLATES.get_template("index").render(title="pdscope", links=_LINKS, base=base, text=text)


def _mood(verdict: Verdict) -> str:
    return "calm" if verdict in _CALM else "blind" if verdict in _BLIND else "trouble"
