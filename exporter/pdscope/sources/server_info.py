"""What may be known of SGLang's `/server_info`, whose answer holds the server's keys in clear text.

Nothing but the fields listed here leaves this module: no error quotes the body, and nobody else gets to see it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType

from pdscope.errors import PageError

_NUMBERS = ("tp_size", "dp_size", "pp_size", "page_size", "max_running_requests")
_MAX_NUMBER = 10**9
_WORDS: Mapping[str, re.Pattern[str]] = {
    "version": re.compile(r"\d[0-9A-Za-z.+!]{0,39}"),
    "kv_cache_dtype": re.compile(r"auto|bf16|bfloat16|fp8_e5m2|fp8_e4m3|mxfp8|nvfp4|fp4_mx_block16|fp4_e2m1"),
    "disaggregation_mode": re.compile(r"null|prefill|decode"),
}


def allowed_server_info(body: bytes) -> Mapping[str, str | int]:
    """The fields of the allow-list that the answer has, with values of the form that they should have.

    Args:
        body: of the answer; drop it.

    Returns:
        Read-only, by the engine's names. A field whose value is of another form is left out.

    Raises:
        PageError: the body is no JSON object. The text says nothing of what it is.
    """
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise PageError("not a /server_info answer") from None
    allowed: dict[str, str | int] = {}
    for name, pattern in _WORDS.items():
        word = document.get(name)
        if isinstance(word, str) and pattern.fullmatch(word):
            allowed[name] = word
    for name in _NUMBERS:
        number = document.get(name)
        if isinstance(number, int) and not isinstance(number, bool) and 0 < number <= _MAX_NUMBER:
            allowed[name] = number
    return MappingProxyType(allowed)
