"""The daemon's log: one line an event, for people and machines alike."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

FORMATS = ("logfmt", "json")
LEVELS = ("debug", "info", "warning", "error")

_PLAIN = re.compile(r"[^\s\"=\\\x00-\x1f\x7f]+")


class LineFormatter(logging.Formatter):
    """Records as logfmt or as JSON. What targets say is in the messages, so no line break of theirs makes a line."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._form = form

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        at = datetime.fromtimestamp(record.created, tz=UTC)
        pairs = {
            "ts": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            pairs["exception"] = self.formatException(record.exc_info)
        if self._form == "json":
            return json.dumps(pairs, ensure_ascii=False)
        return " ".join(f"{key}={_value(value)}" for key, value in pairs.items())


def _value(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def set_up_logs(level: str, form: str) -> None:
    """Log to stderr from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(form))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    if level != "debug":
        logging.getLogger("httpx").setLevel("WARNING")  # a line for each request of each target would bury the rest
