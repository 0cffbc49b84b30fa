"""The stages of the walk through one deployment: prefill, transfer, decode, and the balance within each role."""

from __future__ import annotations

from pdscope.model.signal import SignalId
from pdscope.model.topology import Role
from pdscope.render import catalogue
from pdscope.render.dashboards.panel import CAPACITY, Kind, Link, Panel, Unit, unit_of
from pdscope.render.dashboards.places import Places
from pdscope.render.dashboards.query import Query, code, fold
from pdscope.render.dashboards.states import VERDICTS, numbers

HERE = "${deployment}"
"""The one that is shown."""

_S = SignalId
_D = catalogue.DEPLOYMENT_SIGNALS


def signal_line(signal: SignalId, legend: str) -> Query:
    """A signal of the deployment as a line."""
    return Query(fold(_D[signal]), legend)


def one_signal(signal: SignalId, title: str, description: str, width: int = 8, *links: Link) -> Panel:
    """A panel of one signal, in its own unit."""
    unit = unit_of(_D[signal].name)
    lines = (signal_line(signal, title.lower()),)
    return Panel(title, description, Kind.LINES, lines, unit, width, links=links)


def _role(role: str, title: str, description: str, *, compute: bool, links: tuple[Link, ...]) -> Panel:
    metric = catalogue.WORKER_COMPUTE if compute else catalogue.WORKER_HBM
    expr = fold(metric, "worker", matchers={"role": role})
    return Panel(title, description, Kind.LINES, (Query(expr, "{{worker}}"),), Unit.RATIO, links=links, is_share=True)


def prefill(places: Places) -> tuple[Panel, ...]:
    """Whether prefill has compute to spare, and on which worker it has not."""
    links = (
        Link("Prefill compute", places.page("rules/prefill_compute.md")),
        Link("Prefill queue", places.page("rules/prefill_queue.md")),
    )
    return (
        Panel(
            "Prefill compute",
            "Mean activity of the prefill devices. Near 100 % with a broken TTFT: prefill has too little compute. Low "
            "with a broken TTFT: look at the link and at decode.",
            Kind.LINES,
            (signal_line(_S.PREFILL_COMPUTE_UTILIZATION, "prefill"),),
            Unit.RATIO,
            links=links,
            is_share=True,
        ),
        _role(
            f"{Role.PREFILL}|{Role.UNIFIED}",
            "Prefill compute by worker",
            "One line far above the others is imbalance, or one slow device that the others wait for.",
            compute=True,
            links=links,
        ),
    )


def transfer(places: Places) -> tuple[Panel, ...]:
    """What has to cross the link, what does, and what can."""
    return (
        Panel(
            "KV demand and capacity",
            "What arrives to be carried, what is really carried, and what the link can carry (dashed). Demand at the "
            "capacity: the link is full. Both far below it while TTFT is broken: the path, the set-up or decode's "
            "memory holds the transfer up.",
            Kind.LINES,
            (
                signal_line(_S.KV_DEMAND, "demand"),
                signal_line(_S.KV_ACHIEVED, "carried"),
                signal_line(_S.LINK_CAPACITY, CAPACITY),
            ),
            Unit.BYTES_PER_SECOND,
            width=16,
            is_logarithmic=True,
            links=tuple(
                Link(title, places.page(f"rules/{rule}.md"))
                for title, rule in (
                    ("Bandwidth", "kv_transfer_bandwidth"),
                    ("Path", "kv_transfer_path"),
                    ("Fragments", "kv_transfer_fragmented"),
                    ("Set-up", "kv_transfer_setup"),
                    ("Failures", "kv_transfer_failing"),
                    ("Pinned KV", "kv_pinned"),
                )
            ),
        ),
        one_signal(
            _S.LINK_UTILIZATION,
            "Link in use",
            "Demand by capacity. Above 100 % the queue before the link grows as long as it lasts.",
            8,
            Link("Link shared", places.page("rules/link_shared.md")),
        ),
        one_signal(
            _S.KV_BYTES_PER_REQUEST,
            "KV of a request",
            "Bytes on the wire for a mean request, replicas and whole blocks included. It grows with the prompt.",
            12,
        ),
        one_signal(
            _S.KV_BYTES_PER_TOKEN,
            "KV of a token",
            "One logical copy. A step is another model or another type of the cache.",
            12,
            Link("Shape of the KV", places.page("kv-shape.md")),
        ),
    )


def decode(places: Places) -> tuple[Panel, ...]:
    """Whether decode is at the limit of its memory bandwidth."""
    links = (
        Link("HBM bandwidth", places.page("rules/decode_hbm_bandwidth.md")),
        Link("KV capacity", places.page("rules/decode_kv_capacity.md")),
        Link("Admission", places.page("rules/decode_admission.md")),
    )
    return (
        Panel(
            "Decode memory bandwidth",
            "Mean use of the HBM bandwidth of the decode devices. High with a broken ITL: decode is at its limit. Low "
            "with a broken ITL: the host, eager steps or a slow device.",
            Kind.LINES,
            (signal_line(_S.DECODE_HBM_UTILIZATION, "decode"),),
            Unit.RATIO,
            links=links,
            is_share=True,
        ),
        _role(
            f"{Role.DECODE}|{Role.UNIFIED}",
            "Decode memory bandwidth by worker",
            "Lines apart from each other: requests are spread unevenly, or one device is slow.",
            compute=False,
            links=links,
        ),
    )


def balance(places: Places) -> tuple[Panel, ...]:
    """Whether the workers of a role share the work."""
    worker = code(catalogue.WORKER_VERDICT, numbers(VERDICTS), "worker")
    imbalance = (Link("Imbalance", places.page("rules/router_imbalance.md")),)
    return (
        one_signal(
            _S.ROLE_IMBALANCE,
            "Imbalance",
            "Work in flight on the busiest instance of a role by that of the idlest; 1 is even. Absent where each role "
            "has one instance.",
            8,
            *imbalance,
        ),
        Panel(
            "Verdict of each worker",
            "What each instance says of itself. One that differs from the others of its role is the place to look.",
            Kind.STATES,
            (Query(worker, "{{worker}}"),),
            width=16,
            states=VERDICTS,
            links=imbalance,
            data_links=(places.worker(HERE, "${__field.labels.worker}"), places.diagnosis(HERE)),
        ),
    )
