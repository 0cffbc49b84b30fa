"""The canonical vocabulary: what adapters translate engine series into. One metric, one quantity, one unit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from pdscope.model.units import Unit


class Kind(StrEnum):
    """How a value moves: a gauge is a state, a counter grows within one process, a histogram counts by bucket."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Across(StrEnum):
    """How the data-parallel ranks of one instance combine into the instance."""

    SUM = "sum"
    MAX = "max"
    MEAN = "mean"


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """Kind, unit and meaning of a metric; `across` says how ranks combine."""

    kind: Kind
    unit: Unit
    across: Across
    help: str


def _gauge(unit: Unit, text: str, across: Across = Across.SUM) -> MetricSpec:
    return MetricSpec(Kind.GAUGE, unit, across, text)


def _counter(unit: Unit, text: str, across: Across = Across.SUM) -> MetricSpec:
    return MetricSpec(Kind.COUNTER, unit, across, text)


def _histogram(unit: Unit, text: str) -> MetricSpec:
    return MetricSpec(Kind.HISTOGRAM, unit, Across.SUM, text)


class Metric(Enum):
    """Canonical metrics. The adapters' files say which series of which engine each one is."""

    # work present, by where it stands
    RUNNING = _gauge(Unit.REQUESTS, "Requests in the running batch")
    WAITING = _gauge(Unit.REQUESTS, "Requests that the scheduler holds back, for whatever reason")
    WAITING_CAPACITY = _gauge(Unit.REQUESTS, "Requests held back for lack of slots, memory or token budget")
    PREFILL_PENDING = _gauge(Unit.REQUESTS, "Requests that a router has sent to prefill and that are not answered")
    WORKER_PREFILL_TOKENS = _gauge(
        Unit.TOKENS, "Prompt tokens that a router has given to a worker and that are not computed, by worker"
    )
    DECODE_PENDING = _gauge(Unit.REQUESTS, "Requests that a router has sent to decode and that have no token yet")
    PREFILL_BOOTSTRAP_QUEUE = _gauge(
        Unit.REQUESTS, "Requests on prefill that wait for decode's handshake and allocation"
    )
    PREFILL_TRANSFER_QUEUE = _gauge(
        Unit.REQUESTS, "Requests computed on prefill whose KV has not been confirmed as received"
    )
    DECODE_ALLOCATION_QUEUE = _gauge(Unit.REQUESTS, "Requests that wait for a slot or KV memory on decode")
    DECODE_TRANSFER_QUEUE = _gauge(
        Unit.REQUESTS, "Requests allocated on decode whose KV has not arrived: prefill's queue and compute are inside"
    )
    KV_FETCH_WAITING = _gauge(Unit.REQUESTS, "Requests whose KV pull cannot start: no blocks or no slot on decode")
    KV_FETCH_ACTIVE = _gauge(Unit.REQUESTS, "Requests whose KV is being pulled (handshake included)")
    KV_FETCH_LANDED = _gauge(Unit.REQUESTS, "Requests whose KV has arrived but that have no slot")
    HTTP_ACTIVE = _gauge(Unit.REQUESTS, "Open inference requests at the HTTP layer")
    IN_FLIGHT = _gauge(Unit.REQUESTS, "Requests that the worker has accepted and not finished")
    # limits and memory
    MAX_RUNNING = _gauge(Unit.REQUESTS, "Running-request limit")
    KV_USAGE = _gauge(Unit.RATIO, "Share of the KV pool in use, KV in flight included", Across.MAX)
    KV_USAGE_IN_TRANSFER = _gauge(
        Unit.RATIO, "Share of the KV pool held by requests whose KV is still arriving", Across.MAX
    )
    KV_POOL_TOKENS = _gauge(Unit.TOKENS, "Tokens that the KV pool holds")
    KV_POOL_PAGES = _gauge(Unit.COUNT, "Pages of the KV pool")
    KV_POOL_BYTES = _gauge(Unit.BYTES, "Size of the KV pool of one rank", Across.MEAN)
    KV_POOL_TOKENS_PER_RANK = _gauge(Unit.TOKENS, "Tokens that the KV pool of one rank holds", Across.MEAN)
    PAGE_TOKENS = _gauge(Unit.TOKENS, "Tokens of a KV page", Across.MAX)
    CONTEXT_TOKENS = _gauge(Unit.TOKENS, "Sum of the context lengths of the running batch")
    # traffic
    REQUESTS_FINISHED = _counter(Unit.REQUESTS, "Requests that ended")
    REQUESTS_ARRIVED = _counter(Unit.REQUESTS, "Requests that came in")
    PROMPT_TOKENS = _counter(Unit.TOKENS, "Prompt tokens of finished requests")
    GENERATED_TOKENS = _counter(Unit.TOKENS, "Tokens generated")
    PREFILL_COMPUTED_TOKENS = _counter(
        Unit.TOKENS, "Prompt tokens that were really computed (no cache hit, no transfer)"
    )
    PREFILL_CACHED_TOKENS = _counter(Unit.TOKENS, "Prompt tokens taken from a prefix cache of the same instance")
    KV_RECEIVED_TOKENS = _counter(Unit.TOKENS, "Prompt tokens whose KV came from another instance")
    # time
    TOKENIZER_CPU = _counter(Unit.SECONDS, "CPU time of the process that turns text into tokens", Across.MEAN)
    DETOKENIZER_CPU = _counter(Unit.SECONDS, "CPU time of the process that turns tokens into text", Across.MEAN)
    DECODE_BUSY = _counter(Unit.SECONDS, "Time in which the devices ran decode steps", Across.MEAN)
    GRAPH_STEPS = _counter(Unit.COUNT, "Decode steps replayed from a CUDA graph", Across.MEAN)
    EAGER_STEPS = _counter(Unit.COUNT, "Decode steps outside CUDA graphs", Across.MEAN)
    PREFILL_BUSY = _counter(Unit.SECONDS, "Time in which a prefill batch ran", Across.MEAN)
    IDLE = _counter(Unit.SECONDS, "Time in which the scheduler held no request at all", Across.MEAN)
    STEPS = _counter(Unit.COUNT, "Engine steps", Across.MEAN)
    # trouble
    PREEMPTIONS = _counter(Unit.COUNT, "Requests pushed out of a full KV pool (preempted or retracted)")
    TRANSFER_FAILURES = _counter(Unit.COUNT, "KV transfers that failed")
    BOOTSTRAP_FAILURES = _counter(Unit.COUNT, "Bootstraps (handshakes, allocations) that failed or timed out")
    KV_EXPIRED = _counter(Unit.COUNT, "Finished prompts whose KV was dropped before decode fetched it")
    LATE_KV_READS = _counter(Unit.COUNT, "KV that decode read after its lease had ended: the text may be wrong")
    # latency and shape
    TTFT = _histogram(Unit.SECONDS, "Time to first token as this program measures it")
    ITL = _histogram(Unit.SECONDS, "Time between two tokens of a request; with a stream interval, between two events")
    TPOT = _histogram(Unit.SECONDS, "Mean time between the tokens of a request, once it has finished")
    PROMPT_LENGTH = _histogram(Unit.TOKENS, "Prompt tokens of a request")
    QUEUE_TIME = _histogram(Unit.SECONDS, "Wait for the first scheduling (vLLM decode: the KV pull is inside)")
    PREFILL_TIME = _histogram(Unit.SECONDS, "Prefill computation of a request")
    PREFILL_STAGE_TIME = _histogram(Unit.SECONDS, "From the router's dispatch to prefill's answer")
    DECODE_PREPARE_TIME = _histogram(Unit.SECONDS, "On decode: from a request's arrival to its handshake")
    DECODE_BOOTSTRAP_TIME = _histogram(Unit.SECONDS, "On decode: handshake and wait for memory")
    DECODE_TRANSFERRED_TIME = _histogram(Unit.SECONDS, "On decode: until its KV is there; prefill is inside")
    DECODE_WAITING_TIME = _histogram(Unit.SECONDS, "On decode: from the KV's arrival to a place in the batch")
    HANDOVER_TIME = _histogram(Unit.SECONDS, "Life of a request on prefill, KV hold included")
    EXPOSED_TRANSFER_TIME = _histogram(Unit.SECONDS, "From the end of prefill to the confirmed transfer")
    KV_TRANSFER_TIME = _histogram(Unit.SECONDS, "One KV transfer (of one rank)")
    KV_TRANSFER_BYTES = _histogram(Unit.BYTES, "Bytes of one KV transfer, all ranks added")
    KV_AGENT_RX_BYTES = _counter(Unit.BYTES, "Bytes that a transfer agent has read from others")
    KV_AGENT_TX_BYTES = _counter(Unit.BYTES, "Bytes that a transfer agent has written to others")
    KV_AGENT_TIME = _counter(Unit.SECONDS, "Time of the transfers that an agent has started, overlapping ones added")
    KV_AGENT_ERRORS = _counter(Unit.COUNT, "Errors of a transfer agent, whatever their kind")
    KV_POST_TIME = _histogram(Unit.SECONDS, "Posting the descriptors of one KV transfer; part of its time")
    KV_DESCRIPTORS = _histogram(Unit.COUNT, "Descriptors of one KV transfer")
    ALLOCATION_TIME = _histogram(Unit.SECONDS, "Wait for KV memory or a slot on decode")
    HANDSHAKE_TIME = _histogram(
        Unit.SECONDS, "Handshake between the legs (SGLang prefill: decode's allocation is inside)"
    )
    # what a step costs, for the roofline
    DECODE_STEPS = _counter(Unit.COUNT, "Decode steps of one rank", Across.MEAN)
    DECODE_STEP_REQUESTS = _counter(Unit.REQUESTS, "Requests in the batch, added over the decode steps of all ranks")
    DECODE_STEP_TIME = _counter(Unit.SECONDS, "Time of the decode steps of one rank", Across.MEAN)
    WEIGHT_BYTES_PER_RANK = _gauge(Unit.BYTES, "Device memory that the weights of one rank take", Across.MEAN)
    ESTIMATED_FLOP = _counter(Unit.FLOP, "FLOP of one device as the engine's own model of itself has it", Across.MEAN)
    ESTIMATED_HBM_READ = _counter(
        Unit.BYTES, "Bytes that one device reads, as the engine's own model of itself has it", Across.MEAN
    )
    ESTIMATED_HBM_WRITTEN = _counter(
        Unit.BYTES, "Bytes that one device writes, as the engine's own model of itself has it", Across.MEAN
    )
    # utilisation of devices. A ratio of 1 is all that the device has by its data sheet.
    SM_ACTIVE = _gauge(
        Unit.RATIO, "Share of the time in which a compute unit (SM, AICore) holds work, mean of the units", Across.MEAN
    )
    TENSOR_ACTIVE = _gauge(Unit.RATIO, "Share of the cycles in which the matrix engine works", Across.MEAN)
    ENGINE_ACTIVE = _gauge(Unit.RATIO, "Share of the cycles in which the compute engine is active at all", Across.MEAN)
    DRAM_ACTIVE = _gauge(Unit.RATIO, "Share of the theoretical bandwidth of device memory that is used", Across.MEAN)
    DEVICE_BUSY = _gauge(
        Unit.RATIO, "Share of the time in which some kernel ran: says nothing of how much it computed", Across.MEAN
    )
    DEVICE_HBM_BYTES_RATE = _gauge(Unit.BYTES_PER_SECOND, "Bytes a second that device memory moves", Across.SUM)
    DEVICE_HBM_PEAK_RATE = _gauge(
        Unit.BYTES_PER_SECOND, "Theoretical bandwidth of device memory, as its driver states it", Across.SUM
    )
    DEVICE_MEMORY_USED = _gauge(Unit.BYTES, "Device memory in use")
    DEVICE_MEMORY_TOTAL = _gauge(Unit.BYTES, "Device memory")
    # the health of devices
    DEVICE_CLOCK = _gauge(Unit.HERTZ, "Clock of the compute units", Across.MEAN)
    DEVICE_CLOCK_MAX = _gauge(Unit.HERTZ, "Highest clock of the compute units", Across.MEAN)
    DEVICE_POWER = _gauge(Unit.WATTS, "Power that the device draws", Across.MEAN)
    DEVICE_POWER_LIMIT = _gauge(Unit.WATTS, "Power that the device may draw", Across.MEAN)
    DEVICE_SLOWDOWN = _gauge(
        Unit.RATIO, "1 while heat, a power brake or a fault of the hardware holds the clocks down", Across.MAX
    )
    DEVICE_POWER_CAPPED = _gauge(Unit.RATIO, "1 while the power limit holds clocks down: usual in prefill", Across.MAX)
    DEVICE_FAULT = _gauge(Unit.COUNT, "Code of the last fault that the driver told (NVIDIA: Xid); 0: none", Across.MAX)
    # links. Fabric: NVLink, HCCS, xGMI; the collectives of tensor parallelism are inside. NIC: network ports.
    FABRIC_TX_RATE = _gauge(Unit.BYTES_PER_SECOND, "Bytes a second that leave a device through its fabric links")
    FABRIC_RX_RATE = _gauge(Unit.BYTES_PER_SECOND, "Bytes a second that reach a device through its fabric links")
    FABRIC_RATE = _gauge(Unit.BYTES_PER_SECOND, "Bytes a second through the fabric links, both directions added")
    FABRIC_TX_BYTES = _counter(Unit.BYTES, "Bytes that left a device through its fabric links")
    FABRIC_RX_BYTES = _counter(Unit.BYTES, "Bytes that reached a device through its fabric links")
    PCIE_TX_RATE = _gauge(Unit.BYTES_PER_SECOND, "Bytes a second out of a device through PCIe")
    PCIE_RX_RATE = _gauge(Unit.BYTES_PER_SECOND, "Bytes a second into a device through PCIe")
    NIC_TX_RATE = _gauge(Unit.BYTES_PER_SECOND, "Bytes a second out of a network port")
    NIC_RX_RATE = _gauge(Unit.BYTES_PER_SECOND, "Bytes a second into a network port")
    NIC_TX_BYTES = _counter(Unit.BYTES, "Bytes that left a network port")
    NIC_RX_BYTES = _counter(Unit.BYTES, "Bytes that reached a network port")
    NIC_LINE_RATE = _gauge(Unit.BYTES_PER_SECOND, "What a network port can carry in one direction")
    NIC_ACTIVE = _gauge(Unit.RATIO, "1 where the port is up; missing where it is not", Across.MAX)
    NIC_TRANSMIT_WAIT = _counter(Unit.COUNT, "Ticks in which a port had data and no credit to send them")
    NIC_CONGESTION_SEEN = _counter(Unit.COUNT, "Notices of congestion that a receiving port sent (RoCE CNP)")
    NIC_CONGESTION_TOLD = _counter(Unit.COUNT, "Notices of congestion that a sending port obeyed (RoCE CNP)")
    NIC_OUT_OF_SEQUENCE = _counter(Unit.COUNT, "Packets that came out of order, were lost or sent again")

    @property
    def spec(self) -> MetricSpec:
        """Kind, unit, rank rule and meaning."""
        return self.value

    # Enum hashes its name through Python code; identity is enough and several times cheaper on the hot path.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class Fact(StrEnum):
    """Things that a page states about its program and that do not move."""

    ENGINE_VERSION = "engine_version"
    MODEL = "model"
    ROLE = "role"
    KV_CACHE_DTYPE = "kv_cache_dtype"
    WORKER_ID = "worker_id"
    TP = "tp"
    PP = "pp"
    DP = "dp"
    DEVICE_MODEL = "device_model"
