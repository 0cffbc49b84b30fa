"""`pdscope explain [VERDICT]`: the page of a rule, or the list of all verdicts."""

from __future__ import annotations

import argparse

from pdscope.cli.base import Commands
from pdscope.errors import UsageError
from pdscope.model.finding import Verdict


def register(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser("explain", help="what a verdict means, its evidence, its remedies and their cost")
    command.add_argument("verdict", nargs="?", metavar="VERDICT", help="a verdict or finding; without: list them")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the page, or the list.

    Raises:
        UsageError: no such verdict or finding.
    """
    from pdscope.pages import prose
    from pdscope.render.pages import MEANINGS, in_a_line, rule_page, verdict_page
    from pdscope.runtime.plugins import load_plugins

    rules = {rule.id: rule for rule in load_plugins().rules}
    if options.verdict is None:
        for verdict in Verdict:
            mark = " " if verdict.value in rules else "-"
            print(f"{mark} {verdict.value:<24} {MEANINGS[verdict]}")
        print("\nFindings beside the verdict, which never replace it:")
        for rule in rules.values():
            if rule.verdict is None:
                print(f"  {rule.id:<24} {in_a_line(prose(rule.id))}")
        print("\n(- no rule in this version: never said)")
        return 0
    if options.verdict in rules:
        print(rule_page(rules[options.verdict], prose(options.verdict)), end="")
        return 0
    if options.verdict in [*Verdict]:
        print(verdict_page(Verdict(options.verdict), tuple(rules.values())), end="")
        return 0
    raise UsageError(f"explain: {options.verdict!r} is neither a verdict nor a finding; `pdscope explain` lists them")
