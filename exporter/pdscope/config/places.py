"""Addresses, HTTP headers and files. No message shows such a value: a secret may be part of it or stand there."""

from __future__ import annotations

import glob
import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo

from pdscope.config.fields import Text, number_as_text, printable
from pdscope.config.problems import kind_of, shown


def _url(value: str) -> str:
    if not value.isprintable() or " " in value or "\\" in value:
        raise ValueError("an address has no spaces, backslashes or control characters")
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
        if ":" in host:
            ipaddress.IPv6Address(host)
    except ValueError:
        raise ValueError("is no address: look at the port and the brackets") from None
    if not value.lower().startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    if "@" in parts.netloc:
        raise ValueError("must not hold a user or a password: use auth")
    if not host:
        raise ValueError("names no host")
    if ":" not in host and not re.fullmatch(r"[\w-]+(?:\.[\w-]+)*\.?", host):
        raise ValueError("the host is neither a name nor an IP address")
    if port == 0:
        raise ValueError("port 0 cannot be reached")
    if "#" in value:
        raise ValueError("must not have a fragment (#)")
    return value


def _base_url(value: str) -> str:
    if "?" in value:
        raise ValueError("is where an engine answers, without a query (?)")
    return value.rstrip("/").removesuffix("/metrics").rstrip("/")


Url = Annotated[str, Field(strict=True, min_length=1, max_length=2048), AfterValidator(_url)]
BaseUrl = Annotated[Url, AfterValidator(_base_url)]
"""The root of an engine's HTTP interface, to which paths such as `/metrics` are added; these endings are cut off."""


def _header_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", value):
        raise ValueError("is no name of an HTTP header")
    if value.lower() in ("authorization", "proxy-authorization", "cookie"):
        raise ValueError("a secret does not belong in this file: use auth")
    return value


def _header_value(value: SecretStr) -> SecretStr:
    printable(value.get_secret_value())
    return value


HeaderName = Annotated[Text, AfterValidator(_header_name)]
HeaderValue = Annotated[
    SecretStr,
    Field(min_length=1, max_length=4096),
    BeforeValidator(number_as_text),
    AfterValidator(_header_value),
]


def _base_dir(info: ValidationInfo) -> Path:
    """The folder of the configuration; the current one for models that are built without a file."""
    context: Any = info.context
    return Path((context or {}).get("base_dir", ""))


def _path(value: object, info: ValidationInfo) -> Path:
    if not isinstance(value, str):
        raise ValueError(f"must be the path of a file, not {kind_of(value)}")  # noqa: TRY004 - pydantic's
    if not value.strip() or not value.isprintable():
        raise ValueError("is no path of a file")
    return _base_dir(info) / value


def _glob(value: str, info: ValidationInfo) -> str:
    return value if Path(value).is_absolute() else str(Path(glob.escape(str(_base_dir(info)))) / value)


def is_mapping_file(source: str) -> bool:
    """Whether the source of a device is a file that maps metric names, not the name of an adapter."""
    return "/" in source or source.endswith((".yml", ".yaml"))


def _source(value: str, info: ValidationInfo) -> str:
    if is_mapping_file(value):
        return str(_base_dir(info) / value)
    if not re.fullmatch("[a-z][a-z0-9_]*", value):
        raise ValueError(f"{shown(value)} is neither a source such as dcgm nor a mapping file (.yml)")
    return value


FilePath = Annotated[Path, BeforeValidator(_path)]
"""A file; relative to the folder of the configuration. Whether it exists is found out when it is read."""
FilePattern = Annotated[Text, AfterValidator(_glob)]
"""Files by a pattern (`targets/*.yml`); relative to the folder of the configuration."""
SourceName = Annotated[Text, AfterValidator(_source)]
"""A device source, or the path of a mapping file (one with a / or an ending .yml or .yaml)."""
