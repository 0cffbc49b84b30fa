"""The rules of CONTRIBUTING.md that a linter does not know."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "exporter" / "pdscope"
MODULES = sorted(PACKAGE.rglob("*.py"))
MAX_MODULE_LINES = 320

# Where one file is one engine, device or rule, and its documentation.
PLUGIN_FOLDERS = {"sources/engines": "engines", "sources/devices": "devices", "diagnosis/rules": "rules"}


def repository_texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the repository, without what tools leave behind."""
    for folder, subfolders, names in os.walk(ROOT):
        here = Path(folder)
        subfolders[:] = [
            name
            for name in subfolders
            if (not name.startswith(".") or name == ".ci")
            and name != "__pycache__"
            and (here != ROOT or name not in {"build", "dist", "htmlcov"})
            and not (here / name / "pyvenv.cfg").exists()
        ]
        for name in names:
            data = (here / name).read_bytes()
            if b"\0" not in data:
                yield here.joinpath(name).relative_to(ROOT), data.decode("utf-8", errors="replace")


def run_lint_imports(source_root: Path) -> subprocess.CompletedProcess[str]:
    """The contracts of pyproject.toml on the package below `source_root`."""
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=source_root,
        env=os.environ | {"PYTHONPATH": str(source_root), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_imports_keep_the_contracts() -> None:
    """Data flows one way."""
    run = run_lint_imports(PACKAGE.parent)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("pdscope.analysis", "time"),
        ("pdscope.diagnosis", "pdscope.sources"),
        ("pdscope.model", "pdscope.config"),
        ("pdscope.demo", "pdscope.diagnosis"),
        ("pdscope.sources.engines.sglang", "pdscope.sources.engines.vllm"),
    ],
)
def test_contracts_notice_a_violation(tmp_path: Path, module: str, imported: str) -> None:
    """A copy of the package with one wrong import is refused."""
    shutil.copytree(PACKAGE, tmp_path / "pdscope", ignore=shutil.ignore_patterns("__pycache__"))
    path = tmp_path.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    file.write_text(f"{file.read_text(encoding='utf-8')}\nimport {imported}\n", encoding="utf-8")
    run = run_lint_imports(tmp_path)
    assert run.returncode == 1, run.stdout + run.stderr
    assert f"{module} is not allowed to import {imported}:" in run.stdout


@pytest.mark.parametrize("folder", PLUGIN_FOLDERS)
def test_each_engine_device_and_rule_is_tested_and_documented(folder: str) -> None:
    """One new file brings its test module and its page."""
    names = sorted(path.stem for path in (PACKAGE / folder).glob("*.py") if path.stem != "__init__")
    assert names
    wanted = [
        path
        for name in names
        for path in (f"tests/{folder}/test_{name}.py", f"docs/{PLUGIN_FOLDERS[folder]}/{name}.md")
    ]
    missing = [path for path in wanted if not (ROOT / path).is_file()]
    assert not missing, "\n".join(missing)


def test_modules_are_short() -> None:
    """A module that needs scrolling hides a second one."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    long = [f"{path.relative_to(PACKAGE)}: {lines}" for path, lines in lengths.items() if lines > MAX_MODULE_LINES]
    assert not long, "\n".join(long)


def test_only_the_command_line_prints() -> None:
    """Everything else returns values or logs."""
    printing = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in MODULES
        if not path.relative_to(PACKAGE).parts[0].startswith("cli")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not printing, "\n".join(printing)


def test_no_unfinished_work_is_left() -> None:
    """What is to be done stands in an issue."""
    marks = re.compile(r"\b(TO" + r"DO|FIX" + r"ME)\b")
    found = [
        str(path) for path, text in repository_texts() if path.parts[:2] != ("tests", "fixtures") and marks.search(text)
    ]
    assert not found, "\n".join(found)


def test_no_path_of_a_machine_is_left() -> None:
    """The repository works wherever it is cloned."""
    # Written apart, so that this file does not find itself.
    places = re.compile(r"(?<![\w.*/-])/(wo" + r"rk/|tmp/w\b|ro" + r"ot/)")
    found = [
        f"{path}: {match.group()}"
        for path, text in repository_texts()
        if path != Path("LICENSE")
        for match in places.finditer(text)
    ]
    assert not found, "\n".join(found)
