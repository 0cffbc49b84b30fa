"""One deployment: the instances of a draw, put together by the rules of its engine."""

from __future__ import annotations

from functools import partial

from pdscope.demo.physics.clock import Clock
from pdscope.demo.physics.decode import DecodeInstance
from pdscope.demo.physics.devices import DeviceCounters
from pdscope.demo.physics.draw import Draw
from pdscope.demo.physics.local import LocalPrefill
from pdscope.demo.physics.machine import machine
from pdscope.demo.physics.models import MODELS
from pdscope.demo.physics.network import Network, Port
from pdscope.demo.physics.observer import Observer, Observers
from pdscope.demo.physics.pool import Pool
from pdscope.demo.physics.prefill import PrefillInstance
from pdscope.demo.physics.pull import PullWay
from pdscope.demo.physics.push import PushWay
from pdscope.demo.physics.request import End, Request
from pdscope.demo.physics.router import Router
from pdscope.demo.physics.steps import Stepper
from pdscope.demo.physics.traffic import Users
from pdscope.demo.physics.transfer import TransferEngine
from pdscope.demo.physics.ways import UnifiedWay, Way


class Simulation:
    """A deployment that runs in simulated time. The same draw gives the same run, however often it is looked at.

    Args:
        draw: all of its causes.

    Raises:
        UsageError: hardware, model or sizes do not make a deployment.
    """

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.clock = Clock()
        self._observers = Observers()
        layout = draw.deployment
        decoders = layout.unified_instances or layout.decode_instances
        prefillers = 0 if layout.unified_instances else layout.prefill_instances
        self.router = Router(self.clock, draw.frontend, prefillers, decoders)
        self.network = Network(self.clock, self._port_bytes_per_second, draw.link.shared_bytes_per_second)
        self.requests: list[Request] = []
        self._way = self._way_of_engine()
        self.prefills = [self._prefill(number) for number in range(prefillers)]
        self.decodes = [self._decode(number) for number in range(decoders)]
        self.transfers = [self._transfers(number) for number in range(self._transfer_owners())]
        self.users = Users(self.clock, draw.traffic, draw.seed, self._arrive)
        self.users.start()

    @property
    def now_seconds(self) -> float:
        """Simulated seconds since the start."""
        return self.clock.now_seconds

    @property
    def observer(self) -> Observer:
        """Who is told what happens: all that watch."""
        return self._observers

    def watch(self, observer: Observer) -> None:
        """Tells `observer` of everything from now on."""
        self._observers.members.append(observer)

    def run(self, to_seconds: float) -> None:
        """Goes on to that moment, with all steps that have ended by then settled.

        Raises:
            ValueError: it has passed.
        """
        self.clock.run(to_seconds)
        for decode in self.decodes:
            decode.stepper.settle()

    def prefill_devices(self, number: int) -> tuple[DeviceCounters, ...]:
        """Counters of the devices of that prefill instance, one a rank, up to now."""
        port = ("prefill", number)
        network = self.network
        return self.prefills[number].activity.ranks(network.sent_bytes(port), network.received_bytes(port))

    def decode_devices(self, number: int) -> tuple[DeviceCounters, ...]:
        """Counters of the devices of that decode or unified instance, one a rank, with all steps that have ended."""
        port = ("decode", number)
        stepper, network = self.decodes[number].stepper, self.network
        stepper.settle()
        return stepper.activity.ranks(network.sent_bytes(port), network.received_bytes(port))

    def end(self, request: Request, end: End) -> None:
        """`request` is over for its user; what instances still hold of it, its way has to clear."""
        request.end = end
        request.ended_at = self.now_seconds
        self.router.leave_decode(request)
        self._observers.ended(request)
        # Its last token may still be on its way through the detokenizer: who waits for it asks nothing before that.
        given_at = request.finished_at if end is End.FINISHED else self.now_seconds
        self.clock.at(max(self.now_seconds, given_at), self.users.answered)

    def _arrive(self, request: Request) -> None:
        self.requests.append(request)
        self._observers.stamped(request, "arrived_at")
        self.router.route(request, partial(self._routed, request))

    def _routed(self, request: Request) -> None:
        request.routed_at = self.now_seconds
        self._observers.stamped(request, "routed_at")
        self._way.start(request)

    def _way_of_engine(self) -> Way:
        if self.draw.deployment.unified_instances:
            return UnifiedWay(self)
        return PushWay(self) if self.draw.engine == "sglang" else PullWay(self)

    def _prefill(self, number: int) -> PrefillInstance:
        draw = self.draw
        settings, devices = draw.prefill, draw.deployment.prefill_devices
        return PrefillInstance(
            self.clock,
            number,
            machine(
                draw,
                devices,
                _clocks(devices, settings.compute_factor, settings.slow_rank, number),
                settings.pool_tokens,
            ),
            settings,
            page_tokens=draw.link.page_tokens,
            computed=self._way.computed,
            rejected=self._way.rejected,
            observer=self._observers,
        )

    def _decode(self, number: int) -> DecodeInstance:
        draw = self.draw
        settings, devices = draw.decode, draw.deployment.decode_devices
        factor = draw.prefill.compute_factor if draw.deployment.unified_instances else 1.0
        built = machine(draw, devices, _clocks(devices, factor, settings.slow_rank, number), settings.pool_tokens)
        return DecodeInstance(
            self.clock,
            number,
            draw.engine,
            settings,
            pool=Pool(built.pool_tokens, draw.link.page_tokens),
            local=LocalPrefill(built, draw.prefill),
            is_unified=bool(draw.deployment.unified_instances),
            stepper=Stepper(
                self.clock,
                number,
                built,
                settings,
                detokenize_seconds_per_token=draw.frontend.detokenize_seconds_per_token,
                seed=draw.seed,
                observer=self._observers,
            ),
            allocated=self._way.allocated,
            over=self._way.over,
            observer=self._observers,
        )

    def _transfer_owners(self) -> int:
        if self.draw.deployment.unified_instances:
            return 0
        return len(self.prefills if self.draw.engine == "sglang" else self.decodes)

    def _transfers(self, number: int) -> TransferEngine:
        link, is_push = self.draw.link, self.draw.engine == "sglang"
        return TransferEngine(
            self.clock,
            link,
            MODELS[self.draw.model],
            self.network,
            lanes=link.queues if is_push else 1,
            threads=max(1, link.threads // link.queues) if is_push else 1,
            holds_thread=is_push,
            posted=(lambda _: None) if is_push else partial(_owe, self.decodes[number]),
        )

    def _port_bytes_per_second(self, port: Port) -> float:
        role, number = port
        nic = (
            self.prefills[number].machine.nic_bytes_per_second
            if role == "prefill"
            else self.decodes[number].stepper.machine.nic_bytes_per_second
        )
        path = self.draw.link.path_bytes_per_second
        return nic if path is None else min(nic, path)


def _owe(decode: DecodeInstance, seconds: float) -> None:
    """The engine's own thread posts: its next step is late by that much."""
    decode.stepper.host_debt_seconds += seconds


def _clocks(devices: int, factor: float, slow_rank: float, number: int) -> tuple[float, ...]:
    slow = slow_rank if number == 0 else 1.0
    return tuple(factor * (slow if rank == 0 else 1.0) for rank in range(devices))
