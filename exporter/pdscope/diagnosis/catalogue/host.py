"""What can be done about devices, their host, and the telemetry of both."""

from __future__ import annotations

from collections.abc import Mapping

from pdscope.diagnosis.catalogue.entry import DECODE, EVERYWHERE, Entry

ENTRIES: Mapping[str, Entry] = {
    "drain_device": Entry(
        "Take the slow device out: move the instance to other devices, then test and replace it",
        "An instance less until it is moved",
        "One device lags behind its peers at the same work, or its driver reports faults",
    ),
    "cool_device": Entry(
        "Look at cooling, the power supply and power limits of the host",
        "None for the service; a visit to the rack",
        "The device is slowed down for heat or power",
    ),
    "free_profiler": Entry(
        "End the profiler session that holds the counters, or resume them (`dcgmi profile --resume`)",
        "The session's results",
        "Profiling fields stand at zero on a busy device",
    ),
    "check_device_source": Entry(
        "Check that the device exporter reads the devices of this instance: host, device list, rights, driver, version",
        "None but the time it takes to look",
        "It reports next to nothing, or too little, while the instance works",
    ),
    "overlap_scheduler": Entry(
        "Let the scheduler prepare a step while the devices run the one before (overlap or asynchronous scheduling)",
        "Some features exclude it",
        "It is off, and the devices idle between steps",
        at=DECODE,
    ),
    "free_cpu": Entry(
        "Give the engine cores of its own: pin it, move other work away, raise the CPU limit of its container",
        "CPU cores that other work loses",
        "The scheduler's process uses a whole core, or is throttled",
    ),
    "restart_instance": Entry(
        "Look at its log and its devices, and restart it; one of several engines leaves the router meanwhile",
        "Requests in flight on it",
        "Nothing answers at its address",
    ),
    "restore_metrics": Entry(
        "Open its /metrics and its log: a handler that fails, a full multiprocess folder, metrics switched off",
        "A restart, where the metrics are broken until then",
        "It answers under /health",
        at=EVERYWHERE,
    ),
    "fewer_series": Entry(
        "Let the engine print fewer series: metrics of one rank, fewer buckets, no per-request labels",
        "Detail in dashboards and alerts",
        "Its page is large (hundreds of KB)",
        at=EVERYWHERE,
    ),
    "longer_interval": Entry(
        "Scrape it less often: `scrape.interval` of pdscope, and whoever else scrapes it",
        "Changes are noticed later",
        "Several programs scrape it every few seconds",
    ),
}
