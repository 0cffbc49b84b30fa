"""`pdscope doctor`: what is found at targets, and how it is told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pdscope.cli import main
from pdscope.cli.doctor import lines_of
from pdscope.config import parse_config
from pdscope.runtime import visits
from pdscope.runtime.doctor import Checkup, TargetCheck, examine
from pdscope.runtime.plugins import load_plugins
from support.http_target import Asked, HttpTarget, hangs, page
from support.pages import page as recorded
from support.simulated_time import SIMULATED, simulated_clock

PLUGINS = load_plugins()
LOADS = "/v1/loads?include=all"
KV_8B = {"attention": "gqa", "layers": 32, "kv_heads": 8, "head_dim": 128, "bytes_per_element": 2}


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The pause between the scrapes passes at once."""
    return SIMULATED


def serving(bodies: Mapping[str, bytes | list[bytes]]) -> Callable[[Asked], AsyncIterator[bytes]]:
    """By path, a list in turn; other paths are not found."""
    turns = {path: iter(body) if isinstance(body, list) else None for path, body in bodies.items()}

    async def answer(asked: Asked) -> AsyncIterator[bytes]:
        body = bodies.get(asked.path)
        turn = turns.get(asked.path)
        if turn is not None:
            body = next(turn)
        yield page(b"nothing", status="404 Not Found") if not isinstance(body, bytes) else page(body)

    return answer


def metrics(*names: str, **others: bytes) -> Callable[[Asked], AsyncIterator[bytes]]:
    """A program that prints this recorded page, or two in turn."""
    bodies = [recorded(name) for name in names]
    return serving({"/metrics": bodies if len(bodies) > 1 else bodies[0], **{f"/{k}": v for k, v in others.items()}})


async def checkup(*instances: dict[str, Any], **keys: Any) -> Checkup:
    """Examine one deployment."""
    document = {"deployments": [{"name": "pd", "instances": list(instances), **keys}]}
    return await examine(parse_config(json.dumps(document), Path("/")), PLUGINS, clock=simulated_clock())


def lacks(check: TargetCheck) -> dict[str, str]:
    """Missing signal -> how to get it."""
    return {lack.signal: lack.how for lack in check.missing}


async def test_sglang_says_nearly_everything() -> None:
    """Engine, version and role are read; only what devices know is missing."""
    prefill = {
        "/metrics": recorded("sglang-0.5.23-prefill.prom"),
        LOADS: recorded("sglang-0.5.23-v1_loads-prefill.json"),
    }
    decode = {"/metrics": recorded("sglang-0.5.23-decode.prom"), LOADS: recorded("sglang-0.5.23-v1_loads-decode.json")}
    async with HttpTarget(serving(prefill)) as p0, HttpTarget(serving(decode)) as d0:
        found = await checkup(
            {"name": "p0", "url": p0.url},
            {"name": "d0", "url": d0.url, "role": "decode", "engine": "sglang"},
            interconnect={"bandwidth": "50GB/s"},
        )
    first, second = found.deployments[0].targets
    assert found.ok
    assert (first.engine, first.engine_version, first.role, first.role_from) == (
        "sglang",
        "0.5.23",
        "prefill",
        "stated",
    )
    assert (second.role, second.role_from) == ("decode", "configured")
    assert "prefill_transfer_queue" in first.yields
    assert "max_running" in second.yields
    assert set(lacks(first)) == {"compute_utilization_ratio", "tensor_utilization_ratio"}
    assert set(lacks(second)) == {"hbm_bandwidth_utilization_ratio"}
    assert "dcgm-exporter" in lacks(second)["hbm_bandwidth_utilization_ratio"]
    assert found.deployments[0].missing == ()
    assert first.contradictions == second.contradictions == ()
    assert p0.starts == [0.0, pytest.approx(2.0, abs=0.1)]


