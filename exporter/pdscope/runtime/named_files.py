"""The files that a configuration names: a model's `config.json`, mappings of device exporters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pdscope.config import Config
from pdscope.errors import ConfigError
from pdscope.sources.adapter import Adapter
from pdscope.sources.hf_config import HfModel, parse_hf_config, read_hf_config
from pdscope.sources.mapping_file import read_mapping

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """What they say. Of a bundle they are its own files: it is judged alike wherever it lies.

    Attributes:
        models: by deployment name.
        mappings: by the source as the configuration writes it.
    """

    models: Mapping[str, HfModel] = field(default_factory=dict)
    mappings: Mapping[str, Adapter] = field(default_factory=dict)


def read_named_files(config: Config) -> NamedFiles:
    """Read them all.

    A `config.json` is read even where `kv` is written too: a wrong path is a mistake to be told.

    Raises:
        ConfigError: a file cannot be read or understood; names the place in the configuration.
    """
    models: dict[str, HfModel] = {}
    mappings: dict[str, Adapter] = {}
    for i, deployment in enumerate(config.deployments):
        path = deployment.model.hf_config
        if path is not None:
            models[deployment.name] = _read(read_hf_config, Path(path), f"deployments[{i}].model.hf_config")
        for j, device in enumerate(deployment.devices):
            if device.mapping_file is not None and device.source not in mappings:
                where = f"deployments[{i}].devices[{j}].source"
                mappings[device.source] = _read(read_mapping, device.mapping_file, where)
    return NamedFiles(models, mappings)


def bundled_files(config: Config, folder: Path, files: Mapping[str, bytes]) -> tuple[NamedFiles, tuple[str, ...]]:
    """The same of a capture bundle, from what lies beside its configuration; nothing else on this host is read.

    Args:
        config: of the bundle, its paths resolved against `folder`.
        folder: of the bundle, whether or not it exists.
        files: by name, the bundle's own.

    Returns:
        What they say, and a remark for each file that is named and could not be used: a recording that was made
        somewhere else can still be judged by the rest.
    """
    models: dict[str, HfModel] = {}
    remarks: list[str] = []
    for i, deployment in enumerate(config.deployments):
        path = deployment.model.hf_config
        if path is not None:
            where = f"deployments[{i}].model.hf_config"
            content = files.get(path.name) if path.parent == folder else None
            if content is None:
                remarks.append(
                    f"{where}: {path.name!a} does not lie beside pdscope.yml in the bundle, so it is not read"
                )
                continue
            try:
                models[deployment.name] = parse_hf_config(content, path.name)
            except ConfigError as error:
                remarks.append(f"{where}: {error}")
        remarks += [
            f"deployments[{i}].devices[{j}].source: mapping files are not read from a bundle"
            for j, device in enumerate(deployment.devices)
            if device.mapping_file is not None
        ]
    return NamedFiles(models), tuple(remarks)


def _read(read: Callable[[Path], _Found], path: Path, where: str) -> _Found:
    try:
        return read(path)
    except ConfigError as error:
        raise ConfigError(where, str(error)) from error
