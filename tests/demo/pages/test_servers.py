"""What listens, the configuration that points at it, and what the adapters make of the pages."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from pdscope.config import parse_config
from pdscope.demo.pages.configuration import configuration, kv_shape
from pdscope.demo.pages.servers import servers
from pdscope.demo.physics.draw import Deployment, Draw, Engine, Link, Traffic
from pdscope.demo.physics.models import MODELS
from pdscope.demo.physics.simulation import Simulation
from pdscope.model.metric import Fact, Metric
from pdscope.model.topology import Role
from pdscope.sources.introduction import model_info, version
from support.pages import read_devices, read_engine, read_loads

from .conftest import Rig

_TRAFFIC = Traffic(requests_per_second=3.0, shared_tokens=600)
_APART = Deployment(2, 1)
_UNIFIED = Deployment(0, 0, 2)


def draw(engine: Engine, deployment: Deployment = _APART) -> Draw:
    """Of either engine."""
    return Draw(engine=engine, deployment=deployment, traffic=_TRAFFIC)


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_everything_listens(rig: type[Rig], engine: Engine) -> None:
    """Instances, then hosts, then the router; each with its engine's paths."""
    run = rig(draw(engine))
    assert [(one.name, one.role, one.engine) for one in run.servers.values()] == [
        ("p0", "prefill", engine),
        ("p1", "prefill", engine),
        ("d0", "decode", engine),
        ("gpu-node0", "devices", "dcgm"),
        ("gpu-node1", "devices", "dcgm"),
        ("router", "router", "smg"),
    ]
    asked = {
        "sglang": {"/v1/loads", "/server_info", "/model_info", "/health", "/ready"},
        "vllm": {"/version", "/health"},
    }
    assert set(run.server("d0").pages) == {"/metrics"} | asked[engine]
    for server in run.servers.values():
        for page in server.pages.values():
            assert isinstance(page.read(), bytes)


def test_names_have_the_prefix() -> None:
    """So that two deployments can share a configuration."""
    simulation = Simulation(draw("sglang"))
    assert {one.name.startswith("slow-") for one in servers(simulation, prefix="slow-")} == {True}


def test_a_simulation_that_has_run_is_refused() -> None:
    """Its histograms would lack what has been."""
    simulation = Simulation(draw("sglang"))
    simulation.run(1.0)
    with pytest.raises(ValueError, match=r"has run to 1\.0 s"):
        servers(simulation)


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
@pytest.mark.parametrize("deployment", [_APART, _UNIFIED])
@pytest.mark.parametrize("model", sorted(MODELS))
def test_configuration_is_valid(engine: Engine, deployment: Deployment, model: str) -> None:
    """Of every model, on devices that hold it; every server is in it."""
    devices = 16 if "DeepSeek" in model else 4
    sizes = Deployment(
        deployment.prefill_instances, deployment.decode_instances, deployment.unified_instances, devices, devices
    )
    simulation = Simulation(Draw(engine=engine, model=model, deployment=sizes, traffic=_TRAFFIC))
    names = [one.name for one in servers(simulation)]
    urls = {name: f"http://127.0.0.1:{9000 + port}" for port, name in enumerate(names)}
    config = parse_config(yaml.safe_dump(configuration(simulation, urls, name="demo-x")), Path.cwd())
    (deployed,) = config.deployments
    assert [one.name for one in (*deployed.instances, *deployed.devices)] == [
        *(name for name in names if not name.startswith("gpu")),
        *(name for name in names if name.startswith("gpu")),
    ]
    served = [one for device in deployed.devices for one in device.serves or ()]
    assert {one.instance for one in served} == {one.name for one in deployed.instances if one.role is not Role.ROUTER}


@pytest.mark.parametrize("name", sorted(MODELS))
def test_kv_shape_has_the_bytes_of_the_model(name: str) -> None:
    """As the configuration writes it down, term by term."""
    model = MODELS[name]
    shape = kv_shape(model)
    elements = shape["latent_dim"] if shape["attention"] == "mla" else 2 * shape["kv_heads"] * shape["head_dim"]
    assert shape["layers"] * elements * shape["bytes_per_element"] == model.kv_bytes_per_token


