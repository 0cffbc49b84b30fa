"""Silence in a recording: scrapes that left no page, at the pace at which it was recorded."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from pdscope.model.finding import Finding, Truth, Verdict
from pdscope.model.report import DeploymentReport
from pdscope.model.signal import Quality, SignalId, instance_scope
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.silence import Source, missed_scrapes
from pdscope.sources.bundle import Bundle, PageKind, RecordedPage

PLUGINS = load_plugins()
EVERY_5 = [5.0 * n for n in range(13)]


def missed(
    times: Mapping[str, Sequence[float]],
    intervals: Mapping[str, float] | None = None,
    kind: PageKind = PageKind.METRICS,
    folders: frozenset[str] = frozenset(),
) -> dict[Source, int]:
    """Of a bundle with pages at these times; the interval is 5 s unless told otherwise."""
    pages = [RecordedPage(target, at, kind, b"") for target, found in times.items() for at in found]
    bundle = Bundle("b", "", tuple(sorted(pages, key=lambda page: page.at)), (), folders)
    return missed_scrapes(bundle, intervals or dict.fromkeys((*times, *folders), 5.0))


def metrics(target: str) -> Source:
    return target, PageKind.METRICS


def test_scrapes_after_the_last_page_are_missed() -> None:
    """Eight of them, 5 s apart."""
    assert missed({"p0": EVERY_5, "d0": EVERY_5[:5]}) == {metrics("d0"): 8}


def test_whoever_answers_to_the_end_has_missed_nothing() -> None:
    """Also where the scrapes are spread over the interval, or the clock trembles."""
    assert missed({"p0": EVERY_5, "d0": [at - 4.7 for at in EVERY_5]}) == {}
    assert missed({"p0": EVERY_5, "d0": [at + 0.2 * (n % 3) for n, at in enumerate(EVERY_5)]}) == {}


def test_a_gap_before_the_end_is_no_silence() -> None:
    """It answers again."""
    assert missed({"p0": EVERY_5, "d0": [*EVERY_5[:2], *EVERY_5[11:]]}) == {}


def test_recorded_more_slowly_than_configured() -> None:
    """The pages say at which pace: every 30 s, and the last one is missing."""
    slow = [30.0 * n for n in range(5)]
    assert missed({"p0": slow, "d0": slow, "d1": slow[:-1]}) == {metrics("d1"): 1}
    assert missed({"p0": [0.0, 15.0], "d0": [0.3, 15.2]}) == {}


def test_recorded_faster_than_configured() -> None:
    """The configured interval counts: what is asked rarely is not silent between."""
    assert missed({"p0": [1.0 * n for n in range(61)], "d0": [0.0, 57.0]}) == {}


def test_a_pace_of_its_own() -> None:
    """By its configuration, or because it was never recorded as often as the others."""
    assert missed({"p0": EVERY_5, "gpu": [0.0, 30.0]}, {"p0": 5.0, "gpu": 30.0}) == {metrics("gpu"): 1}
    assert missed({"p0": EVERY_5, "d0": [0.0, 20.0, 40.0]}) == {metrics("d0"): 1}


def test_one_page_at_the_beginning() -> None:
    """It has no pace of its own; without any pace at all nothing is known."""
    assert missed({"p0": EVERY_5, "d0": [0.0]}) == {metrics("d0"): 12}
    assert missed({"p0": [60.0], "d0": [0.0]}) == {}


def test_pages_of_each_kind_are_judged_by_themselves() -> None:
    """An engine whose `/v1/loads` fails alone."""
    pages = [RecordedPage("d0", at, PageKind.METRICS, b"") for at in EVERY_5]
    pages += [RecordedPage("d0", at, PageKind.LOADS, b"") for at in EVERY_5[:3]]
    bundle = Bundle("b", "", tuple(sorted(pages, key=lambda page: page.at)))
    assert missed_scrapes(bundle, {"d0": 5.0}) == {("d0", PageKind.LOADS): 10}


def test_a_folder_without_a_page_was_asked_all_the_time() -> None:
    """Who has no folder was perhaps not asked at all; who is not configured does not matter."""
    folders = frozenset({"p0", "d0", "stranger"})
    assert missed({"p0": EVERY_5}, {"p0": 5.0, "d0": 5.0, "d1": 5.0}, folders=folders) == {metrics("d0"): 13}


def test_another_time_is_no_silence() -> None:
    """A target that ends before the others begin has another clock."""
    assert missed({"p0": EVERY_5, "d0": [at - 3600.0 for at in EVERY_5]}) == {}


# From a bundle to the answer


def recorded(fixtures_dir: Path, tmp_path: Path, kept: int) -> Path:
    """A healthy run of five scrapes of which decode answered the first `kept`."""
    target = tmp_path / "bundle"
    shutil.copytree(fixtures_dir / "runs" / "vllm-baseline", target)
    for page in sorted((target / "samples" / "d0").iterdir())[kept:]:
        page.unlink()
    return target


def judged(path: Path) -> DeploymentReport:
    report, _ = diagnose_bundle(path, PLUGINS)
    (only,) = report.deployments
    return only


def held(report: DeploymentReport) -> dict[str, Finding]:
    return {f.rule: f for f in report.diagnosis.findings if f.truth is Truth.TRUE}


@pytest.mark.parametrize(
    ("kept", "up", "down"), [(5, True, False), (4, True, False), (3, True, False), (2, False, False), (1, False, True)]
)
def test_a_decode_that_dies_while_it_is_recorded(
    fixtures_dir: Path, tmp_path: Path, kept: int, up: bool, down: bool
) -> None:
    """As live: a lost scrape is a gap, after two nothing is concluded from what it said, three are a dead instance."""
    only = judged(recorded(fixtures_dir, tmp_path, kept))
    assert only.instances["d0"].up is up
    assert (only.diagnosis.verdict is Verdict.HEALTHY) is up
    assert (only.diagnosis.verdict is Verdict.INSUFFICIENT_DATA) is not up
    assert ("instance_down" in held(only)) is down
    assert "telemetry_lost" not in held(only)


def test_what_is_said_of_the_dead(fixtures_dir: Path, tmp_path: Path) -> None:
    """The count and the culprit; a recording does not know whether something answered."""
    only = judged(recorded(fixtures_dir, tmp_path, 0))
    found = held(only)["instance_down"]
    assert found.culprits == ("d0",)
    assert "d0 (decode) does not answer; 5 scrapes in a row have left no page" in found.headline
    silent = only.signals.get(SignalId.SILENT_SCRAPES, instance_scope("d0"))
    assert silent is not None
    assert silent.quality is Quality.DERIVED
    assert only.signals.get(SignalId.ANSWERS, instance_scope("d0")) is None
    assert only.signals.value(SignalId.ROLES_ANSWERING) == 0.5
    assert only.signals.get(SignalId.SILENT_SCRAPES, instance_scope("p0")) is None
