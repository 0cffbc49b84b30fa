"""SGLang's `/server_info` holds keys: what is on the allow-list comes out, and nothing else in any form."""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.errors import PageError
from pdscope.sources.server_info import allowed_server_info
from support.pages import page

CANARY = "REDACT-ME-canary"
FIELDS = ("version", "kv_cache_dtype", "disaggregation_mode")
NUMBERS = ("tp_size", "dp_size", "pp_size", "page_size", "max_running_requests")


@pytest.mark.parametrize("role", ["prefill", "decode"])
def test_a_real_answer(role: str, caplog: pytest.LogCaptureFixture) -> None:
    """Eight fields of 379; the key is in the answer, and neither in the result nor in the log."""
    caplog.set_level(logging.DEBUG)
    body = page(f"sglang-0.5.23-server_info-{role}.json")
    document = json.loads(body)
    assert body.count(CANARY.encode()) == 2
    allowed = allowed_server_info(body)
    assert dict(allowed) == {name: document[name] for name in (*FIELDS, *NUMBERS)}
    assert allowed["disaggregation_mode"] == role
    assert CANARY not in repr(allowed) + caplog.text


@pytest.mark.parametrize("name", [*FIELDS, *NUMBERS])
@pytest.mark.parametrize(
    "value", [CANARY, [CANARY], {"key": CANARY}, True, None, -1, 0, 1.5, 10**30, "", "1 " + CANARY]
)
def test_a_field_of_another_form_is_left_out(name: str, value: Any) -> None:
    """Also where a key stands in the place of a version."""
    assert name not in allowed_server_info(json.dumps({name: value}).encode())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"REDACT-ME-canary",
        b'"REDACT-ME-canary"',
        b'["REDACT-ME-canary"]',
        b'{"api_key": "REDACT-ME-canary"',
        b"\xff",
    ],
)
def test_an_error_quotes_nothing(body: bytes) -> None:
    """Neither its text nor what it was raised from: a log prints both."""
    with pytest.raises(PageError) as raised:
        allowed_server_info(body)
    assert raised.value.__cause__ is None
    assert CANARY not in "".join(traceback.format_exception(raised.value))


def test_the_answer_is_read_only() -> None:
    """Nothing can be added to it later."""
    with pytest.raises(TypeError):
        allowed_server_info(b"{}")["api_key"] = CANARY  # type: ignore[index]


@given(st.binary())
def test_any_bytes(body: bytes) -> None:
    """A value, or the one error."""
    try:
        known = set(allowed_server_info(body))
    except PageError as error:
        known = {str(error)}
    assert known <= {*FIELDS, *NUMBERS} or known == {"not a /server_info answer"}
