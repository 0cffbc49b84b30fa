"""Starts the whole on the loopback interface: the demo with its daemon, Prometheus, Alertmanager, and what they alert.

Everything is in a temporary folder and on free ports, and gone when this ends (Ctrl-C or SIGTERM). Durations of rules
are as much shorter as the demo is faster than time. docs/stack.md describes it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import arguments as kinds
import yaml

from pdscope.render.alerting.pack import pack, rule_files
from pdscope.render.alerting.settings import Settings, duration

HOST = "127.0.0.1"
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
PATIENCE_SECONDS = 60.0  # until a program has to be ready
GRACE_SECONDS = 10.0  # between asking a program to end and making it
POLL_SECONDS = 0.1
SCRAPE_SECONDS = 15.0  # before scaling, as docs/alerting.md has it
LEAST_SCRAPE_SECONDS = 0.5


class StackError(Exception):
    """Something is missing or does not start; the text says what."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """`host:port` of each part, and `webhook`, the URL that Alertmanager's notifications go to."""

    pdscope: str
    prometheus: str
    alertmanager: str
    webhook: str


@dataclass(frozen=True, slots=True)
class Running:
    """A program that was started, and the file that it prints to."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path


def program(package: str, *names: str) -> str:
    """Path of the first of these programs that there is.

    Raises:
        StackError: none is there; names Debian's package.
    """
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise StackError(f"{names[0]} is not on the PATH; on Debian: apt-get install {package}")
    return found


def configurations(at: Addresses, example: str, interval: str, replicas: Sequence[str]) -> dict[str, str]:
    """What Prometheus and Alertmanager read at their start: file name -> text.

    Args:
        at: where everything listens.
        example: our example of a configuration of Alertmanager.
        interval: of scrapes and evaluations.
        replicas: `host:port` of further replicas of pdscope to scrape.
    """
    intervals = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), interval)
    prometheus = {
        "global": {**intervals, "external_labels": {"pdscope_url": f"http://{at.pdscope}"}},
        "rule_files": ["rules/*.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [at.alertmanager]}]}]},
        "scrape_configs": [{"job_name": "pdscope", "static_configs": [{"targets": [at.pdscope, *replicas]}]}],
    }
    alertmanager = yaml.safe_load(example)
    for receiver in alertmanager["receivers"]:
        for hook in receiver.get("webhook_configs", ()):
            hook["url"] = at.webhook.rstrip("/") + urlsplit(hook["url"]).path
    return {"prometheus.yml": yaml.safe_dump(prometheus), "alertmanager.yml": yaml.safe_dump(alertmanager)}


def commands(at: Addresses, folder: Path, demo: Sequence[str]) -> list[tuple[str, str, list[str]]]:
    """Name, address and command of each part, in the order of starting; StackError where a program is missing."""
    pdscope = [sys.executable, "-m", "pdscope", "demo", *demo]
    prometheus = [program("prometheus", "prometheus"), f"--storage.tsdb.path={folder}/prometheus"]
    alertmanager = [program("prometheus-alertmanager", "prometheus-alertmanager", "alertmanager")]
    alertmanager += [f"--storage.path={folder}/alertmanager", "--cluster.listen-address="]
    for name, command in (("prometheus", prometheus), ("alertmanager", alertmanager)):
        command += [f"--config.file={folder}/{name}.yml", "--log.level=warn"]
    parts = [("pdscope", at.pdscope, pdscope)]
    parts += [("alertmanager", at.alertmanager, alertmanager), ("prometheus", at.prometheus, prometheus)]
    return [(name, address, [*command, f"--web.listen-address={address}"]) for name, address, command in parts]


def start(name: str, command: Sequence[str], folder: Path) -> Running:
    """Start one program, in a session of its own so that a Ctrl-C reaches it only through us."""
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)  # noqa: S603 - ours
    return Running(name, process, log)


def check_alive(one: Running) -> None:
    """Do nothing while the program runs.

    Raises:
        StackError: it has ended; with the end of its log.
    """
    if one.process.poll() is not None:
        raise StackError(f"{one.name} has ended with status {one.process.returncode}:\n{_end_of(one.log)}")


def wait_ready(one: Running, url: str, part: bytes = b"") -> None:
    """Poll until the program answers with 200 and this part.

    Raises:
        StackError: it has ended, or is not ready in time.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _answers(url, part):
        check_alive(one)
        if time.monotonic() > deadline:
            raise StackError(f"{one.name} is not ready after {PATIENCE_SECONDS:g} s:\n{_end_of(one.log)}")
        time.sleep(POLL_SECONDS)


