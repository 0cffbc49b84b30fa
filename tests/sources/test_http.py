"""Fetching a page: whatever a target does ends as a value, in time, and without a secret in it."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope import __version__
from pdscope.config import AuthConfig, TlsConfig
from pdscope.model.scrape import FailureReason
from pdscope.sources.http import ACCEPT_JSON, MAX_BODY_BYTES, Fetched, Fetcher, _cause
from support.http_target import Asked, CloseConnection, HttpTarget, always, drips, hangs, page
from support.simulated_time import SIMULATED

SECRET = "s3cr3t-t0ken"


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """Deadlines pass at once."""
    return SIMULATED


async def fetch(url: str, **options: Any) -> Fetched:
    """One request by a fetcher of its own."""
    async with Fetcher(monotonic=asyncio.get_running_loop().time) as fetcher:
        return await fetcher.fetch(url, **{"timeout_seconds": 4.0, **options})


async def fetch_from(
    answer: Callable[[Asked], AsyncIterator[bytes]], path: str = "/metrics", **options: Any
) -> Fetched:
    """One request to a target that gives this answer."""
    async with HttpTarget(answer) as target:
        return await fetch(target.url + path, **options)


def bearer(path: Path, secret: str = SECRET) -> AuthConfig:
    """Authentication by a token in a file."""
    path.write_text(secret + "\n", encoding="utf-8")
    return AuthConfig(bearer_token_file=str(path))


# What is asked


async def test_asks_for_the_classic_text_format_uncompressed() -> None:
    """The headers that decide the names and the cost of a page."""
    async with HttpTarget(always(page(b"up 1\n"))) as target:
        fetched = await fetch(target.url + "/metrics?x=1")
    assert fetched == Fetched(b"up 1\n", status=200)
    [asked] = target.asked
    assert asked.path == "/metrics?x=1"
    assert asked.headers["accept"] == "text/plain;version=0.0.4"
    assert asked.headers["accept-encoding"] == "identity"
    assert asked.headers["user-agent"] == f"pdscope/{__version__}"
    assert asked.headers["host"] == target.url.removeprefix("http://")
    assert "authorization" not in asked.headers


async def test_asks_for_what_the_caller_accepts() -> None:
    """JSON pages are not asked for as text."""
    async with HttpTarget(always(page(b"{}"))) as target:
        await fetch(target.url, accept=ACCEPT_JSON)
    assert target.asked[0].headers["accept"] == "application/json"


async def test_does_not_use_a_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy for people is no way to an engine."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert (await fetch_from(always(page(b"up 1\n")))).body == b"up 1\n"


async def test_reads_chunked_bodies_and_those_that_end_with_the_connection() -> None:
    """Both forms without Content-Length."""

    async def until_closed(_asked: Asked) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\nup 1\n"
        raise CloseConnection

    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nup \r\n2\r\n1\n\r\n0\r\n\r\n"
    assert (await fetch_from(always(chunked))).body == b"up 1\n"
    assert (await fetch_from(until_closed)).body == b"up 1\n"


async def test_an_empty_body_is_a_body() -> None:
    """Whether it is a page is judged by who reads it."""
    assert await fetch_from(always(page(b""))) == Fetched(b"", status=200)


# Time


async def test_a_target_that_hangs_is_given_up_at_the_deadline() -> None:
    """Connected, asked, and no byte ever."""
    fetched = await fetch_from(hangs)
    assert fetched.reason is FailureReason.TIMEOUT
    assert fetched.detail == "no answer within 4 s"
    assert fetched.duration_seconds == pytest.approx(4.0)


async def test_a_deadline_is_told_as_a_person_says_it() -> None:
    """What is left of it after the time that the daemon itself took."""
    assert (await fetch_from(hangs, timeout_seconds=3.99999)).detail == "no answer within 4 s"


async def test_a_target_that_drips_is_given_up_at_the_deadline() -> None:
    """The deadline is that of the whole request, not of the next byte."""
    fetched = await fetch_from(drips)
    assert fetched.reason is FailureReason.TIMEOUT
    assert fetched.detail == "no complete body within 4 s"
    assert fetched.duration_seconds == pytest.approx(4.0)


async def test_redirects_do_not_extend_the_deadline() -> None:
    """Three redirects of 1.5 s each are more than 4 s."""

    async def slowly_on(asked: Asked) -> AsyncIterator[bytes]:
        await asyncio.sleep(1.5)
        yield page(b"", status="307 Temporary Redirect", headers=f"Location: {asked.path}x\r\n")

    fetched = await fetch_from(slowly_on)
    assert fetched.reason is FailureReason.TIMEOUT
    assert fetched.duration_seconds == pytest.approx(4.0)


async def test_a_connection_that_is_not_accepted_is_given_up_at_the_deadline() -> None:
    """A full backlog, as behind a firewall that drops packets."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        fetched = await fetch(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics", timeout_seconds=0.5)
    assert fetched.reason is FailureReason.TIMEOUT
    assert fetched.detail == "no connection within 0.5 s"


