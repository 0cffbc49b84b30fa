"""What goes wrong with NIXL: told in our words, and the memory is given back. The wheel itself is not needed."""

from __future__ import annotations

import socket
import sys
from types import ModuleType
from typing import Any

import pytest

from pdscope.errors import UsageError
from pdscope.probe.client import Server, probe
from pdscope.probe.nixl import NixlPuller, NixlSource
from pdscope.probe.plan import Blocks, Step, make_plan
from pdscope.probe.wire import ProbeError, deadline_in

DETAILS = {"agent": "bWV0YQ==", "address": 4096, "size": 8192}
STEP = Step("single", 1024, 8, 2, 5, 1.0)


class Agent:
    """As much of nixl_agent as the probe calls; `fails` names the calls that raise."""

    def __init__(self, fails: set[str], states: list[str], backends: dict[str, object]) -> None:
        self.fails, self.states, self.backends = fails, states, backends
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*_: object) -> object:
            self.calls.append(name)
            if name in self.fails:
                raise Exception("NIXL_ERR_BACKEND")  # noqa: TRY002 - what the wheel's own errors derive from
            return {"get_agent_metadata": b"meta", "transfer": "PROC", "check_xfer_state": self.states[0]}.get(name)

        return call


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Agent:
    made = Agent(set(), ["DONE"], {"UCX": object()})
    api = ModuleType("nixl._api")
    vars(api).update(nixl_agent=lambda _name, _config: made, nixl_agent_config=lambda backends: backends)
    monkeypatch.setitem(sys.modules, "nixl", ModuleType("nixl"))
    monkeypatch.setitem(sys.modules, "nixl._api", api)
    return made


def test_without_the_wheel_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is connected: nobody listens there."""
    monkeypatch.setitem(sys.modules, "nixl", None)
    plan = make_plan(Blocks(1, 1), max_bytes=1000, seconds=1, streams=1)
    with pytest.raises(UsageError, match=r"install pdscope\[probe\]"):
        probe(Server("127.0.0.1", 1), plan, "nixl")
    with pytest.raises(UsageError, match=r"install pdscope\[probe\]"):
        NixlSource(4096)


def test_a_wheel_without_ucx(agent: Agent) -> None:
    agent.backends = {}
    with pytest.raises(ProbeError, match="no UCX backend"):
        NixlSource(4096)


def test_memory_that_cannot_be_registered(agent: Agent) -> None:
    agent.fails = {"register_memory"}
    with pytest.raises(ProbeError, match="nixl: cannot register memory: NIXL_ERR_BACKEND"):
        NixlSource(4096)


def test_the_source_describes_its_memory_and_has_no_streams(agent: Agent) -> None:
    source = NixlSource(4096)
    assert source.details["agent"] == "bWV0YQ=="
    assert source.details["size"] == 4096
    left, right = socket.socketpair()
    with left, right, pytest.raises(ProbeError, match="no data connections"):
        source.serve_stream(left, lambda _: None, 1.0)
    source.close()
    assert agent.calls[-1] == "deregister_memory"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"agent": "no base64!"}, "agent must be base64"),
        ({"agent": None}, "agent must be text"),
        ({"address": -1}, "address must be"),
        ({"address": 2**64}, "address must be"),
        ({"size": 1024}, "too little memory"),
    ],
)
def test_details_of_the_other_end_are_checked(agent: Agent, changed: dict[str, object], why: str) -> None:
    """Before the wheel sees them."""
    with pytest.raises(ProbeError, match=why):
        NixlPuller(DETAILS | changed, 8192)
    assert agent.calls == []


def test_another_end_that_cannot_be_reached(agent: Agent) -> None:
    """What had been registered is registered no more."""
    agent.fails = {"add_remote_agent"}
    with pytest.raises(ProbeError, match="cannot reach the other end"):
        NixlPuller(DETAILS, 8192)
    assert agent.calls[-1] == "deregister_memory"


@pytest.mark.parametrize(
    ("state", "seconds", "why"),
    [("ERR", 5, "nixl reports ERR"), ("PROC", -1, "16384 B were not transferred in time")],
)
def test_a_transfer_that_fails(agent: Agent, state: str, seconds: float, why: str) -> None:
    agent.states = [state]
    puller = NixlPuller(DETAILS, 8192)
    puller.prepare(STEP)
    with pytest.raises(ProbeError, match=why):
        puller.pull(STEP, deadline_in(seconds))
    puller.close()
    assert agent.calls[-4:] == ["release_xfer_handle"] * 2 + ["remove_remote_agent", "deregister_memory"]


def test_done_without_data_is_no_measurement(agent: Agent) -> None:
    puller = NixlPuller(DETAILS, 8192)
    puller.prepare(STEP)
    assert puller.pull(STEP, deadline_in(5)) > 0
    with pytest.raises(ProbeError, match="not those that were sent"):
        puller.check(STEP)
    puller.close()