async def test_vllm_is_asked_for_its_version_and_told_what_it_lacks() -> None:
    """The switches are the engine's own; what the configuration says is not missing."""
    version = b'{"version": "0.32.0"}'
    async with (
        HttpTarget(metrics("vllm-0.32.0-nixl-p-light.prom", version=version)) as p0,
        HttpTarget(metrics("vllm-0.32.0-nixl-d-light.prom", version=b'{"version": 3}')) as d0,
    ):
        found = await checkup(
            {"name": "p0", "url": p0.url, "role": "prefill"},
            {"name": "d0", "url": d0.url, "role": "decode", "max_running": 64},
        )
        unlimited = await checkup({"name": "d0", "url": d0.url, "role": "decode"})
    first, second = found.deployments[0].targets
    assert (first.engine_version, second.engine_version) == ("0.32.0", "")
    assert "vllm: device telemetry" in lacks(first)["prefill_busy_ratio"]
    assert "max_running_requests" not in lacks(second)
    assert "vLLM exports --max-num-seqs nowhere" in lacks(unlimited.deployments[0].targets[0])["max_running_requests"]
    together = {lack.signal: lack.how for lack in found.deployments[0].missing}
    assert set(together) == {"interconnect_capacity_bytes_per_second"}
    assert "no program knows the link" in together["interconnect_capacity_bytes_per_second"]


async def test_a_router_stands_in_for_what_engines_lack() -> None:
    """A decode instance without latencies is enough where a frontend measures them."""
    async with (
        HttpTarget(metrics("dynamo-1.6.1-frontend-longhigh-bw450-t1.prom")) as frontend,
        HttpTarget(serving({"/metrics": b'vllm:num_requests_running{engine="0"} 1\n'})) as d0,
    ):
        worker = {"name": "d0", "url": d0.url, "role": "decode"}
        alone = await checkup(worker)
        routed = await checkup(worker, {"name": "r0", "url": frontend.url})
    latencies = {"ttft_p50_seconds", "itl_p50_seconds"}
    before, after = (lacks(found.deployments[0].targets[0]) for found in (alone, routed))
    assert set(before) - set(after) == latencies
    assert "a newer one may" in before["kv_usage_ratio"]
    router = routed.deployments[0].targets[1]
    assert (router.engine, router.role, router.role_from, router.missing) == ("dynamo", "router", "stated", ())
    assert {lack.signal for lack in alone.deployments[0].missing} == {
        "arrivals_per_second",
        "prompt_tokens_per_request",
    }
    assert routed.deployments[0].missing == ()


async def test_contradictions_are_told() -> None:
    """Role, engine and KV shape of the configuration against what the page says."""
    decode = {"/metrics": recorded("sglang-0.5.23-decode.prom"), LOADS: recorded("sglang-0.5.23-v1_loads-decode.json")}
    async with (
        HttpTarget(serving(decode)) as d0,
        HttpTarget(metrics("vllm-0.32.0-nixl-p-light.prom")) as p0,
        HttpTarget(metrics("vllm-0.32.0-nixl-d-light.prom")) as d1,
    ):
        found = await checkup(
            {"name": "d0", "url": d0.url, "role": "prefill", "engine": "vllm"},
            {"name": "p0", "url": p0.url, "role": "decode", "engine": "llm_d"},
            {"name": "d1", "url": d1.url},
            model={"kv": {**KV_8B, "layers": 2}},
        )
    first, second, third = found.deployments[0].targets
    assert found.ok
    assert first.contradictions == (
        "engine: configured is vllm, the page is of sglang",
        "role: configured is prefill, the page says decode",
    )
    assert second.contradictions == ("role: configured is decode, but its counters since its start are of prefill",)
    assert third.contradictions == ()
    assert (third.role, third.role_from) == ("decode", "shown")
    assert (
        found.deployments[0].contradictions[0].startswith("model.kv: KV shape of the configuration makes 8,192 B/token")
    )


