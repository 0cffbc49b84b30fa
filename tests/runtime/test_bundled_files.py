"""A model's `config.json` in a capture bundle: read from the bundle alone, and never silently not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pdscope.cli import main
from pdscope.model.signal import SignalId
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.plugins import load_plugins
from pdscope.sources.bundle import BundleLimits, read_bundle

PLUGINS = load_plugins()
LLAMA_70B_LAYERS = 80
SHAPE = """    kv:
      attention: gqa
      layers: 4
      kv_heads: 4
      head_dim: 64
      bytes_per_element: 4
"""


@pytest.fixture
def bundle(fixtures_dir: Path, tmp_path: Path) -> Path:
    """A real run that names a file for its model instead of the shape, and has that file."""
    target = tmp_path / "bundle"
    shutil.copytree(fixtures_dir / "runs" / "vllm-baseline", target)
    name_file(target, "./config.json")
    shutil.copy(fixtures_dir / "hf_configs" / "llama-3.1-70b.json", target / "config.json")
    return target


def name_file(bundle: Path, path: str) -> None:
    config = bundle / "pdscope.yml"
    text = config.read_text()
    assert SHAPE in text
    config.write_text(text.replace(SHAPE, f"    hf_config: {path}\n"))


def judged(path: Path) -> tuple[int | None, tuple[str, ...]]:
    """Layers of the model that its file states, and what is remarked."""
    report, read = diagnose_bundle(path, PLUGINS)
    shape = report.deployments[0].deployment.model.file_kv
    return None if shape is None else shape.layers, read.remarks


def as_folder(bundle: Path) -> Path:
    return bundle


def as_targz(bundle: Path) -> Path:
    return Path(shutil.make_archive(str(bundle.with_name("packed")), "gztar", bundle.parent, bundle.name))


def as_zip(bundle: Path) -> Path:
    return Path(shutil.make_archive(str(bundle.with_name("packed")), "zip", bundle))


@pytest.mark.parametrize("pack", [as_folder, as_targz, as_zip])
def test_the_file_beside_the_configuration_is_read(bundle: Path, pack: Callable[[Path], Path]) -> None:
    """Wherever the bundle lies and however it is packed."""
    assert judged(pack(bundle)) == (LLAMA_70B_LAYERS, ())


def test_relative_to_the_current_folder(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pdscope diagnose .` is the same bundle."""
    monkeypatch.chdir(bundle)
    assert judged(Path()) == (LLAMA_70B_LAYERS, ())


@pytest.mark.parametrize("path", ["../config.json", "/etc/config.json", "models/config.json", "other.json"])
def test_a_file_that_is_not_in_the_bundle_is_told(bundle: Path, path: str) -> None:
    """And not looked for on this host, where it may be another one."""
    text = (bundle / "pdscope.yml").read_text()
    shutil.copy(bundle / "config.json", bundle.parent / "config.json")
    (bundle / "pdscope.yml").write_text(text.replace("./config.json", path))
    known, remarks = judged(bundle)
    assert known is None
    assert [remark.partition(":")[0] for remark in remarks] == ["deployments[0].model.hf_config"]
    assert "does not lie beside pdscope.yml in the bundle, so it is not read" in remarks[0]


def test_a_link_is_no_file_of_the_bundle(bundle: Path) -> None:
    """It leads out of it; the rest of the bundle is judged."""
    (bundle / "config.json").rename(bundle.parent / "elsewhere.json")
    (bundle / "config.json").symlink_to(bundle.parent / "elsewhere.json")
    known, remarks = judged(bundle)
    assert known is None
    assert len(remarks) == 1


def test_a_file_that_is_wrong_is_told(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, with the place in the configuration and the key; the rest is judged."""
    (bundle / "config.json").write_text('{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}')
    assert main(["diagnose", str(bundle), "--format", "json"]) == 0
    told = capsys.readouterr().err
    assert f"pdscope: {bundle}: deployments[0].model.hf_config: config.json: " in told
    assert "write the shape under model.kv" in told


def test_a_shape_that_is_written_wins(bundle: Path) -> None:
    """As it does with a live cluster, with the file beside it."""
    config = bundle / "pdscope.yml"
    config.write_text(
        config.read_text().replace("    hf_config: ./config.json\n", f"    hf_config: config.json\n{SHAPE}")
    )
    only = diagnose_bundle(bundle, PLUGINS)[0].deployments[0]
    assert only.signals.value(SignalId.KV_BYTES_PER_TOKEN) == 2 * 4 * 4 * 64 * 4
    assert only.deployment.model.file_kv is not None


def test_what_is_too_large_for_a_model_is_left_out(bundle: Path) -> None:
    """Results of a benchmark may lie beside a configuration: they are no reason to refuse the bundle."""
    limit = (bundle / "pdscope.yml").stat().st_size
    for name, size in (("fits.json", limit), ("large.json", limit + 1)):
        (bundle / name).write_bytes(b" " * size)
    assert set(read_bundle(bundle, BundleLimits(config_bytes=limit)).models) == {"config.json", "fits.json"}


def test_mapping_files_are_told(bundle: Path) -> None:
    """They would lie somewhere else."""
    config = bundle / "pdscope.yml"
    config.write_text(
        config.read_text() + "  devices: [{name: n, source: ./map.yml, url: 'http://n.invalid:1', instance: p0}]\n"
    )
    assert judged(bundle)[1] == ("deployments[0].devices[0].source: mapping files are not read from a bundle",)
