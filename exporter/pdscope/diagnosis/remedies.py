"""The catalogue of remedies: what to do, what it costs, when it helps. Settings are spelt by the engine's own file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pdscope.diagnosis.catalogue import decode, host, prefill, service, transfer
from pdscope.diagnosis.catalogue.entry import Entry
from pdscope.diagnosis.spelling import concerned, setting
from pdscope.model.finding import Remedy, Verdict
from pdscope.model.topology import Deployment

TOPICS: tuple[Mapping[str, Entry], ...] = (
    prefill.ENTRIES,
    transfer.ENTRIES,
    decode.ENTRIES,
    host.ENTRIES,
    service.ENTRIES,
)

CATALOGUE: Mapping[str, Entry] = {name: entry for topic in TOPICS for name, entry in topic.items()}
"""Every remedy by its id."""


def remedies_for(
    ids: Iterable[str], deployment: Deployment | None = None, culprits: Collection[str] = ()
) -> tuple[Remedy, ...]:
    """Catalogue entries with the setting as the programs that they are about spell it; without a deployment none.

    Raises:
        KeyError: an id is not in the catalogue: a mistake of ours, found by the first test that runs.
    """
    return tuple(
        Remedy(
            id=i,
            action=e.action,
            cost=e.cost,
            precondition=e.precondition,
            setting=None if deployment is None else setting(i, concerned(e.at, deployment, culprits)),
        )
        for i in ids
        for e in (CATALOGUE[i],)
    )


def lacking(remedy: str, deployment: Deployment, culprits: Collection[str] = ()) -> bool:
    """Whether every program that the remedy is about lacks such a thing."""
    profiles = concerned(CATALOGUE[remedy].at, deployment, culprits)
    return bool(profiles) and all(remedy in p.lacks for p in profiles)


def adds_instances(remedy: Remedy) -> bool:
    """Whether the remedy adds prefill or decode: pointless, or worse, while the link is full."""
    return CATALOGUE[remedy.id].adds_instances


def futile_while(remedy: Remedy) -> frozenset[Verdict]:
    """Verdicts beside which the remedy does no good, whatever rule proposes it."""
    return CATALOGUE[remedy.id].futile_while


def undo_each_other(one: str, other: str) -> bool:
    """Whether one of the two remedies works against the other."""
    return other in CATALOGUE[one].undoes or one in CATALOGUE[other].undoes
