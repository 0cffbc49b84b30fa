"""Where the interface lies, from the flags that Prometheus has too."""

from __future__ import annotations

import pytest

from pdscope.errors import UsageError
from pdscope.web.paths import Paths, read_paths


@pytest.mark.parametrize(
    ("external_url", "route_prefix", "paths"),
    [
        (None, None, Paths("", "")),
        (None, "/", Paths("", "")),
        (None, "", Paths("", "")),
        (None, "/llm/", Paths("/llm", "/llm")),
        (None, "llm/pd", Paths("/llm/pd", "/llm/pd")),
        ("http://h:1", None, Paths("", "http://h:1")),
        ("https://h/llm/", None, Paths("/llm", "https://h/llm")),
        ("https://h/llm", "/", Paths("", "https://h/llm")),
        ("https://h/llm", "/x", Paths("/x", "https://h/llm")),
    ],
)
def test_both_flags(external_url: str | None, route_prefix: str | None, paths: Paths) -> None:
    """A proxy that cuts the path off is told by `--web.route-prefix=/`."""
    assert read_paths(external_url, route_prefix) == paths


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("h:9836", "is no address"),
        ("ftp://h", "is no address"),
        ("http://", "is no address"),
        ("http://h:port", "is no address"),
        ("http://[::1", "is no address"),
        ("javascript:alert(1)", "is no address"),
        ("http://u:s3cr3t@h", "must not hold a user or a password"),
        ("http://h/?a=1", "only a path of plain names"),
        ("http://h/#a", "only a path of plain names"),
        ("http://h/{a}", "only a path of plain names"),
    ],
)
def test_a_wrong_address_is_wrong_use(url: str, message: str) -> None:
    """It names the flag, and repeats no password."""
    with pytest.raises(UsageError, match=message) as caught:
        read_paths(url)
    assert "--web.external-url" in str(caught.value)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("prefix", ["/a b", "/{x}", "/a//b", "/a?b", "http://h/a"])
def test_a_wrong_prefix_is_wrong_use(prefix: str) -> None:
    """It names the flag and how to write one."""
    with pytest.raises(UsageError, match=r"--web\.route-prefix .* is no path: write /name"):
        read_paths(None, prefix)
