"""The SGLang model gateway (smg 1.13) and its predecessor sglang_router 0.3, which prints the same `smg_` names.

Observed on both in front of stand-in workers. What matters here:

* `smg_pd_ttft_seconds` is the client's wait; `smg_router_ttft_seconds` with backend `pd` is the decode leg only.
* `smg_router_requests_total` counts what arrives, requests that are turned away included.
* `smg_pd_prefill_duration_seconds` ends when prefill answers: after the transfer for SGLang, before it for vLLM. It is
  not read, since it does not say which.
* The gateway prints what it read from its workers (`smg_engine_*`, `sglang_*`): never an engine's own page.
"""

from __future__ import annotations

from pdscope.model.metric import Fact, Metric
from pdscope.model.topology import EngineProfile
from pdscope.sources.adapter import Adapter, Series
from pdscope.sources.promises import promise
from pdscope.sources.settings.routers import SMG

PROFILE = EngineProfile(
    name="smg",
    enable={"metrics": "--prometheus-host and --prometheus-port of the gateway"},
    settings=SMG,
    workers="curl -s {url}/metrics | grep smg_worker_  # health, breaker and load of each worker that the gateway sees",
)

ADAPTERS = (
    Adapter(
        name="smg",
        probe=("smg_",),
        router=True,
        facts={Fact.MODEL: "model"},
        profile=PROFILE,
        promised=(promise(Metric.REQUESTS_ARRIVED),),
        series={
            Metric.TTFT: (Series("smg_pd_ttft_seconds", lazy=True),),
            Metric.REQUESTS_ARRIVED: (Series("smg_router_requests_total", lazy=True),),
            Metric.IN_FLIGHT: (Series("smg_admission_inflight"),),
        },
    ),
)
