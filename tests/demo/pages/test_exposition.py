"""The store of series and its text: what the official parser reads is what was put in, in every dialect."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pdscope.demo.pages.dialect import GO, PYTHON, PYTHON_PROCESSES, RUST, Dialect
from pdscope.demo.pages.exposition import Exposition
from pdscope.demo.pages.families import Family, Ranks, families, of_role

_BOUNDS = (0.1, 1.0, 5.0)
_COUNTER = Family("a_total", "counter", "Counts.", ("kind",), ("model",))
_HISTOGRAM = Family("b_seconds", "histogram", "Times.", buckets=_BOUNDS)
_RANKED = Family("c", "gauge", "State.", rank_labels=("tp_rank",), ranks=Ranks.ALL)
_SEEDED = Family("d_total", "counter", "Seeds.", rank_labels=("tp_rank",), ranks=Ranks.SEEDED)
_PASSES = Family(
    "e_total", "counter", "Passes.", ("mode",), (), ("tp_rank",), Ranks.ALL, first_only=frozenset({"prefill"})
)
_DIALECTS = {"processes": PYTHON_PROCESSES, "python": PYTHON, "rust": RUST, "go": GO}


def page(dialect: Dialect = PYTHON_PROCESSES) -> Exposition:
    """With a family of every sort, on two ranks."""
    known = (_COUNTER, _HISTOGRAM, _RANKED, _SEEDED, _PASSES)
    ranks = ({"tp_rank": "0"}, {"tp_rank": "1"})
    return Exposition(known, dialect, common={"model": "m"}, rank_labels=ranks, unix_seconds=lambda: 1.8e9)


def samples(text: bytes) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """As the official parser reads them."""
    found = text_string_to_metric_families(text.decode())
    return {(one.name, frozenset(one.labels.items())): one.value for family in found for one in family.samples}


def key(name: str, **labels: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """Of a sample."""
    return name, frozenset(labels.items())


@pytest.mark.parametrize("dialect", _DIALECTS.values(), ids=_DIALECTS)
@given(
    label=st.text(),
    amounts=st.lists(st.floats(0.0, 1e12), min_size=1, max_size=5),
    values=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=20),
)
def test_parser_reads_what_was_put_in(dialect: Dialect, label: str, amounts: list[float], values: list[float]) -> None:
    """Any label value, sums to the last bit, and buckets that contain their bounds."""
    label = "".join(one for one in label if one.isprintable() or one == "\n")
    made = page(dialect)
    for amount in amounts:
        made.add("a_total", amount, label)
        made.render()  # a page in between changes nothing
    for value in values:
        made.observe("b_seconds", value)
    read = samples(made.render())
    total = 0.0
    for amount in amounts:
        total += amount
    assert read[key("a_total", kind=label, model="m")] == total
    counts = [0] * (len(_BOUNDS) + 1)
    for value in values:
        counts[bisect_left(_BOUNDS, value)] += 1
    number = dialect.number
    bounds = [*map(number, _BOUNDS), "+Inf"]
    assert [read[key("b_seconds_bucket", le=bound)] for bound in bounds] == list(accumulate(counts))
    assert read[key("b_seconds_count")] == len(values)
    assert read[key("b_seconds_sum")] == pytest.approx(sum(values))


def test_series_are_absent_before_use() -> None:
    """With their comments, save where the library prints those from the start."""
    assert page().render() == b""
    assert page(PYTHON).render().count(b"# TYPE") == 5
    made = page()
    made.add("a_total", 0, "x")
    assert samples(made.render()) == {key("a_total", kind="x", model="m"): 0.0}


def test_ranks() -> None:
    """All print the same; only the first one counts where all are seeded; some series it has for itself."""
    made = page()
    made.put("c", 3)
    made.add("d_total", 4)
    made.add("e_total", 5, "prefill")
    made.add("e_total", 6, "decode")
    assert samples(made.render()) == {
        key("c", tp_rank="0"): 3.0,
        key("c", tp_rank="1"): 3.0,
        key("d_total", tp_rank="0"): 4.0,
        key("d_total", tp_rank="1"): 0.0,
        key("e_total", tp_rank="0", mode="prefill"): 5.0,
        key("e_total", tp_rank="0", mode="decode"): 6.0,
        key("e_total", tp_rank="1", mode="decode"): 6.0,
    }


def test_created_series_stand_behind_their_family() -> None:
    """Of counters and histograms, where the library prints them, and never of a gauge."""
    made = page(PYTHON)
    made.add("a_total", 1, "x")
    made.put("c", 1)
    read = samples(made.render())
    assert read[key("a_created", kind="x", model="m")] == 1.8e9
    assert not any(name == "c_created" for name, _ in read)


def test_unknown_names_and_wrong_labels_are_refused() -> None:
    """A slip in a writer must not print a series that no engine has."""
    with pytest.raises(KeyError):
        page().add("z_total", 1)
    with pytest.raises(ValueError, match="zip"):
        page().add("a_total", 1)


@pytest.mark.parametrize("program", ["sglang", "vllm", "dcgm", "smg"])
def test_families_are_sound(program: str) -> None:
    """Names are there once, bounds rise, and what is there from the start fits its labels."""
    known = families(program)
    assert len({one.name for one in known}) == len(known)
    for family in known:
        assert list(family.buckets) == sorted(set(family.buckets)), family.name
        assert bool(family.buckets) is (family.kind == "histogram"), family.name
        assert all(len(labels) == len(family.labels) for labels, _ in family.start), family.name
    assert set(of_role(known, "decode")) <= set(known)
