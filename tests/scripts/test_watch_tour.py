"""scripts/watch_tour.py: what counts as wrong, and that it notices a demo that says something else."""

from __future__ import annotations

from collections import Counter

import pytest
import watch_tour
from watch_tour import Seen, tally

from pdscope.demo.scenarios import SCENARIOS

EXPECTED = {"slow": "kv_transfer_bandwidth", "idle": "idle"}


def test_a_look_before_the_detection_time_counts_for_nothing() -> None:
    one = tally([Seen("slow", 37.9, "healthy"), Seen("slow", 38.0, "kv_transfer_bandwidth")], EXPECTED)["slow"]
    assert (one.right, one.wrong) == (1, Counter())
    assert one.first_right_seconds == [38.0]


def test_another_verdict_after_it_is_wrong_and_so_is_none() -> None:
    looks = [
        Seen("slow", 40.0, "healthy", "low"),
        Seen("slow", 41.0, None),
        Seen("slow", 42.0, "kv_transfer_bandwidth"),
    ]
    one = tally(looks, EXPECTED)["slow"]
    assert one.right == 1
    assert one.wrong == {("healthy", "low"): 1, ("none", ""): 1}


def test_idle_may_wait_for_the_last_answers() -> None:
    looks = [Seen("idle", at, "healthy") for at in (38.0, 52.0, 53.0)]
    assert tally(looks, EXPECTED)["idle"].wrong == {("healthy", ""): 1}


def test_each_turn_has_its_own_time_and_a_verdict_that_goes_again_was_not_there_to_stay() -> None:
    looks = [
        Seen("slow", 10.0, "kv_transfer_bandwidth"),
        Seen("slow", 12.0, "healthy"),
        Seen("slow", 14.0, "kv_transfer_bandwidth"),
        Seen("idle", 0.0, "kv_transfer_bandwidth"),
        Seen("slow", 1.0, "idle"),
        Seen("slow", 0.5, "kv_transfer_bandwidth"),
    ]
    counted = tally(looks, EXPECTED)
    assert counted["slow"].first_right_seconds == [14.0, None, 0.5]
    assert counted["idle"].first_right_seconds == [None]


@pytest.mark.e2e
@pytest.mark.parametrize(("believed", "status"), [("healthy", 0), ("idle", 1)])
def test_it_says_whether_the_demo_was_right(
    believed: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The real demo for 50 simulated seconds; believing something else of it, its answers are wrong ones."""
    monkeypatch.setattr(watch_tour, "verdicts", lambda: {**dict.fromkeys(SCENARIOS, ""), "healthy": believed})
    assert watch_tour.main(["--scenario", "healthy", "--speed", "20", "--minutes", "0.9"]) == status
    printed = capsys.readouterr().out
    assert printed.startswith("healthy ")
    assert (" 0 wrong" in printed) == (status == 0), printed


def test_a_demo_that_does_not_start_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert watch_tour.main(["--scenario", "no-such", "--minutes", "0.1"]) == 2
    assert "does not say where it listens" in capfd.readouterr().err
