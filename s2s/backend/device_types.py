"""The types of devices: those of the core, and those that the loaded plugins register. No torch is imported.

One registry for the process, as torch has one registry of its own device modules: layers, losses and optimizers ask for
the device of a tensor, `device_of(x.device)`, where no plugins are at hand. A device of a plugin is also one of torch.
"""

from __future__ import annotations

__all__ = [
    "CPU_SEARCH_TOKENS",
    "device_of",
    "device_types",
    "import_device_type",
    "register_core_devices",
    "use_devices",
]

from typing import TYPE_CHECKING

from s2s.registry import Choice, Registry

if TYPE_CHECKING:
    import torch

    from s2s.backend.device import Device

CORE = {"cpu": "CPU", "cuda": "CUDA", "mps": "MPS", "xpu": "XPU"}
"""Names of torch (ROCm calls itself cuda, too) and the classes of `core_devices`"""

CPU_SEARCH_TOKENS = 1000
"""`Device.search_tokens` of a CPU: more overflow its caches (benchmarks/results/decode_tokens)"""

_registries: list[Registry] = []
"""That of the plugins loaded last: one per process, like the operators"""
_devices: dict[torch.device, Device] = {}


def register_core_devices(registry: Registry) -> None:
    """Add the core's types to the group `device`."""
    for name, factory in CORE.items():
        registry.add("device", name, Choice, f"s2s.backend.core_devices:{factory}")


def use_devices(registry: Registry) -> None:
    """Take devices from this registry from now on."""
    _registries[:] = [registry]
    _devices.clear()


def device_of(device: torch.device) -> Device:
    """What a device offers, of a tensor or a run; the defaults of the contract if its type is not registered."""
    return _devices.get(device) or _devices.setdefault(device, _build(device))


def device_types() -> list[str]:
    """The registered types in the order in which device=auto tries them: the core's, then those of plugins."""
    return [name for group, name in _registry().entries if group == "device"]


def import_device_type(kind: str) -> None:
    """Import the module that a registered type names as its factory: a package may give torch the type's name."""
    if entry := _registry().entries.get(("device", kind)):
        entry.load()


def _build(device: torch.device) -> Device:
    from s2s.backend.device import Device

    registry = _registry()
    if ("device", device.type) not in registry.entries:
        return Device(Choice(name=device.type), device)
    built: Device = registry.build_default("device", device.type, device)
    return built


def _registry() -> Registry:
    if not _registries:  # layers and models are also used without plugins
        registry = Registry()
        register_core_devices(registry)
        _registries.append(registry)
    return _registries[0]
