"""What engines say of themselves: the fields that are used, and nothing else."""

from __future__ import annotations

import pytest

from pdscope.errors import PageError
from pdscope.model.metric import Fact
from pdscope.sources.introduction import INTRODUCTIONS, model_info, server_info, version
from support.pages import page


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_server_info_of_a_real_server(role: str) -> None:
    """Version, role and sizes; as many facts as fields."""
    facts = server_info(page(f"sglang-0.5.23-server_info-{role}.json"))
    assert facts[Fact.ENGINE_VERSION] == "0.5.23"
    assert facts[Fact.ROLE] == role
    assert (facts[Fact.TP], facts[Fact.PP], facts[Fact.DP]) == ("4", "1", "1")
    assert "canary" not in repr(facts)


def test_no_disaggregation_is_unified() -> None:
    """SGLang writes null as a word."""
    assert server_info(b'{"disaggregation_mode": "null"}')[Fact.ROLE] == "unified"


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_model_info_of_a_real_server(role: str) -> None:
    """Role and model."""
    assert model_info(page(f"sglang-0.5.23-model_info-{role}.json")) == {
        Fact.ROLE: role,
        Fact.MODEL: "meta-llama/Llama-3.1-70B-Instruct",
    }
    assert model_info(b'{"disaggregation_mode": "x", "served_model_name": "a\\nb"}') == {}


def test_version_of_vllm() -> None:
    """As the server answers."""
    assert version(b'{"version":"0.32.0"}') == {Fact.ENGINE_VERSION: "0.32.0"}


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b'{"version": 3}', b'{"version": "x\\n"}', b"[" * 100_000])
def test_other_answers_are_refused(body: bytes) -> None:
    """Whatever it is, it is a value to log and not a crash."""
    with pytest.raises(PageError):
        version(body)


def test_only_fields_of_the_right_form_count() -> None:
    """A hostile server gains nothing."""
    assert server_info(b'{"version": "<script>", "tp_size": true, "dp_size": -1, "pp_size": 1e9}') == {}


def test_each_is_for_an_engine_that_has_it() -> None:
    """Names of adapters."""
    assert set(INTRODUCTIONS) == {"sglang", "vllm"}
