"""The past of deployments as the JSON of `/diagnose/history`: schema version 1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from pdscope.model.history import Change, Entry, Past
from pdscope.render.json import timestamp

SCHEMA_VERSION = 1


def history_json(pasts: Iterable[Past]) -> bytes:
    """UTF-8 JSON, indented; diagnoses and changes oldest first."""
    document = {"schema_version": SCHEMA_VERSION, "deployments": [_deployment(past) for past in pasts]}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def _deployment(past: Past) -> dict[str, Any]:
    return {
        "name": past.deployment,
        "diagnoses": [_entry(entry) for entry in past.entries],
        "changes": [_change(change) for change in past.changes],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "at": timestamp(entry.at),
        "verdict": entry.verdict,
        "phase": entry.phase,
        "confidence": entry.confidence,
        "summary": entry.summary,
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "at": timestamp(change.at),
        "before": change.before,
        "after": change.after,
        "summary": change.summary,
        "changed": [
            {"signal": shift.signal, "unit": shift.signal.unit, "before": shift.before, "after": shift.after}
            for shift in change.shifts
        ],
    }
