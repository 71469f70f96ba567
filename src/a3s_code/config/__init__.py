"""Configuration: ACL text, mappings and the environment into a ``CodeConfig`` (providers.md, *The ACL file*)."""

from a3s_code.config.load import config_from_mapping, default_config, load_config
from a3s_code.config.model import CodeConfig, Cost, Limit, ModelConfig, ProviderConfig
from a3s_code.config.secret import EnvVar, Secret

__all__ = [
    "CodeConfig",
    "Cost",
    "EnvVar",
    "Limit",
    "ModelConfig",
    "ProviderConfig",
    "Secret",
    "config_from_mapping",
    "default_config",
    "load_config",
]
