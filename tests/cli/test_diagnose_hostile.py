"""Pages that would break the answer or the terminal: what they print is told, never obeyed and never believed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pdscope.cli import main
from pdscope.render.metrics import render_metrics
from pdscope.runtime.offline import diagnose_bundle


@pytest.fixture
def bundle(fixtures_dir: Path, tmp_path: Path) -> Path:
    """A writable copy of a healthy run."""
    target = tmp_path / "bundle"
    shutil.copytree(fixtures_dir / "runs" / "vllm-baseline", target)
    return target


def rewrite(bundle: Path, pattern: bytes, replacement: bytes) -> None:
    """On all pages of decode."""
    for page in (bundle / "samples" / "d0").iterdir():
        body, count = re.subn(pattern, replacement, page.read_bytes())
        assert count > 0
        page.write_bytes(body)


def test_orders_to_the_terminal_arrive_nowhere(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name of a model with a line break and an escape: neither in the text nor in the metrics."""
    config = bundle / "pdscope.yml"
    config.write_text(config.read_text().replace("    name: tiny\n", ""))
    rewrite(bundle, rb'model_name="tiny"', b'model_name="a\\\\nb\\x1b[31m"'.replace(b"\\x1b", b"\x1b"))
    shutil.rmtree(bundle / "samples" / "p0")
    main(["diagnose", str(bundle)])
    out, err = capsys.readouterr()
    assert out.startswith("pd (a\ufffdb\ufffd[31m): ")
    assert "\x1b" not in out + err
    report, _ = diagnose_bundle(bundle)
    assert b"\x1b" not in render_metrics(report, version="0", openmetrics=False, reload_ok=True)


@pytest.mark.parametrize(("number", "told"), [(b"1e308", "1e+308"), (b"99", "99"), (b"-5", "-5")])
def test_a_number_that_cannot_be_is_named_and_not_believed(
    bundle: Path, capsys: pytest.CaptureFixture[str], number: bytes, told: str
) -> None:
    """No traceback, no 9900 %: one line on stderr, and the rest is judged."""
    rewrite(bundle, rb"(?m)^(vllm:kv_cache_usage_perc\{[^}]*\}) .*$", rb"\g<1> " + number)
    assert main(["diagnose", str(bundle)]) == 0
    out, err = capsys.readouterr()
    assert err.startswith(f"pdscope: target d0: kv_usage cannot be {told} (ratio): such values are dropped")
    assert err.count("\n") == 1
    assert "in use" not in out
