"""Blocks over NIXL with its UCX backend, host memory to host memory, read from the serving end as decode reads them.

The wheel is an optional extra and imported here only. What it calls its metadata is read by its own native code, so a
probe belongs among hosts that trust each other. No descriptor is unpickled: an address and a size say the same.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from pdscope.errors import PdscopeError, UsageError
from pdscope.probe.memory import Region
from pdscope.probe.plan import MAX_BYTES, Step, scattered
from pdscope.probe.wire import ProbeError, text, whole

_BACKEND = "UCX"
_MEMORY = "DRAM"


class NixlSource:
    """Registers the region; the other end reads it without asking this process."""

    def __init__(self, region_bytes: int) -> None:
        """Raises UsageError without the wheel, ProbeError when it fails."""
        self._agent = _agent()
        self._region = Region(region_bytes, filled=True)
        with ExitStack() as stack, _told("cannot register memory"):
            stack.callback(self._region.close)
            self._registered = _register(self._agent, self._region)
            self.details: Mapping[str, object] = {
                "agent": base64.b64encode(self._agent.get_agent_metadata()).decode(),
                "address": self._region.address,
                "size": self._region.size,
            }
            stack.pop_all()

    def serve_stream(self, connection: socket.socket, spend: Callable[[int], None], idle_seconds: float) -> None:
        """See `Source`; there is nothing to serve."""
        del connection, spend, idle_seconds
        raise ProbeError("nixl has no data connections of ours")

    def close(self) -> None:
        """Nobody can read the memory any more; then give it back."""
        with ExitStack() as stack, _told("cannot give memory back"):
            stack.callback(self._region.close)
            self._agent.deregister_memory(self._registered)


class NixlPuller:
    """One transfer handle for each request in flight, posted together and polled until all are done."""

    def __init__(self, details: Mapping[str, Any], region_bytes: int) -> None:
        """Raises UsageError without the wheel, ProbeError when it fails or the other end's details are wrong."""
        try:
            metadata = base64.b64decode(text(details, "agent"), validate=True)
        except binascii.Error:
            raise ProbeError("agent must be base64") from None
        self._address = whole(details, "address", 1, 2**64 - 1)
        if whole(details, "size", 1, MAX_BYTES) < region_bytes:
            raise ProbeError("the other end has registered too little memory")
        self._agent = _agent()
        self._region = Region(region_bytes, filled=False)
        self._handles: list[Any] = []
        with ExitStack() as stack, _told("cannot reach the other end"):
            stack.callback(self._region.close)
            self._registered = _register(self._agent, self._region)
            stack.callback(self._agent.deregister_memory, self._registered)
            self._remote = self._agent.add_remote_agent(metadata)
            stack.pop_all()

    def prepare(self, step: Step) -> None:
        """Describe the blocks; engines do that once too."""
        self._release()
        offsets = list(scattered(step, self._region.size))
        size = step.block_bytes
        with _told("cannot describe the blocks"):
            local = self._agent.get_xfer_descs([(self._region.address + at, size, 0) for at in offsets], _MEMORY)
            remote = self._agent.get_xfer_descs([(self._address + at, size, 0) for at in offsets], _MEMORY)
            for _ in range(step.in_flight):
                self._handles.append(self._agent.initialize_xfer("READ", local, remote, self._remote))

    def pull(self, step: Step, deadline: float) -> float:
        """See `Puller`. Polls without a pause: a pause would be measured."""
        with _told("the transfer failed"):
            begin = time.perf_counter()
            waiting = [handle for handle in self._handles if self._goes_on(self._agent.transfer(handle))]
            while waiting:
                if time.monotonic() > deadline:
                    raise ProbeError(f"{step.round_bytes} B were not transferred in time")
                waiting = [handle for handle in waiting if self._goes_on(self._agent.check_xfer_state(handle))]
            return time.perf_counter() - begin

    def check(self, step: Step) -> None:
        """See `Puller`."""
        if not all(self._region.arrived(at, step.block_bytes) for at in scattered(step, self._region.size)):
            raise ProbeError("the blocks that came are not those that were sent")

    def close(self) -> None:
        """Release in the order in which NIXL wants it."""
        with ExitStack() as stack, _told("cannot give memory back"):
            stack.callback(self._region.close)
            stack.callback(self._agent.deregister_memory, self._registered)
            stack.callback(self._agent.remove_remote_agent, self._remote)
            self._release()

    def _release(self) -> None:
        while self._handles:
            self._agent.release_xfer_handle(self._handles.pop())

    @staticmethod
    def _goes_on(state: str) -> bool:
        if state not in {"PROC", "DONE"}:
            raise ProbeError(f"nixl reports {state}")
        return state == "PROC"


def check_nixl() -> None:
    """Find out whether the wheel is there.

    Raises:
        UsageError: it is not, and how to get it.
    """
    _api()


def _api() -> Any:
    try:
        return importlib.import_module("nixl._api")
    except ImportError as error:
        raise UsageError(f"--transport nixl needs the NIXL wheel: install pdscope[probe] ({error})") from None


def _agent() -> Any:
    api = _api()
    with _told("cannot start an agent"):
        agent = api.nixl_agent(f"pdscope-{secrets.token_hex(8)}", api.nixl_agent_config(backends=[_BACKEND]))
        if _BACKEND not in agent.backends:
            raise ProbeError(f"nixl has no {_BACKEND} backend here")
        return agent


def _register(agent: Any, region: Region) -> Any:
    return agent.register_memory([(region.address, region.size, 0, "")], _MEMORY)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turn the errors of the wheel, which share no base of their own, into ours."""
    try:
        yield
    except (PdscopeError, MemoryError):
        raise
    except Exception as error:
        raise ProbeError(f"nixl: {what}: {error}") from error