def end(running: Sequence[Running]) -> None:
    """End these programs and nothing else; a second Ctrl-C does not keep us from it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    for one in reversed(running):
        one.process.terminate()
    for one in reversed(running):
        try:
            one.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            one.process.kill()
            one.process.wait()


def free_ports(wanted: Sequence[int]) -> list[int]:
    """The given ports, and a free one for each 0; all different, since all are held until the last is found.

    Raises:
        StackError: somebody else has a given one.
    """
    with ExitStack() as stack:
        ports = []
        for port in wanted:
            held = stack.enter_context(socket.socket())
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held.bind((HOST, port))
            except OSError as error:
                raise StackError(f"{HOST}:{port} cannot be had: {error.strerror}") from None
            ports.append(held.getsockname()[1])
        return ports


class _Notifications(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        for alert in json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"]:
            labels, notes = alert["labels"], alert["annotations"]
            print(f"{self.path.strip('/')}: {alert['status']} {labels['alertname']} ({labels['severity']})", flush=True)
            if alert["status"] == "firing":
                print(f"  {notes['description']}\n  {notes['diagnose_url']}", flush=True)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing of requests: the alerts are printed."""


@contextmanager
def receiver() -> Iterator[str]:
    """A receiver that prints what Alertmanager notifies of; its URL."""
    with ThreadingHTTPServer((HOST, 0), _Notifications) as server:
        threading.Thread(target=partial(server.serve_forever, POLL_SECONDS), daemon=True).start()
        try:
            yield f"http://{HOST}:{server.server_port}"
        finally:
            server.shutdown()


def _answers(url: str, part: bytes) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5.0) as answer:  # noqa: S310 - http on the loopback interface
            return part in answer.read()
    except OSError:  # which HTTP's errors are, too
        return False


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])


def _announce(at: Addresses, demo_log: Path, time_scale: float) -> None:
    text = demo_log.read_text(encoding="utf-8", errors="replace")
    print(
        f"{text.rstrip()}\n\n"
        f"  http://{at.prometheus}/alerts    Prometheus: rules with durations times {time_scale:g}\n"
        f"  http://{at.alertmanager}/#/alerts  Alertmanager: what fires; tick 'Inhibited' for the symptoms\n"
        f"  {at.webhook}/  takes the notifications\n\n"
        "Ready.",
        flush=True,
    )


def run(options: argparse.Namespace) -> NoReturn:
    """Start everything, wait for Ctrl-C, end everything.

    Raises:
        StackError: something is missing, or has ended by itself.
    """
    time_scale = options.time_scale or 1.0 / options.speed
    demo = [f"--speed={options.speed:g}", f"--seed={options.seed}"]
    demo += [f"--scenario={name}" for name in options.scenario or ["kv_transfer_bandwidth"]]
    running: list[Running] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pdscope-stack-")))
        webhook = options.webhook or stack.enter_context(receiver())
        wanted = (options.pdscope_port, options.prometheus_port, options.alertmanager_port)
        pdscope, prometheus, alertmanager = (f"{HOST}:{port}" for port in free_ports(wanted))
        at = Addresses(pdscope, prometheus, alertmanager, webhook)
        made = rule_files(pack(Settings(time_scale=time_scale)))
        interval = duration(max(LEAST_SCRAPE_SECONDS, SCRAPE_SECONDS * time_scale))
        files = configurations(at, made["rules/alertmanager.example.yml"], interval, options.replica or ())
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        stack.callback(end, running)
        for name, address, command in commands(at, folder, demo):
            running.append(start(name, command, folder))
            wait_ready(running[-1], f"http://{address}/-/ready")
        # Prometheus takes some seconds to its first scrape, which rules with short durations take for an outage.
        wait_ready(running[-1], f"http://{prometheus}/api/v1/query?query=up%3D%3D1", b'"metric"')
        (folder / "rules").mkdir()
        for name in ("rules/recording.yml", "rules/alerts.yml"):
            (folder / name).write_text(made[name], encoding="utf-8")
        running[-1].process.send_signal(signal.SIGHUP)
        wait_ready(running[-1], f"http://{prometheus}/api/v1/rules", b'"Pdscope')
        _announce(at, running[0].log, time_scale)
        while True:
            for one in running:
                check_alive(one)
            time.sleep(POLL_SECONDS)


def main(arguments: list[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenario", action="append", help="of the demo (default: kv_transfer_bandwidth)")
    parser.add_argument("--speed", type=kinds.factor, default=10.0, help="simulated seconds a second (%(default)g)")
    parser.add_argument("--seed", type=kinds.seed, default=0, help="of the simulated traffic (%(default)s)")
    parser.add_argument("--time-scale", type=kinds.factor, help="factor on the rules' durations (default: 1 / speed)")
    parser.add_argument("--webhook", type=kinds.url, help="URL for notifications (default: they are printed here)")
    parser.add_argument(
        "--replica", action="append", type=kinds.host_port, metavar="HOST:PORT", help="another pdscope to scrape"
    )
    for name in ("pdscope", "prometheus", "alertmanager"):
        parser.add_argument(f"--{name}-port", type=kinds.port, default=0, help="on 127.0.0.1 (default: a free one)")
    options = parser.parse_args(arguments)
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    try:
        run(options)
    except StackError as error:
        print(f"stack: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: it was not Python's


if __name__ == "__main__":
    sys.exit(main())
