"""What is taken, with a warning that names its place; and that one error tells of values and of names alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdscope.config import doubts, parse_config
from pdscope.errors import ConfigError
from pdscope.runtime.plugins import Plugins, doubts_of, known_names, load_plugins

SHARES = {"prefill_queue": {"ttft_share": 0.2}}
PAIR = """\
deployments:
- name: d
  instances:
  - {name: p0, url: "http://h:1", role: prefill}
  - {name: d0, url: "http://h:2", role: decode}
"""


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return load_plugins()


def said(text: str) -> tuple[str, ...]:
    return doubts(parse_config(text, Path("/base")), SHARES)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "window: 1s\n" + PAIR,
            (
                "window: a window of 1s holds no two scrapes that are 5s apart: every diagnosis is of a "
                "single interval "
                "(line 1)"
            ),
        ),
        (
            "thresholds: {prefill_queue: {ttft_share: 90}}\n" + PAIR,
            (
                "thresholds.prefill_queue.ttft_share: 90 is more than the whole, which is 1 (default: "
                "0.2); for 90 % write "
                "0.9 (line 1)"
            ),
        ),
        (
            PAIR + "  thresholds: {prefill_queue: {ttft_share: 101}}\n",
            (
                "deployments[0].thresholds.prefill_queue.ttft_share: 101 is more than the whole, which is "
                "1 (default: 0.2) "
                "(line 6)"
            ),
        ),
        (
            PAIR.replace("role: decode", "role: prefill"),
            (
                "deployments[0].instances: prefill without decode: neither the transfer nor all of what "
                "users wait for can "
                "be judged (line 3)"
            ),
        ),
        (
            PAIR.replace("role: prefill", "role: router"),
            (
                "deployments[0].instances: decode without prefill: neither the transfer nor all of what "
                "users wait for can "
                "be judged (line 3)"
            ),
        ),
        (
            "deployments: [{name: d, instances: [{name: r, url: 'http://h:1', role: router}]}]",
            "deployments[0].instances: routers alone: there is no engine to judge (line 1)",
        ),
        (
            PAIR.replace("http://h:2", "http://h:1/metrics"),
            (
                "deployments[0].instances[1].url: is also the address of deployments[0].instances[0]: its requests "
                "count twice (line 5)"
            ),
        ),
        (
            PAIR + "- name: e\n  instances: [{name: e0, url: 'http://h:1/metrics'}]\n",
            (
                "deployments[1].instances[0].url: is also the address of deployments[0].instances[0], of another "
                "deployment: its requests count in both (line 7)"
            ),
        ),
    ],
)
def test_a_doubt_names_its_place(text: str, says: str) -> None:
    assert said(text) == (says,)


@pytest.mark.parametrize(
    "text",
    [
        PAIR,
        "window: 10s\nscrape: {interval: 5s}\n" + PAIR,
        "thresholds: {prefill_queue: {ttft_share: 1, queue: 90}}\n" + PAIR,
        PAIR.replace(", role: decode", ""),
        PAIR.replace("role: decode", "role: prefill") + "  discovery: {router: 'http://r:1'}\n",
        PAIR.replace("role: decode", "role: unified"),
        PAIR.replace("role: decode}", "role: decode}\n  - {name: r, url: 'http://r', role: router}")
        + "- name: e\n  instances: [{name: e0, url: 'http://h:3'}, {name: r2, url: 'http://r', role: router}]\n",
    ],
)
def test_what_is_usual_raises_no_doubt(text: str) -> None:
    assert said(text) == ()


def test_the_shares_are_those_of_the_rules(plugins: Plugins) -> None:
    """A share of 90 is doubted; a ratio of 90, or 90 requests, may be."""
    text = (
        "thresholds: {prefill_queue: {ttft_share: 90, queue: 90, wait_to_service: 90}, router_imbalance: {ratio: 90}}\n"
    )
    (line,) = doubts_of(parse_config(text + PAIR, Path("/base")), plugins)
    assert line.startswith("thresholds.prefill_queue.ttft_share: 90 ")


def test_wrong_values_do_not_hide_wrong_names(plugins: Plugins) -> None:
    text = (
        "thresholds: {prefill_queue: {nope: 3}}\n"
        + PAIR.replace("http://h:1", "h:1").replace("role: decode", "role: decode, engine: sglangg")
        + "  hardware: {name: H2000}\n  slo: {ttft_p50: 5}\n"
        "  devices: [{name: g, source: dcgmm, url: 'http://h:3', instance: q0}]\n"
    )
    with pytest.raises(ConfigError) as caught:
        parse_config(text, Path("/base"), names=known_names(plugins))
    assert [line.split(": ")[0] for line in str(caught.value).split("\n")] == [
        "thresholds.prefill_queue.nope",
        "deployments[0].instances[0].url",
        "deployments[0].instances[1].engine",
        "deployments[0].hardware",
        "deployments[0].slo.ttft_p50",
        "deployments[0].devices[0].instance",
        "deployments[0].devices[0].source",
    ]
