"""The SGLang model gateway (smg 1.13) in front of the instances: what it counts itself, and what it polls from workers.

The handler of a request starts when it comes in and shares the gateway's CPU with all others, so the time to the first
token of decode's answer is what the client waits, the gateway's own work included. A request whose client has gone gets
no answer; it is over when prefill answers, or has given it up.
"""

from __future__ import annotations

from math import isnan

from pdscope.demo.pages.dialect import RUST
from pdscope.demo.pages.exposition import Exposition
from pdscope.demo.pages.families import families
from pdscope.demo.pages.hosts import Instance, instances
from pdscope.demo.physics.clock import Level
from pdscope.demo.physics.observer import Observer
from pdscope.demo.physics.request import End, Request
from pdscope.demo.physics.simulation import Simulation

_POLL_SECONDS = 10.0
_PATH = "/v1/chat/completions"
_PORTS = {"sglang": 30_000, "vllm": 8000}
_IDLE_TASKS = 31
_TASKS_PER_REQUEST = 4
_LOOP_DELAY_SECONDS = 0.002
_LOOP_SAMPLES_A_POLL = 100
_PARKS_A_POLL = 150
_ADMISSION_WINDOW = 64
_AT_REST = ("cb_state", "cb_consecutive_failures", "cb_consecutive_successes", "cb_health_readmissions_total", "http2")
_BREAKER = (
    ("closed", "open"),
    ("half_open", "closed"),
    ("half_open", "open"),
    ("open", "closed"),
    ("open", "half_open"),
)


