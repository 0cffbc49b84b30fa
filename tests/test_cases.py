"""Whole bundles, from bytes to words: captured runs and field cases, each with what a good diagnosis says of it."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdscope.diagnosis.remedies import adds_instances
from pdscope.model.finding import Confidence, Diagnosis, Finding, Stage, Truth, Verdict
from pdscope.model.report import DeploymentReport
from pdscope.model.signal import SignalId
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.plugins import load_plugins

FIXTURES = Path(__file__).parent / "fixtures"
PLUGINS = load_plugins()
RULES = {rule.id for rule in PLUGINS.rules}
WITHOUT_FINDING = {Verdict.HEALTHY, Verdict.IDLE, Verdict.INSUFFICIENT_DATA}
"""They say what is not there."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle and what is expected of it."""

    path: Path
    expect: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(".tar.gz")

    def listed(self, key: str) -> list[str]:
        """One name or several."""
        value = self.expect.get(key, [])
        return value if isinstance(value, list) else [value]

    @property
    def judged(self) -> bool:
        """A run always; a case once some rule can give the verdict that its story mainly means."""
        return self.path.is_dir() or self.listed("verdict")[0] in RULES


def bundles() -> list[Bundle]:
    cases = yaml.safe_load((FIXTURES / "cases" / "expect.yaml").read_text(encoding="utf-8"))
    runs = [path for path in sorted((FIXTURES / "runs").iterdir()) if path.is_dir()]
    expected = [yaml.safe_load((run / "expect.yaml").read_text(encoding="utf-8"))["expect"] for run in runs]
    return [
        *(Bundle(run, expect) for run, expect in zip(runs, expected, strict=True)),
        *(Bundle(FIXTURES / "cases" / f"{name}.tar.gz", expect) for name, expect in cases.items()),
    ]


ALL = bundles()
JUDGED = [bundle for bundle in ALL if bundle.judged]
every_bundle = pytest.mark.parametrize("bundle", ALL, ids=lambda bundle: bundle.name)
judged_bundle = pytest.mark.parametrize("bundle", JUDGED, ids=lambda bundle: bundle.name)


@functools.cache
def report_of(path: Path) -> DeploymentReport:
    report, _ = diagnose_bundle(path, PLUGINS)
    assert not any(report.rule_failures.values()), report.rule_failures
    (only,) = report.deployments
    return only


def answer(bundle: Bundle) -> Diagnosis:
    return report_of(bundle.path).diagnosis


def holding(bundle: Bundle) -> list[Finding]:
    return [f for f in answer(bundle).findings if f.truth is Truth.TRUE]


def test_every_archive_has_its_expectation() -> None:
    """And the other way round."""
    archives = {path.name.removesuffix(".tar.gz") for path in (FIXTURES / "cases").glob("*.tar.gz")}
    assert archives == {bundle.name for bundle in ALL if not bundle.path.is_dir()}
    for bundle in ALL:
        named = {Verdict(v) for key in ("verdict", "not") for v in bundle.listed(key)}
        assert named
        assert not set(bundle.listed("verdict")) & set(bundle.listed("not")), bundle.name


def test_every_verdict_that_a_rule_gives_is_tried() -> None:
    """A rule without a story is a rule that nobody has seen right; `undetermined` is what no story deserves."""
    tried = {verdict for bundle in JUDGED for verdict in bundle.listed("verdict")}
    verdicts = {rule.id for rule in PLUGINS.rules if rule.verdict is not None}
    assert verdicts - tried <= {"undetermined"}


@judged_bundle
def test_verdict(bundle: Bundle) -> None:
    """The cause, and never one that leads to the wrong remedy."""
    assert answer(bundle).verdict in bundle.listed("verdict")
    assert answer(bundle).verdict not in bundle.listed("not")


@every_bundle
def test_never_sure_of_a_harmful_verdict(bundle: Bundle) -> None:
    """Also where the right verdict cannot be given yet: then the answer has to stay modest."""
    diagnosis = answer(bundle)
    assert diagnosis.confidence is not Confidence.HIGH or diagnosis.verdict not in bundle.listed("not")


@every_bundle
def test_phase(bundle: Bundle) -> None:
    """It needs no rule."""
    assert answer(bundle).phase in bundle.listed("phase")


@every_bundle
def test_signals_are_in_range(bundle: Bundle) -> None:
    """Figures that a story fixes; all are finite in any case."""
    signals = report_of(bundle.path).signals
    for name, (low, high) in bundle.expect.get("signals", {}).items():
        value = signals.value(SignalId(name))
        assert value is not None, name
        assert low <= value <= high, name
    assert all(math.isfinite(s.value) for s in signals)


@judged_bundle
def test_culprit_and_findings_beside(bundle: Bundle) -> None:
    """The instance at fault is named; so is what stands beside the verdict, where a rule for it exists."""
    assert set(bundle.listed("instance")) <= set(answer(bundle).culprits)
    assert set(bundle.listed("findings")) & RULES <= {f.rule for f in holding(bundle)}


@every_bundle
def test_answer_is_in_good_form(bundle: Bundle) -> None:
    """Numbers behind the verdict and in the summary, a price on every remedy."""
    diagnosis = answer(bundle)
    assert any(c.isdigit() for c in diagnosis.summary)
    assert diagnosis.next_steps
    for found in diagnosis.findings:
        assert all(math.isfinite(e.value) and math.isfinite(e.threshold) for e in found.evidence)
        assert all(remedy.cost and remedy.precondition for remedy in found.remedies)
    if diagnosis.verdict not in WITHOUT_FINDING:
        mine = [f for f in holding(bundle) if f.rule == diagnosis.verdict]
        assert mine
        assert all(f.evidence for f in mine)
    if diagnosis.stage is not Stage.NONE:
        assert all(f.remedies for f in mine)


def test_throttled_link_is_named_with_its_numbers() -> None:
    """A link really held to 60 Mbit/s: demand, capacity and transfer time in the summary, and nobody is to be added."""
    (bundle,) = (b for b in ALL if b.name == "vllm-transferbound")
    report, diagnosis = report_of(bundle.path), answer(bundle)
    assert report.signals.value(SignalId.LINK_CAPACITY) == pytest.approx(7.5e6)
    assert "carries 7.5 MB/s" in diagnosis.summary
    for signal in (SignalId.KV_DEMAND, SignalId.TRANSFER_TIME):
        value = report.signals.value(signal)
        assert value is not None
        assert text_of(value, signal) in diagnosis.summary
    assert "not because of prefill" in diagnosis.summary
    remedies = [r for f in diagnosis.findings for r in f.remedies]
    assert remedies
    assert not any(adds_instances(r) for r in remedies)


def text_of(value: float, signal: SignalId) -> str:
    """The value as the summary writes it, worked out anew for the two orders of magnitude of this run."""
    return f"{value / 1e6:.2f} MB/s" if signal is SignalId.KV_DEMAND else f"{value:.2f} s"
