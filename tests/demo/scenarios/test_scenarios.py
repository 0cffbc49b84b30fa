"""Every scenario claims the verdict that its cause deserves, and the set is whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pdscope.demo.physics.draw import Exposure
from pdscope.demo.physics.truth import truth
from pdscope.demo.scenarios import SCENARIOS, Scenario, find
from pdscope.errors import UsageError
from pdscope.model.finding import Verdict

SECONDS = 25.0
UNSEEN_BY_USERS = {Verdict.INSUFFICIENT_DATA, Verdict.METRICS_UNTRUSTED}
"""They speak of what is read: the deployment itself may be sound, and these are."""


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=lambda scenario: scenario.name)
def test_the_counterfactual_names_the_verdict(scenario: Scenario) -> None:
    label = truth(replace(scenario.draw, warm_up_seconds=10.0), SECONDS)
    sound = scenario.is_faultless or scenario.verdict in UNSEEN_BY_USERS
    assert label.verdict == ("healthy" if sound else scenario.verdict), label.ranking
    assert (label.violation == 0.0) == sound
    assert (scenario.draw.exposure == Exposure()) == (scenario.verdict not in UNSEEN_BY_USERS)


def test_every_verdict_has_a_scenario() -> None:
    assert {scenario.verdict for scenario in SCENARIOS.values()} == set(Verdict)


def test_both_engines_are_shown() -> None:
    assert {scenario.draw.engine for scenario in SCENARIOS.values()} == {"sglang", "vllm"}


def test_a_tour_begins_with_what_is_sound() -> None:
    assert next(iter(SCENARIOS)) == "healthy"


def test_each_tells_its_story_in_a_line() -> None:
    for name, scenario in SCENARIOS.items():
        assert scenario.name == name
        assert scenario.story.endswith(".")
        assert scenario.watch.endswith(".")
        assert "\n" not in scenario.story + scenario.watch


def test_an_unknown_name_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="healthy, idle"):
        find("slow-link")
