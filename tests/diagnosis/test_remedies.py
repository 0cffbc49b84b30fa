"""The catalogue of remedies: each has its price, and settings are the engine's own."""

from __future__ import annotations

import pytest

from pdscope.diagnosis.base import Rule
from pdscope.diagnosis.engine import discover
from pdscope.diagnosis.remedies import CATALOGUE, TOPICS, adds_instances, futile_while, remedies_for
from pdscope.diagnosis.rules import decode_kv_capacity, kv_lease_expired, kv_transfer_setup
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.topology import Attention, EngineProfile, KvShape, ModelFacts, Role
from pdscope.runtime.plugins import load_plugins
from support.signals import STORIES, changed, deployment, finding, instance, on, verdict_of


@pytest.mark.parametrize("name", CATALOGUE)
def test_each_has_action_cost_and_precondition(name: str) -> None:
    """Nothing is free, and nothing always helps."""
    (remedy,) = remedies_for([name])
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


def test_topics_do_not_share_an_entry() -> None:
    """A second entry of a name would silently hide the first."""
    assert sum(map(len, TOPICS)) == len(CATALOGUE)


@pytest.mark.parametrize(("decodes", "offered"), [(1, False), (2, True)])
def test_more_queues_need_more_decode_peers(decodes: int, offered: bool) -> None:
    """With one peer a single queue is used, and more of them leave it fewer threads."""
    of = deployment(instance("p0", Role.PREFILL), *(instance(f"d{n}", Role.DECODE) for n in range(decodes)))
    room = on("d1", {SignalId.ADMISSION_QUEUE: 0.0, SignalId.KV_FREE_REQUESTS: 70.0})
    found = finding(kv_transfer_setup.RULE, changed(STORIES["kv_transfer_setup"], room), of)
    assert found.truth is Truth.TRUE
    assert ("more_transfer_queues" in {r.id for r in found.remedies}) is offered
    assert "more_transfer_threads" in {r.id for r in found.remedies}


@pytest.mark.parametrize(
    ("place", "share", "offered"), [("p0", 0.9, False), ("p0", 0.89, True), ("d0", 1.0, True), ("p0", None, True)]
)
def test_more_threads_need_an_idle_cpu_at_prefill(place: str, share: float | None, offered: bool) -> None:
    """They starve it where it is bound by its CPU; what is not known excludes nothing."""
    told = changed(STORIES["kv_transfer_setup"], {(place, SignalId.FRONTEND_CPU): share})
    remedies = {r.id for r in finding(kv_transfer_setup.RULE, told).remedies}
    assert ("more_transfer_threads" in remedies) is offered


def test_what_does_no_good_beside_a_verdict() -> None:
    """More instances beside a full link; a longer deadline in front of a full decode or for prompts nobody wants."""
    futile = {name: futile_while(remedies_for([name])[0]) for name in CATALOGUE}
    assert {name: {*verdicts} for name, verdicts in futile.items() if verdicts} == {
        **{name: {Verdict.KV_TRANSFER_BANDWIDTH} for name in ("add_prefill", "add_decode", "add_instances")},
        "longer_lease": {Verdict.DECODE_ADMISSION, Verdict.DECODE_KV_CAPACITY, Verdict.KV_PINNED},
    }


@pytest.mark.parametrize(
    ("story", "withheld"),
    [
        ("kv_transfer_bandwidth", {"add_decode"}),
        ("decode_admission", {"longer_lease"}),
        ("decode_kv_capacity", {"longer_lease"}),
        ("undetermined", set()),
    ],
)
def test_they_are_withheld_from_every_finding(story: str, withheld: set[str]) -> None:
    """Whichever rule proposes them: here one that proposes both."""
    leases = changed(STORIES[story], {("p0", SignalId.LEASES_EXPIRED): 0.1})
    diagnosis = verdict_of(leases).diagnosis
    assert diagnosis.verdict == story
    (found,) = (f for f in diagnosis.findings if f.rule == "kv_lease_expired")
    assert {*kv_lease_expired.RULE.remedies} - {r.id for r in found.remedies} == withheld
    assert not {r.id for f in diagnosis.findings for r in f.remedies} & withheld


def test_setting_comes_from_the_engine() -> None:
    """Without a deployment, or where the engine has no such setting, there is none."""
    both = remedies_for(["raise_running_limit", "add_decode"], deployment())
    assert [r.setting for r in both] == ["--max-running", None]
    assert [r.setting for r in remedies_for(["raise_running_limit"])] == [None]
    bare = deployment(instance("d0", Role.DECODE, profile=EngineProfile("bare")))
    assert [r.setting for r in remedies_for(["raise_running_limit"], bare)] == [None]


def test_unknown_id_is_a_mistake() -> None:
    """It does not pass silently."""
    with pytest.raises(KeyError, match="no_such_remedy"):
        remedies_for(["no_such_remedy"])


def test_what_adds_instances() -> None:
    """These are withheld while the link is full."""
    adding = {name for name in CATALOGUE if adds_instances(remedies_for([name])[0])}
    assert adding == {"add_prefill", "add_decode", "add_instances"}


def test_engines_spell_settings_of_known_remedies_only() -> None:
    """A setting under a misspelt id would never be shown."""
    for adapter in load_plugins().engines:
        if adapter.profile is not None:
            assert set(adapter.profile.settings) | adapter.profile.lacks <= set(CATALOGUE), adapter.name
            assert not set(adapter.profile.settings) & adapter.profile.lacks, adapter.name


PROGRAMS = {
    "sglang": (Role.PREFILL, Role.DECODE),
    "vllm": (Role.PREFILL, Role.DECODE),
    "dynamo": (Role.PREFILL, Role.DECODE, Role.ROUTER),
    "smg": (Role.ROUTER,),
    "vllm_router": (Role.ROUTER,),
    "llm_d": (Role.ROUTER,),
}
NOTHING_TO_SET = {
    "vllm": {"add_prefill", "add_decode"},  # instances are added outside of it
    "dynamo": {"less_affinity", "shed_load"},
    "vllm_router": {"fewer_series"},
    "llm_d": {"router_policy", "less_affinity", "keep_prefix_cache", "shed_load", "check_roles", "fewer_series"},
}
"""Remedies about a program that has no documented flag for them, though it can do them."""


@pytest.mark.parametrize("engine", PROGRAMS)
def test_every_remedy_is_spelt_where_its_engine_has_the_setting(engine: str) -> None:
    """Whatever a rule proposes about a program is spelt, lacking, or known to have nothing to set."""
    profile = load_plugins().profile(engine)
    about = {name for name, entry in CATALOGUE.items() if {*PROGRAMS[engine]} & {*entry.at}}
    assert about - profile.settings.keys() - profile.lacks == NOTHING_TO_SET.get(engine, set())


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("rule", discover(), ids=lambda rule: rule.id)
def test_each_rule_names_the_settings_of_an_engine_without_a_culprit(rule: Rule, engine: str) -> None:
    """Findings on the link, which accuse nobody, too."""
    profile = load_plugins().profile(engine)
    of = deployment(*(instance(role[0] + "0", role, profile=profile) for role in (Role.PREFILL, Role.DECODE)))
    for remedy in remedies_for(rule.remedies, of):
        assert remedy.setting == profile.settings.get(remedy.id)
