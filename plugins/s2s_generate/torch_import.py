"""torch without the parts that decoding on a CPU does not use: each is executed when something asks it for a name.

`import torch` executes a thousand modules, and for a line of text takes longer than all else that a command does.
Deferred are those that nothing of the import itself depends on, among them the shape functions that
`torch._meta_registrations` registers for tensors without data, which compilers need: importing a compiler executes all.
"""

from __future__ import annotations

__all__ = ["DEFERRED", "import_torch"]

import importlib.metadata
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

DEFERRED = frozenset(
    {
        "torch._meta_registrations",
        "torch._native",
        "torch.distributed._meta_registrations",
        "torch.distributions",
        "torch.export",
        "torch.masked",
        "torch.nested",
        "torch.nn.intrinsic",
        "torch.nn.qat",
        "torch.optim",
        "torch.profiler",
        "torch.utils.data",
    }
)
COMPILERS = frozenset({"torch._dynamo", "torch._functorch.aot_autograd", "torch._inductor"})
TESTED = "2.13."
"""Versions of torch, which may import its own modules in another order"""


class DeferredModule(ModuleType):
    """A module whose code has not been executed: it has the names that the import system sets."""

    def __getattr__(self, name: str) -> Any:
        _execute(self)
        return getattr(self, name)


class DeferredLoader(Loader):
    """Leaves a module unexecuted."""

    def __init__(self, inner: Loader) -> None:
        self.inner = inner

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The import system's own."""
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Left to the first name that somebody asks for."""
        module.__class__ = DeferredModule


class DeferredFinder(MetaPathFinder):
    """Finds the modules of `DEFERRED`; executes those that others turn out to need."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module to be deferred; None: another finder loads it at once."""
        if name in COMPILERS:
            for module in [*sys.modules.values()]:
                if type(module) is DeferredModule:
                    _execute(module)
        parent = sys.modules.get(name.rpartition(".")[0])
        if type(parent) is DeferredModule:
            _execute(parent)
        if name not in DEFERRED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = DeferredLoader(spec.loader)
        return spec


def import_torch() -> None:
    """Import torch: without the deferred parts if it is a build for a CPU alone, in a version that was tested."""
    version = importlib.metadata.version("torch")
    if "torch" in sys.modules or not version.startswith(TESTED) or not version.endswith("+cpu"):
        return
    sys.meta_path.insert(0, DeferredFinder())
    import torch
    from torch._opaque_base import OpaqueBaseMeta

    # Before this torch.Generator cannot be called. torch calls it in torch._prims.rng_prims, which needs a deferred
    # module and 0.16 s; there is no public function for it.
    torch._C._set_generator_metaclass(OpaqueBaseMeta)


def _execute(module: ModuleType) -> None:
    assert module.__spec__ is not None
    loader = module.__spec__.loader
    assert isinstance(loader, DeferredLoader)
    module.__class__ = ModuleType
    module.__spec__.loader = module.__loader__ = loader.inner
    loader.inner.exec_module(module)