async def test_what_cannot_be_read_says_why_and_what_to_switch_on() -> None:
    """Refused, hanging, not found, another program, a router in an engine's place, a device that refuses."""
    async with HttpTarget(hangs) as gone:
        pass
    async with (
        HttpTarget(hangs) as hanging,
        HttpTarget(serving({})) as off,
        HttpTarget(metrics("node_exporter_infiniband_e2e.txt")) as other,
        HttpTarget(metrics("smg-1.13.0-sglang-loaded.prom")) as router,
    ):
        found = await checkup(
            {"name": "gone", "url": gone.url},
            {"name": "hanging", "url": hanging.url},
            {"name": "off", "url": off.url, "engine": "sglang"},
            {"name": "other", "url": other.url},
            {"name": "router", "url": router.url, "role": "decode"},
            devices=[{"name": "n0", "source": "node", "url": "http://127.0.0.1:9", "instance": "gone"}],
        )
    checks = {check.name: check for check in found.deployments[0].targets}
    assert not found.ok
    assert not any(check.recognised for check in checks.values())
    assert {name for name, check in checks.items() if check.reachable} == {"off", "other", "router"}
    assert checks["gone"].reason == "connect: no connection: Connection refused"
    assert checks["hanging"].reason == "timeout: no answer within 4 s"
    assert checks["off"].reason == "http_status: HTTP 404: nothing"
    assert checks["off"].remarks == ("metrics of sglang: --enable-metrics",)
    assert "no series of a known program" in checks["other"].reason
    assert len(checks["other"].remarks) > 3
    assert "does its role fit its url" in checks["router"].reason
    assert checks["n0"].reason == "connect: no connection: Connection refused"
    assert all(check.missing == () for check in checks.values())


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
async def test_who_is_turned_away_is_told_where_to_say_who_it_is(tmp_path: Path, status: str) -> None:
    """Without auth, and with one that is not accepted; of a device too."""
    token = tmp_path / "token"
    token.write_text("secret")

    async def refuse(_: Asked) -> AsyncIterator[bytes]:
        yield page(b"", status=status)

    async with HttpTarget(refuse) as shut:
        found = await checkup(
            {"name": "a", "url": shut.url},
            {"name": "b", "url": f"{shut.url}/b", "auth": {"bearer_token_file": str(token)}},
            devices=[{"name": "n0", "source": "dcgm", "url": f"{shut.url}/metrics", "instance": "a"}],
        )
    remarks = {check.name: check.remarks for check in found.deployments[0].targets}
    nobody = ("it asks who you are, and no auth is configured for it: bearer_token_file, or basic",)
    assert remarks["a"] == remarks["n0"] == nobody
    assert remarks["b"][0].startswith("it does not accept the configured auth")
    assert not any("secret" in line for line in lines_of(found))


async def test_devices_say_which_signals_they_have_for_whom() -> None:
    """What a device yields is not missing of its instance; a select that matches nothing is told."""
    body = b"\n".join(
        b'DCGM_FI_PROF_%s{gpu="%d",UUID="GPU-%d"} 0.5' % (name, gpu, gpu)
        for name, gpu in ((b"DRAM_ACTIVE", 0), (b"SM_ACTIVE", 0), (b"SM_ACTIVE", 1))
    )
    async with (
        HttpTarget(metrics("vllm-0.32.0-light.prom")) as engine,
        HttpTarget(serving({"/metrics": body + b"\n"})) as dcgm,
    ):
        found = await checkup(
            *({"name": f"u{i}", "url": engine.url} for i in range(3)),
            devices=[
                {
                    "name": "n0",
                    "source": "dcgm",
                    "url": f"{dcgm.url}/metrics",
                    "serves": [{"instance": f"u{i}", "select": {"gpu": str(i)}} for i in range(3)],
                }
            ],
        )
    *instances, device = found.deployments[0].targets
    assert found.ok
    assert (device.kind, device.engine) == ("device", "dcgm")
    assert device.yields == ("u0: dram_active", "u0: sm_active", "u1: sm_active")
    assert device.remarks == ("no utilisation of the devices of u2: does its select match, are the fields on?",)
    wanted = {"compute_utilization_ratio", "hbm_bandwidth_utilization_ratio"}
    assert [set(lacks(check)) & wanted for check in instances] == [set(), {"hbm_bandwidth_utilization_ratio"}, wanted]


