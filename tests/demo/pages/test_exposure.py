"""What can be reached of a deployment, and whose answer it is."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pdscope.demo.physics.draw import Deployment, Draw, Exposure, Traffic

from .conftest import Rig, Text

PAIRS = Deployment(prefill_instances=1, decode_instances=3, prefill_devices=1, decode_devices=1)
GENERATED = {"sglang": "sglang:generation_tokens_total", "vllm": "vllm:generation_tokens_total"}


@pytest.fixture(params=["sglang", "vllm"])
def built(rig: type[Rig], request: pytest.FixtureRequest) -> Callable[[Exposure], Rig]:
    """`built(exposure)`: ten seconds of a deployment that is seen like that."""

    def build(exposure: Exposure) -> Rig:
        draw = Draw(
            engine=request.param,
            model="meta-llama/Llama-3.1-8B-Instruct",
            deployment=PAIRS,
            traffic=Traffic(requests_per_second=6.0),
            exposure=exposure,
        )
        return rig(draw).run(10.0)

    return build


def tokens(rig: Rig, name: str) -> float:
    """That an instance says it has generated."""
    return max(Text(rig.body(name)).values(GENERATED[rig.simulation.draw.engine]))


def test_all_is_to_be_seen_by_default(built: Callable[[Exposure], Rig]) -> None:
    rig = built(Exposure())
    assert all("/metrics" in one.pages for one in rig.servers.values())
    assert {"d0", "d1", "d2"} < set(rig.servers)


def test_without_metrics_the_rest_is_there(built: Callable[[Exposure], Rig]) -> None:
    """On decode only."""
    plain, rig = built(Exposure()), built(Exposure(decode_metrics=False))
    for name, server in plain.servers.items():
        lacking = {"/metrics"} if server.role == "decode" else set()
        assert set(server.pages) - set(rig.servers[name].pages) == lacking


@pytest.mark.parametrize("shown", [True, False])
def test_an_engine_says_itself_whether_its_metrics_are_on(rig: type[Rig], shown: bool) -> None:
    """Prefill's are."""
    made = rig(Draw(exposure=Exposure(decode_metrics=shown)))
    for name, expected in (("d0", shown), ("p0", True)):
        assert json.loads(made.body(name, "/server_info"))["enable_metrics"] is expected


def test_behind_one_address_a_lot_decides_who_answers(built: Callable[[Exposure], Rig]) -> None:
    """With what it has counted itself; the others have no address of their own."""
    plain, rig = built(Exposure()), built(Exposure(decode_address_shared=True))
    assert set(plain.servers) - set(rig.servers) == {"d1", "d2"}
    own = {tokens(plain, name) for name in ("d0", "d1", "d2")}
    assert len(own) == 3
    answers = [tokens(rig, "d0") for _ in range(40)]
    assert set(answers) == own
    assert answers != sorted(answers)


def test_users_notice_nothing(built: Callable[[Exposure], Rig]) -> None:
    """The simulation is the same."""
    counts = {
        sum(one.stepper.tokens for one in built(exposure).simulation.decodes)
        for exposure in (Exposure(), Exposure(decode_metrics=False), Exposure(decode_address_shared=True))
    }
    assert len(counts) == 1
