"""The sampler: one thread makes every NVML call and publishes what it found as a snapshot that never changes."""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from pdscope.sources.nvml.events import XidLog
from pdscope.sources.nvml.gpm import MIN_SPACING_SECONDS
from pdscope.sources.nvml.library import DeviceLostError, SourceLostError
from pdscope.sources.nvml.owners import Owners
from pdscope.sources.nvml.session import Session
from pdscope.sources.nvml.snapshot import DeviceSample, Identity, Readings, Reason, Signal, Snapshot, SourceReason

_log = logging.getLogger(__name__)

MIN_INTERVAL_SECONDS: Final = 0.2
_FIRST_RETRY_SECONDS: Final = 1.0
_LONGEST_RETRY_SECONDS: Final = 60.0
_REFRESH_SECONDS: Final = 15.0
"""How often processes and the layout of devices are looked at."""
_STOP_SECONDS: Final = 5.0
"""How long `stop` waits for a call into the driver that does not come back."""


class Sampler:
    """Polls the devices of this host.

    `start`, `latest` and `stop` are for any thread. `poll` and `close` are what the thread does; a test calls them
    itself instead of starting it.
    """

    def __init__(
        self,
        interval_seconds: float = 1.0,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        host: str | None = None,
        proc: Path = Path("/proc"),
    ) -> None:
        """`host` is the label of that name, by default this host's name; `proc` is where /proc is mounted.

        Raises:
            ValueError: the interval is shorter than 0.2 s.
        """
        if interval_seconds < MIN_INTERVAL_SECONDS:
            raise ValueError(f"an interval of {interval_seconds} s is shorter than {MIN_INTERVAL_SECONDS} s")
        self._interval_seconds = interval_seconds
        # A mean over a long pause (a suspended machine) would pass for the present.
        self._max_age_seconds = max(10.0 * interval_seconds, 10.0)
        self._monotonic = monotonic
        self._wall = wall
        self._host = socket.gethostname() if host is None else host
        self._invalid: Counter[str] = Counter()
        self._session: Session | None = None
        self._reason = SourceReason.NOT_STARTED
        self._lost: dict[str, Identity] = {}
        self._known: tuple[Identity, ...] = ()
        self._boards = 0
        self._xids = XidLog()
        self._owners = Owners(proc)
        self._refresh_at = self._retry_at = -math.inf
        self._retry_seconds = _FIRST_RETRY_SECONDS
        self._polled_at = monotonic()
        self._latest = Snapshot(wall(), self._host, self._reason)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to sample; a second call changes nothing, nor does one after `stop`."""
        if self._thread is None:
            self._polled_at = self._monotonic()
            self._thread = threading.Thread(target=self._run, name="pdscope-nvml", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread, which frees everything that the driver holds for it."""
        self._stopping.set()
        if self._thread is None:
            self.close()
            return
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            _log.warning("NVML: a call into the driver does not come back; its thread is left behind")

    def latest(self) -> Snapshot:
        """The newest snapshot; one without devices where the driver has not answered for long."""
        latest = self._latest
        if self._monotonic() - self._polled_at > self._max_age_seconds:
            return replace(latest, reason=SourceReason.STALLED, devices=())
        return latest

    def poll(self) -> Snapshot:
        """Ask every device once. What is lost is tried again after pauses that grow."""
        now = self._monotonic()
        devices: tuple[DeviceSample, ...] = ()
        try:
            if now >= self._retry_at and (self._session is None or self._lost):
                self._reopen(now)
            if self._session is not None:
                devices = self._read(self._session, now)
        except SourceLostError as error:
            self._give_up(now, error.reason)
        self._publish(now, devices)
        return self._latest

    def close(self) -> None:
        """Free everything that the driver holds; a poll after it begins anew."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            started = self._monotonic()
            try:
                self.poll()
            except Exception:  # noqa: BLE001 - see below
                # There is nobody above: the thread goes on, and everybody sees that this poll has failed.
                _log.exception("NVML: a poll failed")
                self._give_up(started, SourceReason.FAILED)
                self._publish(started, ())
            spent_seconds = self._monotonic() - started
            self._stopping.wait(max(self._interval_seconds - spent_seconds, MIN_SPACING_SECONDS))
        self.close()

    def _read(self, session: Session, now: float) -> tuple[DeviceSample, ...]:
        """Every device of the session, and those that are lost.

        Raises:
            SourceLostError: NVML is gone.
        """
        if now >= self._refresh_at:
            self._refresh_at = now + _REFRESH_SECONDS
            if not self._lost and session.layout_changed():
                session = self._reopen(now)
            self._owners.refresh(session.devices)
        self._xids.collect(session.events, session.devices)
        samples = []
        for device in tuple(session.devices):
            try:
                readings = device.read()
            except DeviceLostError as error:
                _log.warning("NVML: device %d (%s) is lost: %s", device.identity.index, device.identity.uuid, error)
                device.close()
                session.devices.remove(device)
                self._lost[device.identity.uuid] = device.identity
                self._retry_later(now)
                continue
            xid = self._xids.readings(session.events, device)
            processes, unknown = self._owners.of(device.identity)
            readings = Readings({**readings.values, **xid.values}, {**readings.missing, **xid.missing, **unknown})
            samples.append(DeviceSample(device.identity, up=True, readings=readings, processes=processes))
        if not session.devices:
            self._reason = SourceReason.GPU_LOST if self._lost else SourceReason.NO_DEVICE
        elif not self._lost:
            self._retry_at, self._retry_seconds = -math.inf, _FIRST_RETRY_SECONDS
        return (*samples, *(self._down(lost) for lost in self._lost.values()))

    def _down(self, lost: Identity) -> DeviceSample:
        """A lost device: all that is left of it is the error that it may have told before."""
        last = self._xids.last(lost)
        values = {} if last is None else {Signal.XID: float(last)}
        missing = {signal: Reason.LOST for signal in Signal if signal not in values}
        return DeviceSample(lost, up=False, readings=Readings(values, missing))

    def _reopen(self, now: float) -> Session:
        """Initialise NVML anew: a device that came back, a new driver or another layout are seen only then.

        Raises:
            SourceLostError: it cannot be used yet.
        """
        self.close()
        self._pause(now)
        self._session = session = Session(
            clock=self._monotonic, max_age_seconds=self._max_age_seconds, invalid=self._invalid
        )
        self._refresh_at = now
        self._compare(session)
        return session

    def _compare(self, session: Session) -> None:
        """Take off the list of lost devices what the session has found, and put on it what it has not."""
        found = {device.identity.uuid: device.identity for device in session.devices}
        boards = {identity.index for identity in found.values()}
        # Where NVML leaves lost boards out the others move up, so that an index says nothing of who came back.
        complete = session.boards >= self._boards
        lost = [
            identity
            for identity in self._lost.values()
            if identity.uuid not in found and not (complete and identity.index in boards)
        ]
        for index in set(session.lost_boards) - {identity.index for identity in lost}:
            before = [identity for identity in self._known if identity.index == index]
            lost += before or [Identity(f"index-{index}", index)]
        self._lost = {identity.uuid: identity for identity in lost}
        self._known = (*found.values(), *lost)
        self._boards = max(session.boards, self._boards) if lost else session.boards

    def _give_up(self, now: float, reason: SourceReason) -> None:
        """Close what is open and wait."""
        self._reason = reason
        self._retry_later(now)
        if self._session is not None:
            self._session.close(reason)
            self._session = None

    def _retry_later(self, now: float) -> None:
        """Leave a pause, unless one is running."""
        if self._retry_at <= now:
            self._pause(now)

    def _pause(self, now: float) -> None:
        self._retry_at = now + self._retry_seconds
        self._retry_seconds = min(2.0 * self._retry_seconds, _LONGEST_RETRY_SECONDS)

    def _publish(self, now: float, devices: tuple[DeviceSample, ...]) -> None:
        reason = None if any(device.up for device in devices) else self._reason
        if reason is not self._latest.reason:
            if reason is None:
                _log.info("NVML: %d devices", len(devices))
            else:
                _log.warning("NVML: no data of this host: %s", reason)
        self._latest = Snapshot(self._wall(), self._host, reason, devices, dict(self._invalid))
        self._polled_at = now
