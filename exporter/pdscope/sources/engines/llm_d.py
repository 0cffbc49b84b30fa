"""llm-d's endpoint picker (EPP), a router: what it measures of the requests that it sends to the engines.

Names by its documentation and source (`pkg/epp/metrics/metrics.go`); no page was recorded. What matters here:

* Series of requests have no sample before the first one; then each counts from zero.
* `inference_pool_average_*` are means over pods and no sums, and what they repeat the engines' own pages say better.
* `request_tpot_seconds` is one mean a request: long and short answers weigh the same, so it is not read as ITL.
* The sidecar that moves requests between prefill and decode exports nothing.
"""

from __future__ import annotations

from pdscope.model.metric import Fact, Metric
from pdscope.model.topology import EngineProfile, Routing
from pdscope.sources.adapter import Adapter, Series
from pdscope.sources.promises import promise
from pdscope.sources.settings.routers import LLM_D

PROFILE = EngineProfile(
    name="llm_d",
    routing=Routing.SEQUENTIAL,  # its sidecar asks prefill first and decode with prefill's answer
    enable={"metrics": "the metrics port of the endpoint picker (--metrics-port)"},
    settings=LLM_D,
    workers="curl -s {url}/metrics | grep inference_pool_per_pod_queue_size  # the queue of each pod",
)

ADAPTERS = (
    Adapter(
        name="llm_d",
        probe=("inference_objective_", "inference_extension_", "inference_pool_"),
        router=True,
        facts={Fact.MODEL: "model_name"},
        profile=PROFILE,
        promised=(promise(Metric.REQUESTS_ARRIVED, Metric.TTFT),),
        series={
            Metric.TTFT: (Series("inference_objective_request_ttft_seconds", lazy=True),),
            Metric.REQUESTS_ARRIVED: (Series("inference_objective_request_total", lazy=True),),
            Metric.PROMPT_LENGTH: (Series("inference_objective_input_tokens", lazy=True),),
            Metric.IN_FLIGHT: (Series("inference_objective_running_requests"),),
        },
    ),
)
