"""NVIDIA Dynamo 1.6: the frontend (a router) and the workers.

Observed on 1.6.1 with mocker workers. What matters here:

* The frontend's TTFT is what the user waits, tokenization included.
* A worker passes the series of its engine through on the same page; the engine's own adapter reads them.
* `request_duration_seconds` of a prefill worker is compute plus KV hold: it is just as high when the link is slow.
* `router_time_to_first_token_seconds` is prefill's answer, so what lies between the two is the hand-over.
* The frontend prints no series of requests before the first one; then each counts from zero.
"""

from __future__ import annotations

from pdscope.model.metric import Fact, Metric
from pdscope.model.topology import EngineProfile, Role, Routing
from pdscope.sources.adapter import Adapter, Series
from pdscope.sources.promises import promise
from pdscope.sources.settings import dynamo as settings

PROFILE = EngineProfile(
    name="dynamo",
    routing=Routing.CONCURRENT,
    prefill_finish_includes_transfer=True,
    default_page_tokens=64,
    settings=settings.SETTINGS,
    queries=settings.QUERIES,
    enable={
        "metrics": "DYN_SYSTEM_PORT on each worker",
        "max_running_requests": "max_running of the instance in the configuration",
        "prefill_busy_ratio": "device telemetry (dcgm-exporter)",
    },
    workers="curl -s {url}/metrics | grep dynamo_frontend_worker_  # load of each worker, by worker_id and worker_type",
)

# Prometheus renames a label that its own target labels hide, and may have renamed the worker's.
_GENERATE = {"dynamo_endpoint": "generate", "exported_endpoint": "generate"}

FRONTEND = Adapter(
    name="dynamo",
    probe=("dynamo_frontend_",),
    prefix_setting="DYN_METRICS_PREFIX",
    router=True,
    rank_labels=("worker_id",),  # in decimal; the worker's own page writes it in hexadecimal
    facts={Fact.MODEL: "model"},
    profile=PROFILE,
    promised=(promise(Metric.TTFT, Metric.ITL, Metric.REQUESTS_ARRIVED, Metric.REQUESTS_FINISHED),),
    series={
        Metric.TTFT: (Series("dynamo_frontend_time_to_first_token_seconds", lazy=True),),
        Metric.ITL: (Series("dynamo_frontend_inter_token_latency_seconds", lazy=True),),
        Metric.REQUESTS_ARRIVED: (Series("dynamo_frontend_requests_started_total", lazy=True),),
        Metric.REQUESTS_FINISHED: (Series("dynamo_frontend_requests_total", lazy=True),),
        Metric.GENERATED_TOKENS: (Series("dynamo_frontend_output_tokens_total", lazy=True),),
        Metric.PROMPT_LENGTH: (Series("dynamo_frontend_input_sequence_tokens", lazy=True),),
        Metric.IN_FLIGHT: (Series("dynamo_frontend_inflight_requests"),),
        Metric.PREFILL_PENDING: (Series("dynamo_frontend_stage_requests", {"stage": "dispatch", "phase": "prefill"}),),
        Metric.DECODE_PENDING: (Series("dynamo_frontend_stage_requests", {"stage": "dispatch", "phase": "decode"}),),
        Metric.WORKER_PREFILL_TOKENS: (Series("dynamo_frontend_worker_active_prefill_tokens"),),
        Metric.PREFILL_STAGE_TIME: (Series("dynamo_component_router_time_to_first_token_seconds"),),
        Metric.KV_POOL_PAGES: (Series("dynamo_frontend_model_total_kv_blocks", valid=(1, 1e15)),),
        Metric.PAGE_TOKENS: (Series("dynamo_frontend_model_kv_cache_block_size"),),
    },
)

WORKER = Adapter(
    name="dynamo_worker",
    probe=("dynamo_component_",),
    prefix_setting="DYN_METRICS_PREFIX",
    facts={Fact.ROLE: "dynamo_component", Fact.WORKER_ID: "worker_id"},
    roles={"prefill": Role.PREFILL, "backend": Role.DECODE},
    profile=PROFILE,
    promised=(promise(Metric.IN_FLIGHT, Metric.REQUESTS_ARRIVED),),
    series={
        Metric.IN_FLIGHT: (Series("dynamo_component_inflight_requests", _GENERATE),),
        Metric.REQUESTS_ARRIVED: (Series("dynamo_component_requests_total", _GENERATE),),
        Metric.HANDOVER_TIME: (
            Series("dynamo_component_request_duration_seconds", {**_GENERATE, "dynamo_component": "prefill"}),
        ),
    },
)

ADAPTERS = (FRONTEND, WORKER)