class Smg(Observer):
    """The gateway. It watches the simulation from its beginning.

    Args:
        simulation: as it was made.
    """

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._workers = tuple(
            (f"http://{one.name}:{_PORTS[simulation.draw.engine]}", one) for one in instances(simulation)
        )
        self._model = simulation.draw.model
        self._backend = "regular" if simulation.draw.deployment.unified_instances else "pd"
        self._page = Exposition(families("smg"), RUST, common={})
        self._open: set[Request] = set()
        self._polled_tokens: dict[str, int] = {}
        self._polled_busy_seconds = 0.0
        self._start()
        simulation.watch(self)
        simulation.clock.after(_POLL_SECONDS, self._poll)

    def metrics(self) -> bytes:
        """The body of `GET /metrics`."""
        page = self._page
        inflight = len(self._open)
        if self._simulation.requests:
            page.put("smg_admission_inflight", inflight)
        page.put("smg_http_connections_active", inflight)
        page.put("smg_tokio_alive_tasks", _IDLE_TASKS + _TASKS_PER_REQUEST * inflight)
        for worker, instance in self._workers:
            load = self._load(instance)
            page.put("smg_worker_requests_total", load.entered, worker, self._model)
            if load.entered:
                page.put("smg_worker_requests_active", load.value, worker)
        return page.render()

    def stamped(self, request: Request, stamp: str) -> None:
        """A request goes on."""
        match stamp:
            case "arrived_at":
                self._arrived(request)
            case "routed_at":
                self._routed(request)
            case "first_token_at" if self._backend == "pd":
                seconds = request.first_token_at - request.arrived_at
                self._page.observe("smg_pd_ttft_seconds", seconds, "pd", self._model, self._simulation.draw.engine)
            case "prefill_ended_at" if self._simulation.draw.engine == "vllm":
                self._prefill_answered(request, request.prefill_ended_at)
            case "prefill_released_at" if self._simulation.draw.engine == "sglang" and not isnan(
                request.transferred_at
            ):
                self._prefill_answered(request, request.prefill_released_at)

    def ended(self, request: Request) -> None:
        """Its answer is out, or will not come."""
        if request.end is End.ORPHANED:
            self._open.discard(request)
            return
        page = self._page
        is_well = request.end is End.FINISHED
        self._outcome(self._worker(request, is_prefill=False), is_well=is_well)
        if not is_well:
            self._error(request)
        self._open.remove(request)
        seconds = request.ended_at - request.arrived_at
        page.add("smg_http_responses_total", 1, _PATH, "200" if is_well else "500", "")
        page.observe("smg_http_request_duration_seconds", seconds, "POST", _PATH)
        if is_well:
            labels = ("http", self._backend, "http", self._model, "chat")
            page.observe("smg_router_request_duration_seconds", seconds, *labels)

    def _arrived(self, request: Request) -> None:
        page = self._page
        self._open.add(request)
        page.add("smg_router_requests_total", 1, "http", self._backend, "http", self._model, "chat", "true")
        page.add("smg_http_requests_total", 1, "POST", _PATH)
        page.add("smg_http_rate_limit_total", 1, "allowed")
        page.add("smg_router_request_body_path_total", 1, "buffered", self._backend)

    def _routed(self, request: Request) -> None:
        policy = "cache_aware" if self._simulation.draw.frontend.affinity else "power_of_two"
        kinds = ("regular",) if request.prefill < 0 else ("prefill", "decode")
        for kind in kinds:
            self._page.add("smg_worker_selection_total", 1, kind, "http", self._model, policy)

    def _prefill_answered(self, request: Request, at: float) -> None:
        engine = self._simulation.draw.engine
        self._page.observe("smg_pd_prefill_duration_seconds", at - request.routed_at, "pd", self._model, engine)
        self._outcome(self._worker(request, is_prefill=True), is_well=True)
        if request.is_orphan:
            self._open.discard(request)

    def _error(self, request: Request) -> None:
        """Told by the worker that answers the user, and by prefill where its answer had to wait for the transfer."""
        name, labels = "smg_worker_errors_total", ("http", "backend_error")
        self._page.add(name, 1, "regular" if request.prefill < 0 else "decode", *labels)
        if request.prefill >= 0 and self._simulation.draw.engine == "sglang":
            self._page.add(name, 1, "prefill", *labels)
            self._outcome(self._worker(request, is_prefill=True), is_well=False)

    def _worker(self, request: Request, *, is_prefill: bool) -> str:
        number = request.prefill if is_prefill else request.decode
        return next(
            name for name, one in self._workers if (one.role == "prefill") is is_prefill and one.number == number
        )

    def _outcome(self, worker: str, *, is_well: bool) -> None:
        page = self._page
        page.add("smg_worker_cb_outcomes_total", is_well, worker, "success")
        page.add("smg_worker_cb_outcomes_total", not is_well, worker, "failure")
        row, other = "smg_worker_cb_consecutive_successes", "smg_worker_cb_consecutive_failures"
        if not is_well:
            row, other = other, row
        page.add(row, 1, worker)
        page.put(other, 0, worker)

    def _load(self, instance: Instance) -> Level:
        router = self._simulation.router
        loads = router.prefill_load if instance.role == "prefill" else router.decode_load
        return loads[instance.number]

    def _start(self) -> None:
        page = self._page
        for family in families("smg"):
            for labels, value in family.start:
                if family.kind == "histogram":
                    page.show(family.name, *labels)
                else:
                    page.put(family.name, value, *labels)
        for worker, instance in self._workers:
            kind = "regular" if instance.role == "unified" else instance.role
            page.add("smg_worker_pool_size", 1, kind, "http", self._model)
            page.add("smg_worker_health_checks_total", 1, kind, "success")
            page.put("smg_worker_health", 1, worker)
            for name in _AT_REST:
                page.put(f"smg_worker_{name}", 0, worker)
            for before, after in _BREAKER:
                page.put("smg_worker_cb_transitions_total", 0, worker, before, after)
            if instance.role == "decode":
                page.put("smg_pd_admission_window", _ADMISSION_WINDOW, worker)
        self._read_workers(0.0)
        for thread in ("0", "1"):
            page.put("smg_tokio_worker_parks_total", 0, thread)
            page.put("smg_tokio_worker_busy_ratio", 0, thread)

    def _poll(self) -> None:
        """Every few seconds the gateway reads its workers, and its runtime reports on itself."""
        page = self._page
        self._read_workers(_POLL_SECONDS)
        for _, instance in self._workers:
            kind = "regular" if instance.role == "unified" else instance.role
            page.add("smg_worker_health_checks_total", 1, kind, "success")
        busy = self._simulation.router.server.busy_seconds
        share = min(1.0, (busy - self._polled_busy_seconds) / _POLL_SECONDS)
        self._polled_busy_seconds = busy
        for thread in ("0", "1"):
            page.add("smg_tokio_worker_parks_total", round(_PARKS_A_POLL * (1.0 - share)), thread)
            page.put("smg_tokio_worker_busy_ratio", share, thread)
        delay = _LOOP_DELAY_SECONDS * (1.0 + share)
        page.observe("smg_tokio_event_loop_delay_seconds", delay, times=_LOOP_SAMPLES_A_POLL)
        self._simulation.clock.after(_POLL_SECONDS, self._poll)

    def _read_workers(self, seconds: float) -> None:
        page = self._page
        for worker, instance in self._workers:
            tokens, running, waiting, used = self._state(instance)
            made = tokens - self._polled_tokens.get(worker, 0)
            self._polled_tokens[worker] = tokens
            labels = (worker, self._model, "0")
            page.add("smg_engine_load_polls_total", 1, worker, "poll")
            page.put("smg_engine_gen_throughput", made / seconds if seconds else 0.0, *labels)
            page.put("smg_engine_running_requests", running, *labels)
            page.put("smg_engine_waiting_requests", waiting, *labels)
            page.put("smg_engine_token_usage", used / instance.pool_tokens, *labels)
            page.put("smg_engine_cache_hit_rate", 0, *labels)

    def _state(self, instance: Instance) -> tuple[int, int, int, int]:
        """Tokens given so far, running and waiting requests, and pool tokens in use."""
        if instance.role == "prefill":
            prefill = self._simulation.prefills[instance.number].state()
            waiting = prefill.bootstrapping + prefill.waiting + prefill.inflight
            return 0, 0, waiting, prefill.held_tokens
        decode = self._simulation.decodes[instance.number]
        state = decode.state()
        waiting = state.handshaking + state.queued + state.transferring + state.ready + state.retracted
        return decode.stepper.tokens, state.running, waiting, state.held_tokens
