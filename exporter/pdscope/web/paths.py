"""Where the interface lies: below which path it answers, and what its links begin with."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from pdscope.errors import UsageError

_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_NO_ADDRESS = "--web.external-url {}: is no address: write http://host or https://host/path"


@dataclass(frozen=True, slots=True)
class Paths:
    """Both without a slash at the end.

    Attributes:
        prefix: before every path that is answered; empty: none.
        base: before every path in a link: the address under which clients reach us, or the prefix.
    """

    prefix: str = ""
    base: str = ""


def read_paths(external_url: str | None = None, route_prefix: str | None = None) -> Paths:
    """What `--web.external-url` and `--web.route-prefix` mean.

    Args:
        external_url: address under which clients reach us, through a proxy perhaps.
        route_prefix: path below which we answer; left out: the path of `external_url`, as with Prometheus.

    Raises:
        UsageError: one of them cannot be meant.
    """
    path = ""
    if external_url is not None:
        external_url = external_url.rstrip("/")
        path = _external_path(external_url)
    prefix = path if route_prefix is None else "/" + route_prefix.strip("/")
    prefix = prefix.rstrip("/")
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(f"--web.route-prefix {route_prefix}: is no path: write /name or /name/name")
    return Paths(prefix, external_url if external_url is not None else prefix)


def _external_path(url: str) -> str:
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise UsageError(_NO_ADDRESS.format(url)) from None
    if "@" in parts.netloc:
        raise UsageError("--web.external-url: must not hold a user or a password")
    if not known:
        raise UsageError(_NO_ADDRESS.format(url))
    if parts.query or parts.fragment or not _PREFIX.fullmatch(parts.path):
        raise UsageError(f"--web.external-url {url}: only a path of plain names may follow the host")
    return parts.path