def test_configuration_tells_the_line_and_not_its_faults() -> None:
    """The NICs of the data sheet, whatever the path through them carries; a fabric where there is one."""
    slow = Simulation(Draw(link=Link(path_bytes_per_second=1e8)))
    link = configuration(slow, {})["deployments"][0]["interconnect"]
    assert (link["bandwidth"], link["scope"], link["efficiency"]) == ("50GB/s", "device", 0.85)
    shared = Simulation(Draw(link=Link(shared_bytes_per_second=3e9)))
    link = configuration(shared, {})["deployments"][0]["interconnect"]
    assert (link["bandwidth"], link["scope"], link["efficiency"]) == ("3GB/s", "total", 1.0)


def test_sglang_pages_are_read(rig: type[Rig]) -> None:
    """By the adapters, on either leg and in both forms."""
    run = rig(draw("sglang")).run(60.0)
    decode, prefill = read_engine(run.body("d0")), read_engine(run.body("p0"))
    simulation = run.simulation
    stepper = simulation.decodes[0].stepper
    assert decode.scrape.facts[Fact.ROLE] == "decode"
    assert prefill.scrape.facts[Fact.ROLE] == "prefill"
    assert decode.value(Metric.GENERATED_TOKENS) == stepper.tokens
    ttft = decode.buckets(Metric.TTFT)
    assert ttft is not None
    assert ttft.count == sum(one.joined_at == one.joined_at for one in simulation.requests)
    moved = prefill.buckets(Metric.KV_TRANSFER_BYTES)
    done = [one for one in simulation.requests if one.prefill == 0 and one.prefill_released_at > 0.0]
    assert moved is not None
    assert moved.total == pytest.approx(sum(one.transfer_bytes for one in done))
    loads = read_loads(run.body("d0", "/v1/loads"))
    assert loads.value(Metric.RUNNING) == simulation.decodes[0].state().running
    assert loads.value(Metric.DECODE_STEPS) == stepper.steps
    assert loads.scrape.facts[Fact.ENGINE_VERSION] == "0.5.23"
    assert model_info(run.body("d0", "/model_info"))


def test_vllm_pages_are_read(rig: type[Rig]) -> None:
    """By the adapters, on either leg."""
    run = rig(draw("vllm")).run(60.0)
    decode, prefill = read_engine(run.body("d0")), read_engine(run.body("p1"))
    simulation = run.simulation
    state = simulation.decodes[0].state()
    assert decode.value(Metric.RUNNING) == state.running
    assert decode.value(Metric.KV_FETCH_ACTIVE) == state.transferring
    assert decode.value(Metric.KV_POOL_TOKENS) == state.pool_tokens
    moved = decode.buckets(Metric.KV_TRANSFER_BYTES)
    seen = [one for one in simulation.requests if one.transfer_seen_at == one.transfer_seen_at]
    assert moved is not None
    assert moved.total == pytest.approx(sum(one.transfer_bytes for one in seen))
    ended = [one for one in simulation.requests if one.prefill == 1 and one.prefill_ended_at == one.prefill_ended_at]
    assert prefill.value(Metric.PREFILL_COMPUTED_TOKENS) == sum(one.computed_tokens for one in ended)
    assert version(run.body("d0", "/version"))


def test_device_and_router_pages_are_read(rig: type[Rig]) -> None:
    """The devices of one instance by their index, as the configuration selects them."""
    run = rig(draw("sglang")).run(60.0)
    p1 = read_devices(run.body("gpu-node0"), select={"gpu": "4-7"})
    assert len(p1.ranks(Metric.DRAM_ACTIVE)) == 4
    assert p1.scrape.facts[Fact.DEVICE_MODEL] == "NVIDIA H100 80GB HBM3"
    router = read_engine(run.body("router"), engine="smg", role=Role.ROUTER)
    assert router.value(Metric.REQUESTS_ARRIVED) == len(run.simulation.requests)
    ttft = router.buckets(Metric.TTFT)
    assert ttft is not None
    assert ttft.count > 0


@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_a_page_costs_little(rig: type[Rig], engine: Engine) -> None:
    """A few milliseconds of CPU for four ranks, or a demo could not be scraped beside other work."""
    run = rig(draw(engine)).run(30.0)
    spent = []
    for _ in range(10):
        run.run(1.0)
        start = time.thread_time()
        run.body("d0")
        spent.append(time.thread_time() - start)
    assert min(spent) < 0.02
