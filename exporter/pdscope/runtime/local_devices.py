"""The devices of this host (`source: nvml`): sampled in a thread of their own from the first question on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

from pdscope.collect.poller import Clock, Failure, Target
from pdscope.config import DeviceConfig
from pdscope.model.scrape import FailureReason
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind
from pdscope.sources.nvml.page import render_page
from pdscope.sources.nvml.sampler import Sampler
from pdscope.sources.nvml.snapshot import Snapshot, SourceReason

LOCAL_SOURCE = "nvml"
"""The device source that is read on this host, without HTTP."""

_WHAT_TO_DO = {
    SourceReason.LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not on this host: install the NVIDIA driver, or run "
    "`pdscope agent` on the host that has the devices and read it with source: pdscope",
    SourceReason.DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    SourceReason.DRIVER_TOO_OLD: "the NVIDIA driver is too old",
    SourceReason.NO_PERMISSION: "NVML refuses this user: run with CAP_SYS_ADMIN",
    SourceReason.NO_DEVICE: "the driver sees no device: is one passed into this container?",
    SourceReason.GPU_LOST: "all devices have fallen off the bus",
    SourceReason.DRIVER_CHANGED: "the driver was replaced under this process; restart it if this stays",
    SourceReason.STALLED: "a call into the driver does not come back",
}


class Samples(Protocol):
    """What is asked of a sampler."""

    def start(self) -> None:
        """Begin to sample."""

    def stop(self) -> None:
        """End, and free everything."""

    def latest(self) -> Snapshot:
        """The newest snapshot."""


class LocalDevices:
    """One sampler for however many targets ask, from the first question until `close`."""

    def __init__(self, sampler: Samples | None = None) -> None:
        """`sampler`: tests bring their own."""
        self._given = sampler
        self._sampler: Samples | None = None

    def latest(self) -> Snapshot:
        """The newest snapshot; the first call starts the thread."""
        if self._sampler is None:
            self._sampler = self._given or Sampler()
            self._sampler.start()
        return self._sampler.latest()

    def close(self) -> None:
        """End the thread, if there is one; the next question starts another."""
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None

    @contextlib.contextmanager
    def open(self) -> Iterator[LocalDevices]:
        """Closed at the end of the block."""
        try:
            yield self
        finally:
            self.close()


class LocalTarget:
    """The devices of this host as a target: its page is made here and read like any other."""

    def __init__(self, config: DeviceConfig, watch: Watch, local: LocalDevices, clock: Clock) -> None:
        self._config = config
        self._watch = watch
        self._local = local
        self._clock = clock

    def target(self) -> Target:
        """What the poller needs to know of it."""
        return Target(self._config.name, self._config.scrape.interval_seconds, self._scrape, self._fail)

    async def _scrape(self) -> Failure | None:
        snapshot = self._local.latest()
        if snapshot.reason not in (None, SourceReason.NOT_STARTED):
            failure = Failure(FailureReason.UNAVAILABLE, f"{snapshot.reason}: {_WHAT_TO_DO.get(snapshot.reason, '')}")
            self._fail(failure)
            return failure
        at = min(self._clock.wall(), snapshot.at)
        self._watch.feed(self._config.name, PageKind.METRICS, render_page(snapshot), at)
        return None

    def _fail(self, failure: Failure) -> None:
        self._watch.fail(
            self._config.name, PageKind.METRICS, self._clock.wall(), failure.reason, failure.detail.strip(": ")
        )