async def test_the_duration_of_a_slow_page_is_measured() -> None:
    """From the start to the last byte (E24)."""

    async def slow(_asked: Asked) -> AsyncIterator[bytes]:
        await asyncio.sleep(1.25)
        yield page(b"up 1\n")

    fetched = await fetch_from(slow)
    assert fetched.body == b"up 1\n"
    assert fetched.duration_seconds == pytest.approx(1.25)


# Failures


async def test_a_refused_connection_says_so() -> None:
    """In the system's words."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        fetched = await fetch(f"http://127.0.0.1:{port}/metrics")
    assert fetched.reason is FailureReason.CONNECT
    assert fetched.detail == "no connection: Connection refused"
    assert fetched.status is None


async def test_an_address_that_is_none_is_a_failure() -> None:
    """The configuration lets no such address through; others may call too."""
    fetched = await fetch("http://127.0.0.1:port/metrics")
    assert (fetched.reason, fetched.detail) == (FailureReason.CONNECT, "the url is no address")


def test_the_reason_of_several_failed_connections_is_the_first() -> None:
    """A name with several addresses fails once for each."""
    refused = OSError(errno.ECONNREFUSED, "Connect call failed ('::1', 1)")
    error = httpx.ConnectError("All connection attempts failed")
    error.__cause__ = ExceptionGroup("multiple connection attempts failed", [refused, OSError("another")])
    assert _cause(error) == "Connection refused"
    assert _cause(httpx.ReadError("")) == "ReadError"


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH_9.2p1\r\n\r\n", b"\x00\xff" * 300, b"HTTP/1.1 hello\r\n\r\n", b"HTTP/1.1 200\r\nA\r\n\r\n"],
)
async def test_garbage_instead_of_http_is_a_failure(answer: bytes) -> None:
    """Some other protocol listens there."""

    async def once(_asked: Asked) -> AsyncIterator[bytes]:
        yield answer
        raise CloseConnection

    fetched = await fetch_from(once)
    assert fetched.reason is FailureReason.CONNECT
    assert fetched.detail.startswith("no answer: ")


async def test_a_truncated_body_is_a_failure_and_no_page() -> None:
    """Half a page would look like an engine that lost its counters."""

    async def half(_asked: Asked) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nup 1\n"
        raise CloseConnection

    fetched = await fetch_from(half)
    assert (fetched.body, fetched.reason) == (None, FailureReason.CONNECT)
    assert fetched.detail.startswith("no complete body: ")


async def test_a_status_other_than_200_quotes_the_body() -> None:
    """Go exporters explain themselves in it (E13, E22); it stays one line and short."""
    body = b"error:\n\tcollected metric \x1b[31m was collected before\n" + b"x" * 5000
    fetched = await fetch_from(always(page(body, status="500 Internal Server Error")))
    assert (fetched.reason, fetched.status, fetched.body) == (FailureReason.HTTP_STATUS, 500, None)
    assert fetched.detail.startswith("HTTP 500: error: collected metric [31m was collected before xxx")
    assert len(fetched.detail) == 200
    assert fetched.detail.isprintable()


@pytest.mark.parametrize("status", ["204 No Content", "401 Unauthorized", "404 Not Found", "503 Busy"])
async def test_the_status_is_named(status: str) -> None:
    """Also where there is nothing to quote."""
    fetched = await fetch_from(always(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()))
    assert (fetched.reason, fetched.detail) == (FailureReason.HTTP_STATUS, f"HTTP {status[:3]}")


async def test_a_body_of_the_largest_size_is_read() -> None:
    """16 MiB."""
    body = b"#" * MAX_BODY_BYTES
    assert (await fetch_from(always(page(body)))).body == body


@pytest.mark.parametrize("announced", [True, False])
async def test_a_larger_body_is_a_failure(announced: bool) -> None:
    """One byte more, whether the target says so beforehand or not."""
    head = f"Content-Length: {MAX_BODY_BYTES + 1}\r\n" if announced else ""
    sent = 0

    async def large(_asked: Asked) -> AsyncIterator[bytes]:
        nonlocal sent
        yield f"HTTP/1.1 200 OK\r\n{head}\r\n".encode()
        for _ in range(17):
            yield b"#" * 2**20
            sent += 1
        raise CloseConnection

    fetched = await fetch_from(large)
    assert (fetched.reason, fetched.body) == (FailureReason.TOO_LARGE, None)
    assert fetched.detail == "the body has more than 16 MiB"
    if announced:
        assert sent < 17  # the announcement is enough


async def test_a_body_that_pauses_at_the_limit_is_read_to_its_end() -> None:
    """What has arrived so far is no page yet, also when it is just as long as allowed."""

    async def pauses(asked: Asked) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n" + b"#" * 1000
        await asyncio.sleep(1.0)
        yield b"#" * int(asked.path[1:])
        raise CloseConnection

    async with HttpTarget(pauses) as target, Fetcher(max_body_bytes=1000) as fetcher:
        for more, reason in ((0, None), (1, FailureReason.TOO_LARGE)):
            assert (await fetcher.fetch(f"{target.url}/{more}", timeout_seconds=4.0)).reason is reason


async def test_a_body_without_end_is_a_failure() -> None:
    """It is not kept until the deadline."""

    async def endless(_asked: Asked) -> AsyncIterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while True:
            yield b"#" * 2**20

    fetched = await fetch_from(endless)
    assert fetched.reason is FailureReason.TOO_LARGE
    assert fetched.duration_seconds < 4.0


async def test_compression_that_was_not_asked_for_is_refused() -> None:
    """A few bytes of it can unfold to gigabytes."""
    fetched = await fetch_from(always(page(b"\x1f\x8b", headers="Content-Encoding: gzip\r\n")))
    assert fetched.reason is FailureReason.NOT_EXPOSITION
    assert fetched.detail == "Content-Encoding gzip, though only identity was accepted"


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("absolute", [True, False])
async def test_a_redirect_within_the_origin_is_followed(status: int, absolute: bool) -> None:
    """Mounted applications answer /metrics with a redirect to /metrics/ (E21)."""

    async def mounted(asked: Asked) -> AsyncIterator[bytes]:
        base = f"http://{asked.headers['host']}" if absolute else ""
        if asked.path == "/metrics":
            yield page(b"moved", status=f"{status} Moved", headers=f"Location: {base}/metrics/\r\n")
        else:
            yield page(b"up 1\n")

    async with HttpTarget(mounted) as target:
        assert await fetch(target.url + "/metrics") == Fetched(b"up 1\n", status=200)
    assert target.paths == ["/metrics", "/metrics/"]
    assert {asked.connection for asked in target.asked} == {0}


async def test_redirects_are_followed_three_times() -> None:
    """A fourth is a loop."""

    async def on_and_on(asked: Asked) -> AsyncIterator[bytes]:
        step = len(asked.path)
        yield page(b"", status="302 Found", headers=f"Location: /{'x' * step}\r\n") if step < 5 else page(b"up 1\n")

    async with HttpTarget(on_and_on) as target:
        assert (await fetch(target.url + "/x")).body == b"up 1\n"
        fetched = await fetch(target.url + "/")
    assert fetched.reason is FailureReason.REDIRECT
    assert fetched.detail == "HTTP 302 redirects once more after 3 times"
    assert target.paths[-4:] == ["/", "/x", "/xx", "/xxx"]


async def test_a_redirect_loop_ends() -> None:
    """To itself."""
    async with HttpTarget(always(page(b"", status="307 Here", headers="Location: /metrics\r\n"))) as target:
        fetched = await fetch(target.url + "/metrics")
    assert fetched.reason is FailureReason.REDIRECT
    assert len(target.asked) == 4


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://localhost:{port}/metrics?token=abc", "to another origin, http://localhost:{port}"),
        ("https://127.0.0.1:{port}/metrics", "to another origin, https://127.0.0.1:{port}"),
        ("//127.0.0.1:81/metrics", "to another origin, http://127.0.0.1:81"),
        ("file:///etc/passwd", "to another origin, file://:0"),
        ("http://127.0.0.1:port/", "to what is no address"),
        (None, "to nowhere"),
    ],
)
async def test_a_redirect_elsewhere_is_not_followed(tmp_path: Path, location: str | None, said: str) -> None:
    """A target must not send us, and our secret, to another; the address is told without path and query."""

    async def away(asked: Asked) -> AsyncIterator[bytes]:
        port = asked.headers["host"].partition(":")[2]
        headers = f"Location: {location.format(port=port)}\r\n" if location is not None else ""
        yield page(b"", status="302 Found", headers=headers)

    async with HttpTarget(away) as target:
        fetched = await fetch(target.url + "/metrics", auth=bearer(tmp_path / "token"))
    port = target.url.rpartition(":")[2]
    assert fetched.reason is FailureReason.REDIRECT
    assert fetched.detail == f"HTTP 302 redirects {said.format(port=port)}"
    assert len(target.asked) == 1


@given(location=st.text(st.characters(codec="latin-1", exclude_characters="\r\n\0"), max_size=40))
def test_no_location_raises(location: str) -> None:
    """Whatever a target writes there is a value afterwards."""

    async def check() -> Fetched:
        answer = f"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: {location}\r\n\r\n".encode("latin-1")
        return await fetch_from(always(answer))

    with asyncio.Runner(loop_factory=SIMULATED[1]["loop_factory"]) as runner:
        fetched = runner.run(check())
    assert fetched.reason in (FailureReason.REDIRECT, FailureReason.CONNECT)
    assert len(fetched.detail) <= 200
    assert fetched.detail.isprintable()


# Connections


async def test_the_connection_is_kept() -> None:
    """One connection for all scrapes of a target, failed ones with a short body included."""
    answers = [page(b"up 1\n"), page(b"no", status="500 Error"), page(b"up 2\n")]

    async def one_after_another(_asked: Asked) -> AsyncIterator[bytes]:
        yield answers.pop(0)

    async with HttpTarget(one_after_another) as target, Fetcher() as fetcher:
        for _ in range(3):
            await fetcher.fetch(target.url, timeout_seconds=4.0)
            await asyncio.sleep(5.0)
    assert [asked.connection for asked in target.asked] == [0, 0, 0]


@pytest.mark.parametrize("reset", [True, False])
async def test_a_kept_connection_that_the_server_closes_is_tried_again(reset: bool) -> None:
    """Engines close after 5 idle seconds, just when the next request is on its way."""

    async def closes_under_the_second_request(asked: Asked) -> AsyncIterator[bytes]:
        if asked.connection == 0 and len(target.asked) == 2:
            if reset:
                raise ConnectionResetError
            raise CloseConnection
        yield page(b"up 1\n")

    async with HttpTarget(closes_under_the_second_request) as target, Fetcher() as fetcher:
        for _ in range(3):
            assert (await fetcher.fetch(target.url, timeout_seconds=4.0)).body == b"up 1\n"
    assert [asked.connection for asked in target.asked] == [0, 0, 1, 1]


async def test_a_new_connection_that_the_server_closes_is_not_tried_again() -> None:
    """That is no race, but a target that does not want us."""

    async def closes(_asked: Asked) -> AsyncIterator[bytes]:
        raise CloseConnection
        yield b""

    async with HttpTarget(closes) as target:
        fetched = await fetch(target.url)
    assert fetched.reason is FailureReason.CONNECT
    assert len(target.asked) == 1


async def test_a_connection_after_a_timeout_is_a_new_one() -> None:
    """The late answer to the request before must not be taken for that to this one."""

    async def late(asked: Asked) -> AsyncIterator[bytes]:
        if asked.connection == 0:
            await asyncio.sleep(5.0)
        yield page(f"connection {asked.connection}\n".encode())

    async with HttpTarget(late) as target, Fetcher() as fetcher:
        assert (await fetcher.fetch(target.url, timeout_seconds=4.0)).reason is FailureReason.TIMEOUT
        await asyncio.sleep(2.0)
        assert (await fetcher.fetch(target.url, timeout_seconds=4.0)).body == b"connection 1\n"


# Secrets


async def test_a_token_is_sent_and_read_again_when_its_file_changes(tmp_path: Path) -> None:
    """Kubernetes renews tokens behind a link (E25)."""
    old, new, link = tmp_path / "old", tmp_path / "new", tmp_path / "token"
    bearer(old, "first")
    bearer(new, "other")
    link.symlink_to(old)
    auth = AuthConfig(bearer_token_file=str(link))
    async with HttpTarget(always(page(b""))) as target, Fetcher() as fetcher:
        for _ in range(2):
            await fetcher.fetch(target.url, timeout_seconds=4.0, auth=auth)
        link.unlink()
        link.symlink_to(new)
        await fetcher.fetch(target.url, timeout_seconds=4.0, auth=auth)
    sent = [asked.headers["authorization"] for asked in target.asked]
    assert sent == ["Bearer first", "Bearer first", "Bearer other"]


async def test_an_unchanged_file_is_read_once(tmp_path: Path) -> None:
    """A file that changed without a sign (same time, size and inode) is not looked into."""
    auth = bearer(tmp_path / "token", "aaaa")
    before = (tmp_path / "token").stat()
    async with HttpTarget(always(page(b""))) as target, Fetcher() as fetcher:
        await fetcher.fetch(target.url, timeout_seconds=4.0, auth=auth)
        with (tmp_path / "token").open("r+") as file:
            file.write("bbbb")
        os.utime(tmp_path / "token", ns=(before.st_atime_ns, before.st_mtime_ns))
        await fetcher.fetch(target.url, timeout_seconds=4.0, auth=auth)
        os.utime(tmp_path / "token", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        await fetcher.fetch(target.url, timeout_seconds=4.0, auth=auth)
    assert [asked.headers["authorization"][-4:] for asked in target.asked] == ["aaaa", "aaaa", "bbbb"]


async def test_a_folder_in_the_place_of_a_secret_is_a_failure(tmp_path: Path) -> None:
    """As a container gets it that mounts a file which does not exist."""
    fetched = await fetch("http://127.0.0.1:1", auth=AuthConfig(bearer_token_file=str(tmp_path)))
    assert (fetched.reason, fetched.detail) == (FailureReason.CONNECT, "auth.bearer_token_file: Is a directory")


async def test_basic_authentication_is_sent(tmp_path: Path) -> None:
    """In UTF-8 (RFC 7617)."""
    (tmp_path / "password").write_text("pässword\n", encoding="utf-8")
    auth = AuthConfig.model_validate({"basic": {"username": "me", "password_file": str(tmp_path / "password")}})
    async with HttpTarget(always(page(b""))) as target:
        await fetch(target.url, auth=auth)
    assert target.asked[0].headers["authorization"] == "Basic bWU6cMOkc3N3b3Jk"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file or directory"),
        (b" \n", "is empty"),
        (f"{SECRET}\nX-Other: 1".encode(), "must hold the secret alone, on one line"),
        (f"Bearer {SECRET}".encode(), "holds characters that a token cannot have"),
        (f"{SECRET}é".encode(), "holds characters that a token cannot have"),
        (SECRET.encode() + b"\xff", "is no text in UTF-8"),
    ],
)
async def test_a_token_file_that_cannot_be_used_is_a_failure(
    tmp_path: Path, content: bytes | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It names the key, never the path or what the file holds; and nothing is sent."""
    path = tmp_path / f"token-{SECRET}"
    if content is not None:
        path.write_bytes(content)
    async with HttpTarget(always(page(b""))) as target:
        fetched = await fetch(target.url, auth=AuthConfig(bearer_token_file=str(path)))
    assert fetched.reason is FailureReason.CONNECT
    assert fetched.detail == f"auth.bearer_token_file: {said}"
    assert target.asked == []
    assert SECRET not in caplog.text


