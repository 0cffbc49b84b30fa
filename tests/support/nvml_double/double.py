"""The double of libnvidia-ml.so.1: built by the C compiler, loaded before pynvml, which finds it by its SONAME."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pynvml

SOURCE = Path(__file__).with_name("fake_nvml.c")
SONAME = "libnvidia-ml.so.1"
ALL_BOARD = 0xFFFFFFFF

# Kinds of calls whose answer can be made an error, and that are counted.
GPM_SAMPLE, UTILISATION, MEMORY, CLOCK, POWER, REASONS, FIELDS, PROCESSES, EVENTS = range(9)
NOT_SUPPORTED, NO_PERMISSION, UNKNOWN, NOT_READY, LOST, UNINITIALIZED, DRIVER_CHANGED = 3, 4, 999, 27, 15, 1, 18

_INT, _UINT, _LONG, _DOUBLE, _ULL = ctypes.c_int, ctypes.c_uint, ctypes.c_long, ctypes.c_double, ctypes.c_ulonglong
_ARGUMENTS = {
    "reset": (_INT,),
    "set": (_INT,) * 4,
    "coarse": (_INT, _UINT, _UINT, _ULL, _ULL),
    "advance": (_INT, *(_DOUBLE,) * 6),
    "advance_gi": (_INT, _INT, *(_DOUBLE,) * 4),
    "pcie": (_INT, _DOUBLE, _DOUBLE),
    "call_error": (_INT,) * 3,
    "metric_return": (_INT, _INT, _UINT),
    "metric_value": (_INT, _INT, _DOUBLE),
    "metric_measured": (_INT, _INT),
    "clocks": (_INT, _UINT, _UINT, _UINT),
    "power": (_INT, _UINT, _UINT),
    "process": (_INT, _UINT, _UINT),
    "no_processes": (_INT,),
    "mig": (_INT, _INT, _UINT),
    "xid_supported": (_INT, _INT),
    "xid": (_INT, _ULL, _UINT),
    "count": (_INT,),
    "init_error": (_INT,),
    "forget": (),
    "live_samples": (),
    "live_event_sets": (),
    "calls": (_INT,),
    "inits": (),
    "initialised": (),
    "threads": (),
    "sizeof": (_INT,),
}
_LONG_RESULTS = {"live_samples", "live_event_sets", "calls", "inits"}


def compiler() -> str | None:
    """A C compiler; None where there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: Path, *switches: str) -> Path:
    """Compile the double into a folder; the path of the library."""
    cc = compiler()
    assert cc is not None
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / SONAME
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{SONAME}"]
    subprocess.run([cc, *flags, *switches, "-o", library, SOURCE], check=True)
    return library


class Double:
    """The control surface: `double.advance(0, …)` calls `fake_advance`. Device numbers are indices of boards."""

    def __init__(self, library: Path | str = SONAME) -> None:
        self._library = ctypes.CDLL(str(library))
        for name, arguments in _ARGUMENTS.items():
            function = getattr(self._library, f"fake_{name}")
            function.argtypes = arguments
            function.restype = _LONG if name in _LONG_RESULTS else _INT
            setattr(self, name, function)

    def __getattr__(self, name: str) -> ctypes._CFuncPtr:
        raise AttributeError(name)

    def load(self, devices: int) -> None:
        """So many devices as new, under a pynvml that has loaded nothing."""
        pynvml.nvmlLib = None
        pynvml._nvmlGetFunctionPointer_cache.clear()
        self.reset(devices)
