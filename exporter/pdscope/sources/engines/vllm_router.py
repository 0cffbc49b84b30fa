"""vllm-router 0.1: the router of the vLLM project, sequential in prefill/decode mode.

Observed on 0.1.17. It measures no TTFT histogram (`pd_decode_pending_seconds` is a summary, whose quantiles cannot be
aggregated), so the user's TTFT is composed from the engines; what it knows is how much arrives.
"""

from __future__ import annotations

from pdscope.model.metric import Metric
from pdscope.model.topology import EngineProfile, Routing
from pdscope.sources.adapter import Adapter, Series
from pdscope.sources.promises import promise
from pdscope.sources.settings.routers import VLLM_ROUTER

PROFILE = EngineProfile(
    name="vllm_router",
    routing=Routing.SEQUENTIAL,
    enable={"metrics": "--prometheus-port of the router"},
    settings=VLLM_ROUTER,
    workers="curl -s {url}/metrics | grep vllm_router_  # health and load of each worker that the router sees",
)

ADAPTERS = (
    Adapter(
        name="vllm_router",
        probe=("vllm_router_",),
        router=True,
        profile=PROFILE,
        promised=(promise(Metric.REQUESTS_ARRIVED),),
        series={
            Metric.REQUESTS_ARRIVED: (Series("vllm_router_pd_requests_total", lazy=True),),
            Metric.DECODE_PENDING: (Series("vllm_router_pd_pending_decode_requests"),),
            Metric.IN_FLIGHT: (Series("vllm_router_pd_active_decode_requests"),),
        },
    ),
)
