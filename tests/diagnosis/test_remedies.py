"""The catalogue of remedies: each has its price, and settings are the engine's own."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.engine import discover
from pdscope.diagnosis.remedies import CATALOGUE, adds_instances, remedies_for
from pdscope.diagnosis.rules import decode_kv_capacity
from pdscope.model.finding import Truth
from pdscope.model.topology import Attention, EngineProfile, KvShape, ModelFacts, Role
from pdscope.runtime.plugins import load_plugins
from support.signals import ENGINE, STORIES, changed, deployment, finding, instance


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_has_action_cost_and_precondition(name: str) -> None:
    """Nothing is free, and nothing always helps."""
    (remedy,) = remedies_for([name], None)
    assert remedy.id == name
    for text in (remedy.action, remedy.cost, remedy.precondition):
        assert len(text.split()) > 2
        assert text[0].isupper()
        assert not text.endswith(".")


def test_each_is_proposed_by_a_rule() -> None:
    """An entry that nobody proposes would be tested by nobody."""
    proposed = {remedy for rule in discover() for remedy in rule.remedies}
    assert set(CATALOGUE) == proposed | {"add_instances"}  # which stands in for those with a role where there are none


def test_remedies_fit_the_deployment() -> None:
    """Roles are shifted only where there are roles, and a cache of 8 bits is not quantised to 8 bits."""
    story = STORIES["decode_kv_capacity"]
    full = changed(
        story, {("u0", place[1]): v for place, v in story.items() if isinstance(place, tuple) and place[0] == "d0"}
    )
    alone = finding(decode_kv_capacity.RULE, full, deployment(instance("u0", Role.UNIFIED)))
    assert alone.truth is Truth.TRUE
    assert {r.id for r in alone.remedies} & {"add_decode", "add_prefill", "add_instances"} == {"add_instances"}
    assert "quantise_kv" in {r.id for r in alone.remedies}
    small = ModelFacts("m", kv=KvShape(Attention.MLA, layers=61, bytes_per_element=1, latent_dim=576))
    found = finding(decode_kv_capacity.RULE, STORIES["decode_kv_capacity"], deployment(model=small))
    assert found.truth is Truth.TRUE
    assert "quantise_kv" not in {r.id for r in found.remedies}
    assert "add_decode" in {r.id for r in found.remedies}


def test_setting_comes_from_the_engine_at_fault() -> None:
    """Without an engine, or where the engine has no such setting, there is none."""
    both = remedies_for(["raise_running_limit", "add_decode"], ENGINE)
    assert [r.setting for r in both] == ["--max-running", None]
    assert [r.setting for r in remedies_for(["raise_running_limit"], None)] == [None]
    assert [r.setting for r in remedies_for(["raise_running_limit"], EngineProfile("bare"))] == [None]


def test_unknown_id_is_a_mistake() -> None:
    """It does not pass silently."""
    with pytest.raises(KeyError, match="no_such_remedy"):
        remedies_for(["no_such_remedy"], None)


def test_what_adds_instances() -> None:
    """These are withheld while the link is full."""
    adding = {name for name in CATALOGUE if adds_instances(remedies_for([name], None)[0])}
    assert adding == {"add_prefill", "add_decode", "add_instances"}


def test_engines_spell_settings_of_known_remedies_only() -> None:
    """A setting under a misspelt id would never be shown."""
    for adapter in load_plugins().engines:
        if adapter.profile is not None:
            assert set(adapter.profile.settings) <= set(CATALOGUE), adapter.name
