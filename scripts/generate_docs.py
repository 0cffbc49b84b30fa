"""Writes the pages of docs/ that follow from the code: verdicts, rules, metrics, settings, hardware."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from pdscope.diagnosis.engine import discover
from pdscope.hardware.page import hardware_page
from pdscope.model.topology import EngineProfile
from pdscope.pages import VERDICTS, prose
from pdscope.render.catalogue import metrics_page
from pdscope.render.pages import rule_page, verdicts_page
from pdscope.render.settings import settings_page
from pdscope.runtime.plugins import load_plugins

ROOT = Path(__file__).resolve().parents[1]


def pages() -> Mapping[str, str]:
    """Every generated page: path below docs/ -> text."""
    rules = discover()
    texts = {f"{VERDICTS}.md": (VERDICTS, verdicts_page(rules, prose(VERDICTS)))}
    texts |= {f"rules/{rule.id}.md": (rule.id, rule_page(rule, prose(rule.id))) for rule in rules}
    found = {path: _note(f"pages/{name}.md or the rule") + text for path, (name, text) in texts.items()}
    return {
        **found,
        "hardware.md": _note("hardware/table.yaml or page.py beside it") + hardware_page(),
        "metrics.md": _note("render/catalogue.py") + metrics_page(),
        "settings.md": _note("sources/settings/") + settings_page(_profiles()),
    }


def _profiles() -> list[EngineProfile]:
    return [adapter.profile for adapter in load_plugins().engines if adapter.profile is not None]


def _note(source: str) -> str:
    return f"<!-- Written by scripts/generate_docs.py. Edit exporter/pdscope/{source}. -->\n\n"


def differences(docs: Path) -> list[str]:
    """What is to be written, and what no rule stands behind any more: paths below `docs`."""
    wanted = pages()
    there = {f"rules/{path.name}" for path in (docs / "rules").glob("*.md")}
    stale = [path for path, text in wanted.items() if _read(docs / path) != text]
    return sorted({*stale, *(there - set(wanted))})


def write(docs: Path) -> None:
    """Write all pages, and remove those of rules that are gone."""
    wanted = pages()
    for path in differences(docs):
        if path in wanted:
            (docs / path).parent.mkdir(parents=True, exist_ok=True)
            (docs / path).write_text(wanted[path], encoding="utf-8")
        else:
            (docs / path).unlink()


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; name the pages that differ, and fail")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.check:
        write(options.docs)
        return 0
    stale = differences(options.docs)
    for path in stale:
        print(f"{options.docs / path}: not what scripts/generate_docs.py writes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
