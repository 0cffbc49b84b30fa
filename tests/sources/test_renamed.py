"""Pages whose series bear another prefix: why nobody reads them."""

from __future__ import annotations

import pytest

from pdscope.model.metric import Metric
from pdscope.model.scrape import FailureReason
from pdscope.model.topology import Role
from pdscope.sources.reader import PageReader, TargetReader
from pdscope.sources.renamed import renamed
from support.pages import AT, ENGINES, page, read_engine

FRONTEND, PREFILL = "dynamo-1.6.1-frontend-longhigh-bw450-t1.prom", "dynamo-1.6.1-prefill1-longhigh-bw450-t1.prom"


@pytest.mark.parametrize(("name", "role"), [(FRONTEND, Role.ROUTER), (PREFILL, Role.PREFILL)])
def test_a_page_of_dynamo_under_another_prefix(name: str, role: Role) -> None:
    """The reason names the variable that renames it, and not the prefix: a page may be nobody's business."""
    pages = PageReader(ENGINES)
    target = TargetReader("x0", pages, pages.candidates(engine="dynamo", role=role))
    assert target.read(page(name), AT).ok
    scrape = target.read(page(name).replace(b"dynamo_", b"acme_x_"), AT)
    assert scrape.reason is FailureReason.METRICS_OFF
    assert "dynamo_ series under another prefix" in scrape.detail
    assert "DYN_METRICS_PREFIX" in scrape.detail
    assert "acme" not in scrape.detail


@pytest.mark.parametrize(
    "body",
    [
        page(PREFILL),  # its own prefix
        page("vllm-0.32.0-light.prom"),
        page("node_exporter_infiniband_e2e.txt"),
        b"component_inflight_requests 1\n",  # no prefix at all
        b'other{text="acme_component_inflight_requests "} 1\n',
        b"",
        b"a" * 100_000,
    ],
    ids=["dynamo", "vllm", "node", "no prefix", "in a label", "empty", "no line"],
)
def test_other_pages(body: bytes) -> None:
    """Nothing is guessed of them."""
    assert renamed(ENGINES, body) is None


@pytest.mark.parametrize(
    ("name", "requests", "mean"),
    [
        ("vllm-0.32.0-overload.prom", 253, 4.18548490462225 / 253),
        ("sglang-0.5.23-unified.prom", 637, 16.69352650255415 / 637),  # streamed ones, as with TTFT
    ],
)
def test_time_per_token_is_read_where_engines_print_it(name: str, requests: int, mean: float) -> None:
    """A mean of each request, once it has finished."""
    found = read_engine(page(name)).buckets(Metric.TPOT)
    assert found is not None
    assert found.count == requests
    assert found.total / found.count == pytest.approx(mean)