@pytest.mark.parametrize("path", ["/metrics", "/metrics?key=qu3ry-s3cr3t"])
@pytest.mark.parametrize("status", ["401 Unauthorized", "200 OK", "302 Found"])
async def test_a_secret_that_the_target_repeats_is_not_quoted(
    tmp_path: Path, status: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Error pages like to show the request. At every log level, in no detail and no repr."""
    caplog.set_level(logging.DEBUG)

    async def repeats(asked: Asked) -> AsyncIterator[bytes]:
        yield page(asked.headers["authorization"].encode() + asked.path.encode(), status=status)

    auth = bearer(tmp_path / "token")
    async with HttpTarget(repeats) as target, Fetcher() as fetcher:
        fetched = await fetcher.fetch(target.url + path, timeout_seconds=4.0, auth=auth)
        told = f"{fetched.detail} {fetched!r} {fetcher!r} {vars(fetcher)} {auth!r} {caplog.text}"
    assert target.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    assert fetched.status == int(status[:3])
    assert "s3cr3t" not in told


@pytest.mark.parametrize("answer", ["{path} is what you asked for", "HTTP/1.1 200 OK\r\n{secret}"])
async def test_an_answer_that_is_no_http_is_not_quoted(tmp_path: Path, answer: str) -> None:
    """An echo server sends the request back."""

    async def echo(asked: Asked) -> AsyncIterator[bytes]:
        yield answer.format(path=asked.path, secret=asked.headers["authorization"]).encode() + b"\r\n\r\n"
        raise CloseConnection

    fetched = await fetch_from(echo, "/metrics?key=s3cr3t", auth=bearer(tmp_path / "token"))
    assert (fetched.reason, fetched.detail) == (FailureReason.CONNECT, "no answer: no valid HTTP")


async def test_a_query_that_the_target_repeats_is_not_quoted() -> None:
    """Addresses of devices may hold a key."""

    async def repeats(asked: Asked) -> AsyncIterator[bytes]:
        yield page(b"there is no " + asked.path.encode(), status="404 Not Found")

    assert (await fetch_from(repeats, "/metrics?key=abc")).detail == "HTTP 404"
    assert (await fetch_from(repeats, "/metrics")).detail == "HTTP 404: there is no /metrics"


# TLS


@pytest.fixture
def tls_dir(fixtures_dir: Path) -> Path:
    """Certificates of an authority of the tests."""
    return fixtures_dir / "tls"


@pytest.fixture
def tls_server(tls_dir: Path) -> ssl.SSLContext:
    """A server for 127.0.0.1 and engine.test."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tls_dir / "server.pem", tls_dir / "server.key")
    return context


async def test_https_with_an_authority_of_ones_own(tls_dir: Path, tls_server: ssl.SSLContext) -> None:
    """The connection is kept as well."""
    tls = TlsConfig(ca_file=str(tls_dir / "ca.pem"))
    async with HttpTarget(always(page(b"up 1\n")), tls=tls_server) as target, Fetcher() as fetcher:
        for _ in range(2):
            fetched = await fetcher.fetch(target.url, timeout_seconds=4.0, tls=tls)
            assert fetched.body == b"up 1\n", fetched.detail
    assert [asked.connection for asked in target.asked] == [0, 0]


async def test_a_certificate_of_nobody_we_know_is_refused(tls_server: ssl.SSLContext) -> None:
    """By the system's authorities; the reason is OpenSSL's (E25)."""
    async with HttpTarget(always(page(b"up 1\n")), tls=tls_server) as target:
        fetched = await fetch(target.url)
        assert (await fetch(target.url, tls=TlsConfig(insecure_skip_verify=True))).body == b"up 1\n"
    assert fetched.reason is FailureReason.CONNECT
    assert "certificate verify failed" in fetched.detail
    assert len(target.asked) == 1


async def test_the_name_in_the_certificate_can_be_given(tls_dir: Path, tls_server: ssl.SSLContext) -> None:
    """And a wrong one is refused."""
    async with HttpTarget(always(page(b"up 1\n")), tls=tls_server) as target:
        for name, works in (("engine.test", True), ("other.test", False)):
            tls = TlsConfig(ca_file=str(tls_dir / "ca.pem"), server_name=name)
            fetched = await fetch(target.url, tls=tls)
            assert (fetched.body == b"up 1\n") is works
            assert works or "Hostname mismatch" in fetched.detail


async def test_a_client_certificate_is_shown(tls_dir: Path, tls_server: ssl.SSLContext) -> None:
    """To a server that demands one."""
    tls_server.verify_mode = ssl.CERT_REQUIRED
    tls_server.load_verify_locations(tls_dir / "ca.pem")
    authority = {"ca_file": str(tls_dir / "ca.pem")}
    own = {"cert_file": str(tls_dir / "client.pem"), "key_file": str(tls_dir / "client.key")}
    async with HttpTarget(always(page(b"up 1\n")), tls=tls_server) as target:
        assert (await fetch(target.url, tls=TlsConfig.model_validate(authority | own))).body == b"up 1\n"
        assert (await fetch(target.url, tls=TlsConfig.model_validate(authority))).reason is FailureReason.CONNECT


async def test_renewed_authorities_are_used(tmp_path: Path, tls_dir: Path, tls_server: ssl.SSLContext) -> None:
    """A change of the file is noticed at the next request; until then the connection is kept."""
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes((tls_dir / "client.pem").read_bytes())  # a certificate, but not the server's authority
    tls = TlsConfig(ca_file=str(ca_file))
    async with HttpTarget(always(page(b"up 1\n")), tls=tls_server) as target, Fetcher() as fetcher:
        assert (await fetcher.fetch(target.url, timeout_seconds=4.0, tls=tls)).reason is FailureReason.CONNECT
        ca_file.write_bytes((tls_dir / "ca.pem").read_bytes())
        for _ in range(2):
            assert (await fetcher.fetch(target.url, timeout_seconds=4.0, tls=tls)).body == b"up 1\n"
        os.utime(ca_file, ns=(1, 1))
        assert (await fetcher.fetch(target.url, timeout_seconds=4.0, tls=tls)).body == b"up 1\n"
    assert [asked.connection - target.asked[0].connection for asked in target.asked] == [0, 0, 1]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"ca_file": "nothing.pem"}, "tls.ca_file: No such file or directory"),
        ({"ca_file": "client.key"}, "tls.ca_file: cannot be used: no certificate or crl found"),
        ({"cert_file": "client.pem", "key_file": "nothing"}, "tls.key_file: No such file or directory"),
        ({"cert_file": "client.pem", "key_file": "server.key"}, "tls.cert_file: cannot be used: key values mismatch"),
        (
            {"cert_file": "client.pem", "key_file": "encrypted.key"},
            "tls.cert_file: cannot be used: no PEM file, or an encrypted key",
        ),
    ],
)
async def test_certificate_files_that_cannot_be_used_are_a_failure(
    tls_dir: Path, files: dict[str, str], said: str
) -> None:
    """OpenSSL must not ask the terminal for a passphrase either."""
    tls = TlsConfig.model_validate({key: str(tls_dir / name) for key, name in files.items()})
    fetched = await fetch("https://127.0.0.1:1/metrics", tls=tls)
    assert (fetched.reason, fetched.detail) == (FailureReason.CONNECT, said)


def test_a_repr_shows_no_body() -> None:
    """Logs would hold megabytes of it."""
    assert "up 1" not in repr(Fetched(b"up 1\n"))
