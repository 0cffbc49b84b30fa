"""Pages about verdicts: what is generated agrees with the rules, and what is written with what they read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pdscope.diagnosis.base import Rule, Threshold
from pdscope.diagnosis.engine import ORDER, discover
from pdscope.diagnosis.remedies import CATALOGUE
from pdscope.model.finding import Truth, Verdict
from pdscope.model.signal import SignalId
from pdscope.model.units import Unit
from pdscope.pages import VERDICTS, names, prose
from pdscope.render.pages import MEANINGS, WRITTEN, in_a_line, rule_page, verdict_page, verdicts_page
from support.signals import FINDINGS, STORIES, findings

RULES = discover()
HEADINGS = [
    "What it means",
    "Signals",
    "Thresholds",
    "Why",
    "Remedies and their cost",
    "False positives",
    "References",
]
PROSE = "".join(f"## {title}\n\nAbout {title.lower()}.\n\n" for title in WRITTEN)
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)


def section(page: str, title: str) -> str:
    return page.split(f"## {title}\n")[1].split("\n## ", maxsplit=1)[0].strip()


def invented(name: str = "kv_pinned", **fields: object) -> Rule:
    verdict = Verdict(name) if name in [*Verdict] else None
    return Rule(**{"id": name, "verdict": verdict, "evaluate": lambda case: ()} | fields)


def test_every_rule_has_its_prose() -> None:
    """And nothing is written about a rule that is gone."""
    assert names() == {rule.id for rule in RULES} | {VERDICTS}


@pytest.mark.parametrize("name", ["kv_pinnned", "../pages/idle", "", "idle.md", "__init__"])
def test_prose_of_nothing_is_an_error(name: str) -> None:
    """No file outside the package is read."""
    with pytest.raises(KeyError):
        prose(name)


@each_rule
def test_page_has_all_sections(rule: Rule) -> None:
    """In the same order on each page, none of them empty."""
    page = rule_page(rule, prose(rule.id))
    what = "A verdict; stage: " if rule.verdict is not None else "A finding that stands beside the verdict"
    assert page.startswith(f"# {rule.id}\n\n{what}")
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == HEADINGS
    assert all(section(page, title) for title in HEADINGS)
    assert page.endswith("\n")
    assert not page.endswith("\n\n")


@each_rule
def test_thresholds_and_remedies_are_those_of_the_rule(rule: Rule) -> None:
    """Name, default, unit and reason; action, price and precondition."""
    page = rule_page(rule, prose(rule.id))
    thresholds, remedies = section(page, "Thresholds"), section(page, "Remedies and their cost")
    for t in rule.thresholds:
        assert f"| `{t.name}` | {t.default:g} | {t.unit} | {t.why} |" in thresholds
    for name in rule.remedies:
        entry = CATALOGUE[name]
        assert f"| `{name}` | {entry.action} | {entry.cost} | {entry.precondition} |" in remedies
    assert (thresholds == "None.") is not bool(rule.thresholds)
    assert remedies.startswith("None: ") is not bool(rule.remedies)
    assert ("withheld while `kv_transfer_bandwidth` holds" in remedies) is any(
        CATALOGUE[name].adds_instances for name in rule.remedies
    )


@each_rule
def test_signals_of_the_page_are_those_of_the_rule(rule: Rule) -> None:
    """Every signal that the rule weighs in its plain case is explained, and every name explained is a signal."""
    text = section(prose(rule.id) + "\n", "Signals")
    told = findings(rule, {**STORIES, **FINDINGS}[rule.id])
    weighed = {e.signal.value for found in told for e in found.evidence}
    assert any(f.truth is Truth.TRUE for f in told)
    in_words = {SignalId.TTFT_P50, SignalId.ITL_P50} if "objective" in text else set()
    assert {name for name in weighed if f"`{name}`" not in text} <= in_words
    heads = [line.partition(":")[0] for line in text.splitlines() if line.startswith("- `")]
    explained = {name for head in heads for name in re.findall(r"`(\w+)`", head)}
    assert explained
    assert explained <= {*SignalId, *(t.name for t in rule.thresholds)}


def test_page_of_a_finding_and_of_a_fallback() -> None:
    """What they are is said first."""
    assert "stands beside the verdict and never replaces it" in rule_page(invented("pd_ratio"), PROSE)
    left = rule_page(invented("healthy", fallback=True), PROSE)
    assert "judged only where no other rule of a verdict holds" in left
    assert "judged only" not in rule_page(invented(), PROSE)
    assert f"number {ORDER.index(Verdict.KV_PINNED) + 1} of {len(ORDER)}" in rule_page(invented(), PROSE)


def test_threshold_table_is_safe() -> None:
    """A bar in a reason does not make a column."""
    rule = invented(thresholds=(Threshold("usage", 1.0, Unit.RATIO, "a | b"), Threshold("queue", 2.5, Unit.COUNT, "c")))
    page = section(rule_page(rule, PROSE), "Thresholds")
    assert "| `usage` | 1 | ratio | a \\| b |" in page
    assert "  kv_pinned: {usage: 1, queue: 2.5}" in page


@pytest.mark.parametrize(
    "text",
    [
        "",
        PROSE.replace("## Why", "## Because"),
        PROSE + "## More\n\nx\n",
        PROSE + "## Why\n\nx\n",
        "Before.\n\n" + PROSE,
        "".join(reversed(PROSE.split("\n\n"))),
    ],
    ids=["nothing", "another heading", "one more", "one twice", "text before", "order"],
)
def test_prose_of_another_form_is_an_error(text: str) -> None:
    """The message names the rule."""
    with pytest.raises(ValueError, match="prose of kv_pinned: its headings are"):
        rule_page(invented(), text)


def test_empty_section_is_an_error() -> None:
    """It is named."""
    with pytest.raises(ValueError, match="nothing stands under Signals, References"):
        rule_page(invented(), PROSE.replace("About signals.", "").replace("About references.", ""))


def test_every_word_of_the_vocabulary_has_a_meaning() -> None:
    """One line each, in the order of the vocabulary."""
    assert list(MEANINGS) == list(Verdict)
    assert all(text.endswith(".") and "\n" not in text and len(text) < 100 for text in MEANINGS.values())


@pytest.mark.parametrize("verdict", Verdict)
def test_page_of_a_verdict(verdict: Verdict) -> None:
    """Without a rule it says so plainly."""
    without, with_rule = verdict_page(verdict, ()), verdict_page(verdict, [invented(verdict)])
    for page in (without, with_rule):
        assert page.startswith(f"# {verdict}\n\nA verdict; stage: {verdict.stage}; ")
        assert MEANINGS[verdict] in page
    assert "No rule of this version concludes it, so it is never said." in without
    assert f"The rule `{verdict}` concludes it." in with_rule


def test_page_of_all_verdicts() -> None:
    """A row each, a link where there is a page, the order as it is applied, findings apart."""
    page = verdicts_page([invented(), invented("pd_ratio")], "# Verdicts\n\nTwo answers.\n")
    assert page.startswith("# Verdicts\n\nTwo answers.\n\n## All verdicts\n")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \| (.*) \|$", page, re.MULTILINE)
    assert [(name, stage, text) for name, stage, text, _ in rows] == [(v, v.stage, MEANINGS[v]) for v in Verdict]
    assert {link for name, _, _, link in rows if name == "kv_pinned"} == {"[kv_pinned](rules/kv_pinned.md)"}
    assert {link for name, _, _, link in rows if name != "kv_pinned"} == {"no rule in this version"}
    assert re.findall(r"^\d+\. `(\w+)`$", page, re.MULTILINE) == list(ORDER)
    assert "| `pd_ratio` | [pd_ratio](rules/pd_ratio.md) |" in page
    assert "Findings beside" not in verdicts_page([invented()], "# Verdicts\n")


def test_fixtures_and_bundles_that_pages_cite_exist() -> None:
    """A reference can be followed."""
    root = Path(__file__).parents[2]
    cited = {path for name in names() for path in re.findall(r"`(tests/[^`]+)`", prose(name))}
    assert cited
    assert all((root / path).exists() for path in cited)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("It is slow: very much so.", "It is slow."),
        ("It is slow\nand old. Very much so.", "It is slow and old."),
        ("At 0.9 it is slow.", "At 0.9 it is slow."),
        ("It is slow", "It is slow."),
    ],
)
def test_a_page_in_a_line(text: str, line: str) -> None:
    """Up to the first colon or full stop, on one line."""
    assert in_a_line(PROSE.replace("About what it means.", text)) == line
