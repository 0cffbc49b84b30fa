"""Deployments of SGLang under simulated load, shared by the tests of its pages."""

from __future__ import annotations

from dataclasses import replace

from pdscope.demo.physics.draw import Decode, Deployment, Draw, Link, Traffic

TRAFFIC = Traffic(requests_per_second=3.0, shared_tokens=600, prompt_limit=20_000)
HEALTHY = Draw(traffic=TRAFFIC)
UNIFIED = replace(HEALTHY, deployment=Deployment(0, 0, 2))
TROUBLED = Draw(
    deployment=Deployment(2, 1),
    link=Link(failing_pairs=((1, 0),)),
    decode=Decode(pool_tokens=26_000, reserved_tokens=16),
    traffic=replace(TRAFFIC, orphan_share=0.05, output_tokens=600.0),
)
