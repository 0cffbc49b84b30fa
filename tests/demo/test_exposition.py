"""The text form of the simulated pages."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from pdscope.demo.exposition import Exposition, Family, Ranks

BOUNDS = (0.5, 1.0, 1e6)
COMMON = {"model_name": "m"}
RANKS = ({"tp_rank": "0"}, {"tp_rank": "1"})


def exposition(*families: Family) -> Exposition:
    return Exposition(families, COMMON, RANKS)


def test_a_histogram_is_printed_as_in_multiprocess_mode() -> None:
    """Sum first, cumulative buckets with `le` among the sorted labels, count last, floats as Go writes them."""
    page = exposition(Family("h", "histogram", "Help text.", ("zone",), Ranks.NONE, BOUNDS))
    page.observe("h", 0.5, "a")
    page.observe("h", 2.0, "a", times=3)
    page.observe("h", 2e6, "a")
    assert page.render() == (
        "# HELP h Help text.\n"
        "# TYPE h histogram\n"
        'h_sum{model_name="m",zone="a"} 2.0000065e+06\n'
        'h_bucket{le="0.5",model_name="m",zone="a"} 1.0\n'
        'h_bucket{le="1.0",model_name="m",zone="a"} 1.0\n'
        'h_bucket{le="1e+06",model_name="m",zone="a"} 4.0\n'
        'h_bucket{le="+Inf",model_name="m",zone="a"} 5.0\n'
        'h_count{model_name="m",zone="a"} 5.0\n'
    )


def test_ranks_say_how_often_a_series_is_printed() -> None:
    """Once, for the first rank, for all, or for all with the first one alone counting."""
    page = exposition(
        Family("none", "counter", "x"),
        Family("first", "counter", "x", ranks=Ranks.FIRST),
        Family("all", "counter", "x", ranks=Ranks.ALL),
        Family("seeded", "counter", "x", ranks=Ranks.SEEDED),
        Family("bare", "gauge", "x", common=False),
    )
    for name in ("none", "first", "all", "seeded", "bare"):
        page.add(name, 2)
    lines = [line for line in page.render().splitlines() if not line.startswith("#")]
    assert lines == [
        'none{model_name="m"} 2.0',
        'first{model_name="m",tp_rank="0"} 2.0',
        'all{model_name="m",tp_rank="0"} 2.0',
        'all{model_name="m",tp_rank="1"} 2.0',
        'seeded{model_name="m",tp_rank="0"} 2.0',
        'seeded{model_name="m",tp_rank="1"} 0.0',
        "bare 2.0",
    ]


def test_a_family_is_not_there_before_its_first_series() -> None:
    """Neither its values nor its HELP and TYPE."""
    page = exposition(Family("c", "counter", "x", ("kind",)))
    assert page.render() == ""
    page.add("c", 0, "a")
    assert page.render().splitlines()[-1] == 'c{kind="a",model_name="m"} 0.0'


@given(st.text(max_size=20), st.floats(allow_nan=False))
def test_labels_and_values_survive_the_official_parser(label: str, value: float) -> None:
    """Whatever the label holds."""
    page = exposition(Family("g", "gauge", "x", ("kind",)))
    page.put("g", value, label)
    (family,) = text_string_to_metric_families(page.render())
    (sample,) = family.samples
    assert (sample.labels, sample.value) == ({"kind": label, "model_name": "m"}, value)


@given(st.lists(st.tuples(st.floats(0, 3e6), st.integers(1, 50))))
def test_buckets_count_what_was_observed(observations: list[tuple[float, int]]) -> None:
    """An observation equal to a bound belongs to it."""
    page = exposition(Family("h", "histogram", "x", buckets=BOUNDS))
    page.observe("h", 0.25)
    for value, times in observations:
        page.observe("h", value, times=times)
    (family,) = text_string_to_metric_families(page.render())
    counts = [sample.value for sample in family.samples if sample.name == "h_bucket"]
    everything = [(0.25, 1), *observations]
    expected = [sum(times for value, times in everything if bisect_left(BOUNDS, value) <= place) for place in range(4)]
    assert counts == expected
