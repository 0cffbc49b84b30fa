"""Pages about verdicts. Thresholds and remedies are written from the rules: a page cannot differ from its rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pdscope.diagnosis.base import Rule
from pdscope.diagnosis.engine import ORDER
from pdscope.diagnosis.remedies import adds_instances, remedies_for
from pdscope.model.finding import Verdict

MEANINGS: Mapping[Verdict, str] = {
    Verdict.HEALTHY: "The objectives are met and nothing is near a limit.",
    Verdict.IDLE: "Too few requests to judge, and nothing waits.",
    Verdict.INSUFFICIENT_DATA: "Cannot tell; says which signal is missing and how to get it.",
    Verdict.METRICS_UNTRUSTED: "A number on which the answer would hang contradicts itself.",
    Verdict.UNDETERMINED: "An objective is broken and no rule separates the cause.",
    Verdict.PREFILL_COMPUTE: "Prefill computes at its limit, and requests wait for it.",
    Verdict.PREFILL_QUEUE: "Requests wait for prefill although its devices do not compute at their limit.",
    Verdict.KV_TRANSFER_BANDWIDTH: "KV demand reaches what the interconnect can carry.",
    Verdict.KV_TRANSFER_PATH: "The KV transfer takes a wrong path: TCP, or a part of the NICs.",
    Verdict.KV_TRANSFER_FRAGMENTED: "Many small descriptors: posting a transfer costs more than moving it.",
    Verdict.KV_TRANSFER_SETUP: "Handshake, bootstrap or control path of the transfer is slow while the link is not.",
    Verdict.KV_TRANSFER_FAILING: "KV transfers or bootstraps fail or time out.",
    Verdict.KV_PINNED: "Prefill's KV pool is full of finished prompts that decode has not fetched.",
    Verdict.DECODE_HBM_BANDWIDTH: "Decode reads KV and weights at the limit of its memory bandwidth.",
    Verdict.DECODE_KV_CAPACITY: "The KV pool of decode is full: requests are pushed out, or nothing moves any more.",
    Verdict.DECODE_ADMISSION: "Decode cannot let transferred requests in: no slot, or no memory for the next one.",
    Verdict.ROUTER_IMBALANCE: "Some instances are hot and others of the same role idle.",
    Verdict.FRONTEND_BOUND: "The wait is in the router, the proxy, the tokenizer or the detokenizer.",
    Verdict.HOST_BOUND: "CPU or scheduler: neither compute nor memory bandwidth is busy, and yet steps are slow.",
    Verdict.CUDA_GRAPH_MISS: "The decode batch is larger than the captured CUDA graphs.",
    Verdict.HARDWARE_DEGRADED: "One device is slow, throttled or capped in power.",
    Verdict.WORKLOAD_MISMATCH: "Disaggregation does not pay for this traffic, or nothing is transferred at all.",
}
"""What each verdict says, in a line; in the order of the vocabulary."""

WRITTEN = ("What it means", "Signals", "Why", "False positives", "References")
"""Headings that the prose of a rule has, in this order; the others are generated."""


def rule_page(rule: Rule, prose: str) -> str:
    """The page of a rule, as Markdown: its prose with its thresholds and remedies put in.

    Args:
        rule: whose thresholds and remedies are listed.
        prose: with a section `## ` for each of `WRITTEN`.

    Raises:
        ValueError: the prose has other headings, or an empty section.
    """
    texts = _sections(rule.id, prose)
    sections = (
        ("What it means", texts["What it means"]),
        ("Signals", texts["Signals"]),
        ("Thresholds", _thresholds(rule)),
        ("Why", texts["Why"]),
        ("Remedies and their cost", _remedies(rule)),
        ("False positives", texts["False positives"]),
        ("References", texts["References"]),
    )
    head = f"# {rule.id}\n\n{_kind(rule)}\n"
    return head + "".join(f"\n## {title}\n\n{text}\n" for title, text in sections)


def verdict_page(verdict: Verdict, rules: Iterable[Rule]) -> str:
    """The page of a word of the vocabulary, whether or not a rule of this version can conclude it.

    Args:
        verdict: the word.
        rules: all rules of this version.
    """
    rule = next((r for r in rules if r.verdict is verdict), None)
    if rule is not None:
        said = f"The rule `{rule.id}` concludes it."
    else:
        said = (
            "No rule of this version concludes it, so it is never said. The word exists all the same: `/metrics` "
            "exports every verdict, so that dashboards and alerts need not change when its rule comes."
        )
    return f"# {verdict}\n\n{_place(verdict)}\n\n## What it means\n\n{MEANINGS[verdict]}\n\n{said}\n"


def in_a_line(prose: str) -> str:
    """What a rule says, as its page begins: up to the first full stop or colon."""
    text = " ".join(_sections("", prose)["What it means"].split())
    return re.split(r"[.:](?: |$)", text, maxsplit=1)[0] + "."


def verdicts_page(rules: Sequence[Rule], prose: str) -> str:
    """All verdicts in one table, and their order of evidence.

    Args:
        rules: all rules of this version.
        prose: what stands before the tables.
    """
    by_verdict = {rule.verdict: rule for rule in rules}
    rows = [
        (f"`{verdict}`", verdict.stage, meaning, _link(by_verdict.get(verdict)))
        for verdict, meaning in MEANINGS.items()
    ]
    beside = [(f"`{rule.id}`", _link(rule)) for rule in rules if rule.verdict is None]
    text = f"{prose.rstrip()}\n\n## All verdicts\n\n{_table(('verdict', 'stage', 'it says', 'page'), rows)}\n"
    if beside:
        text += f"\n## Findings beside the verdict\n\nThey never replace it.\n\n{_table(('finding', 'page'), beside)}\n"
    order = "\n".join(f"{number}. `{verdict}`" for number, verdict in enumerate(ORDER, 1))
    return f"{text}\n## Order of evidence\n\nThe first that holds is the verdict.\n\n{order}\n"


def _sections(name: str, prose: str) -> dict[str, str]:
    before, *rest = re.split(r"^## (.*)$", prose, flags=re.MULTILINE)
    texts = {title.strip(): text.strip() for title, text in zip(rest[::2], rest[1::2], strict=True)}
    if before.strip() or tuple(texts) != WRITTEN or len(rest) != 2 * len(WRITTEN):
        raise ValueError(f"prose of {name}: its headings are {', '.join(rest[::2])}; they must be {', '.join(WRITTEN)}")
    empty = [title for title, text in texts.items() if not text]
    if empty:
        raise ValueError(f"prose of {name}: nothing stands under {', '.join(empty)}")
    return texts


def _kind(rule: Rule) -> str:
    if rule.verdict is None:
        return "A finding that stands beside the verdict and never replaces it."
    last = " It is judged only where no other rule of a verdict holds." if rule.fallback else ""
    return _place(rule.verdict) + last


def _place(verdict: Verdict) -> str:
    place = f"number {ORDER.index(verdict) + 1} of {len(ORDER)} in the order of evidence"
    return f"A verdict; stage: {verdict.stage}; {place}."


def _thresholds(rule: Rule) -> str:
    if not rule.thresholds:
        return "None."
    rows = [(f"`{t.name}`", f"{t.default:g}", t.unit, t.why) for t in rule.thresholds]
    given = ", ".join(f"{t.name}: {t.default:g}" for t in rule.thresholds)
    return (
        f"{_table(('name', 'default', 'unit', 'why'), rows)}\n\n"
        "Set in the configuration, for all deployments or for one:\n\n"
        f"```yaml\nthresholds:\n  {rule.id}: {{{given}}}\n```"
    )


def _remedies(rule: Rule) -> str:
    remedies = remedies_for(rule.remedies)
    if not remedies:
        return "None: this answer asks for nothing to be changed."
    rows = [(f"`{r.id}`", r.action, r.cost, r.precondition) for r in remedies]
    text = _table(("remedy", "what to do", "what it costs", "helps when"), rows)
    withheld = [f"`{r.id}`" for r in remedies if adds_instances(r)]
    return text + (f"\n\n{_withheld(withheld)}" if withheld else "") + f"\n\n{_SETTINGS}"


_SETTINGS = "An answer names those that fit the case, with the setting as its engine spells it: see docs/settings.md."


def _withheld(names: Sequence[str]) -> str:
    return (
        f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} withheld while `kv_transfer_bandwidth` holds: "
        "more instances ask more of a link that is full."
    )


def _link(rule: Rule | None) -> str:
    return "no rule in this version" if rule is None else f"[{rule.id}](rules/{rule.id}.md)"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
