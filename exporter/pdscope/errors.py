"""The errors of pdscope; every one of them is meant to be read by a person.

PdscopeError
├── UsageError          wrong use of the command line                       exit 2
├── ConfigError         the configuration is wrong; names the path          exit 2
├── BundleError         a capture bundle cannot be read; names the file     exit 2
├── ProbeError          the other end of probe-link is no such end, or fails; a value for the server
└── PageError           a page is not an exposition at all; a value, never fatal for the others
"""

from __future__ import annotations


class PdscopeError(Exception):
    """Base of all errors whose text is for the user."""


class UsageError(PdscopeError):
    """The command line asks for something that does not exist or does not fit together."""


class ConfigError(PdscopeError):
    """The configuration is wrong. `path` is where, for example `deployments[0].instances[2].url`."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}" if path else message)
        self.path = path


class BundleError(PdscopeError):
    """A capture bundle cannot be read."""


class PageError(PdscopeError):
    """A body that is not an exposition (an HTML page, JSON, nothing at all)."""
