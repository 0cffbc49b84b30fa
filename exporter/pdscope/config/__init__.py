"""The configuration: YAML in, values in base units out, and one error that names everything that is wrong.

It knows forms, not meanings: which engines, sources and thresholds exist is known to the caller (`check_names`), and
what a hardware name stands for or what a file holds is found out by whoever uses it.
"""

from pdscope.config.access import AuthConfig, BasicAuthConfig, ScrapeConfig, TlsConfig
from pdscope.config.discovery import (
    DiscoveryConfig,
    DnsConfig,
    DnsType,
    HttpSdConfig,
    KubernetesConfig,
    PrometheusConfig,
)
from pdscope.config.doubts import doubts
from pdscope.config.dumping import ThresholdSpec, dump_defaults
from pdscope.config.loading import load_config, parse_config
from pdscope.config.names import Names, check_names, threshold_items
from pdscope.config.problems import InvalidConfigError, Problem, describe
from pdscope.config.root import Config, DefaultsConfig, DeploymentConfig
from pdscope.config.serving import HardwareConfig, InterconnectConfig, KvConfig, ModelConfig, SloConfig
from pdscope.config.targets import DeviceConfig, InstanceConfig, ServesConfig
from pdscope.config.units import (
    UnitError,
    duration_text,
    index_ranges,
    parse_bandwidth,
    parse_duration,
    parse_flops,
    parse_size,
)

__all__ = [
    "AuthConfig",
    "BasicAuthConfig",
    "Config",
    "DefaultsConfig",
    "DeploymentConfig",
    "DeviceConfig",
    "DiscoveryConfig",
    "DnsConfig",
    "DnsType",
    "HardwareConfig",
    "HttpSdConfig",
    "InstanceConfig",
    "InterconnectConfig",
    "InvalidConfigError",
    "KubernetesConfig",
    "KvConfig",
    "ModelConfig",
    "Names",
    "Problem",
    "PrometheusConfig",
    "ScrapeConfig",
    "ServesConfig",
    "SloConfig",
    "ThresholdSpec",
    "TlsConfig",
    "UnitError",
    "check_names",
    "describe",
    "doubts",
    "dump_defaults",
    "duration_text",
    "index_ranges",
    "load_config",
    "parse_bandwidth",
    "parse_config",
    "parse_duration",
    "parse_flops",
    "parse_size",
    "threshold_items",
]
