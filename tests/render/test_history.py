"""`/diagnose/history` as JSON."""

from __future__ import annotations

import json

from pdscope.model.finding import Confidence, Phase, Verdict
from pdscope.model.history import Change, Entry, Past, Shift
from pdscope.model.signal import SignalId
from pdscope.render.history import history_json

AT = 1_700_000_000.0


def test_the_document() -> None:
    """Times as RFC 3339, units beside the figures."""
    entry = Entry(AT, Verdict.HEALTHY, Phase.WITHIN_SLO, Confidence.HIGH, "all is well")
    change = Change(
        at=AT + 5.5,
        deployment="pd",
        before=Verdict.HEALTHY,
        after=Verdict.PREFILL_QUEUE,
        summary="p0 queues",
        shifts=(Shift(SignalId.TTFT_P50, 0.5, 3.0), Shift(SignalId.QUEUED, 0.0, 12.0)),
    )
    document = json.loads(history_json([Past("pd", (entry,), (change,)), Past("new")]))
    assert document == {
        "schema_version": 1,
        "deployments": [
            {
                "name": "pd",
                "diagnoses": [
                    {
                        "at": "2023-11-14T22:13:20.000Z",
                        "verdict": "healthy",
                        "phase": "within_slo",
                        "confidence": "high",
                        "summary": "all is well",
                    }
                ],
                "changes": [
                    {
                        "at": "2023-11-14T22:13:25.500Z",
                        "before": "healthy",
                        "after": "prefill_queue",
                        "summary": "p0 queues",
                        "changed": [
                            {"signal": "ttft_p50_seconds", "unit": "seconds", "before": 0.5, "after": 3.0},
                            {"signal": "queued_requests", "unit": "requests", "before": 0.0, "after": 12.0},
                        ],
                    }
                ],
            },
            {"name": "new", "diagnoses": [], "changes": []},
        ],
    }