async def test_counters_that_fall_tell_of_several_programs_behind_one_address() -> None:
    """Two scrapes are enough to see it; a scrape that failed is told beside it."""
    async with (
        HttpTarget(metrics("vllm-0.32.0-overload.prom", "vllm-0.32.0-light.prom")) as jumping,
        HttpTarget(serving({"/metrics": [recorded("vllm-0.32.0-light.prom"), b"<html>"]})) as flaky,
    ):
        found = await checkup({"name": "u0", "url": jumping.url}, {"name": "u1", "url": flaky.url})
    first, second = found.deployments[0].targets
    assert found.ok
    assert len(first.remarks) == 1
    assert "several programs answer under this address" in first.remarks[0]
    assert second.remarks[0].startswith("one scrape of 2 failed: not_exposition: ")


async def test_a_deployment_whose_targets_are_not_known_is_not_fine() -> None:
    """What this version cannot ask is said, not passed over."""
    found = await checkup(prometheus={"url": "http://prometheus.invalid:9090"})
    assert not found.ok
    assert [(t.kind, t.name, t.reason.partition(":")[0]) for t in found.deployments[0].targets] == [
        ("deployment", "pd", "not asked")
    ]


async def test_the_text_names_everything() -> None:
    """One block a target, the count at the end."""
    async with HttpTarget(hangs) as gone:
        pass
    async with HttpTarget(metrics("vllm-0.32.0-light.prom", version=b'{"version": "0.32.0"}')) as u0:
        found = await checkup({"name": "u0", "url": u0.url}, {"name": "u1", "url": gone.url})
    lines = list(lines_of(found))
    assert lines[0] == "deployment pd"
    assert lines[1] == "  instance u0: vllm 0.32.0, unified (assumed)"
    assert lines[2].startswith("    yields: generated_tokens, ")
    assert any(line.startswith("    missing: max_running_requests <- vllm: max_running") for line in lines)
    assert "  instance u1: not reachable" in lines
    assert "    why: connect: no connection: Connection refused" in lines
    assert lines[-1] == "1 of 2 target(s) reachable and recognised"


def test_the_command_prints_and_exits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1 with an unreachable target, 2 for a wrong file; JSON for programs."""
    monkeypatch.setattr(visits, "PAUSE_SECONDS", 0.0)
    file = tmp_path / "pdscope.yml"
    file.write_text("deployments: [{name: pd, instances: [{name: u0, url: 'http://127.0.0.1:1'}]}]\n")
    assert main(["doctor", "--config.file", str(file)]) == 1
    assert "instance u0: not reachable" in capsys.readouterr().out
    assert main(["doctor", "--config.file", str(file), "--format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["schema_version"], document["ok"]) == (1, False)
    assert document["deployments"][0]["targets"][0]["name"] == "u0"
    assert main(["doctor", "--config.file", str(tmp_path / "none.yml")]) == 2
    assert "none.yml" in capsys.readouterr().err


async def test_devices_of_others_are_told() -> None:
    """Of a host that is shared, with the remedy; a page that is selected from has none."""
    body = b"".join(b'DCGM_FI_PROF_DRAM_ACTIVE{gpu="%d",UUID="GPU-%d"} 0.5\n' % (gpu, gpu) for gpu in range(8))
    async with (
        HttpTarget(metrics("vllm-0.32.0-light.prom")) as first,
        HttpTarget(metrics("vllm-0.32.0-light.prom")) as second,
        HttpTarget(serving({"/metrics": body})) as dcgm,
    ):
        page_of = {"source": "dcgm", "url": f"{dcgm.url}/metrics"}
        found = await checkup(
            {"name": "u0", "url": first.url, "tp": 4},
            {"name": "u1", "url": second.url, "tp": 4},
            devices=[
                {"name": "g0", "instance": "u0", **page_of},
                {"name": "g1", "instance": "u1", "select": {"gpu": "4-7"}, **page_of},
            ],
        )
    *_, shared, selected = found.deployments[0].targets
    (remark,) = shared.remarks
    assert remark == (
        "8 devices for u0, an instance of 4 (tp x pp x dp): some are not its own, and their means decide nothing; "
        "name its devices with select, or say tp if it has more"
    )
    assert selected.remarks == ()
