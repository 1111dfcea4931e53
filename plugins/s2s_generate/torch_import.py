"""torch without the parts that decoding on a CPU does not use: they are executed when something asks for one of them.

`import torch` executes a thousand modules, and for a line of text takes longer than all else that a command does.
Deferred are those that nothing of the import itself depends on, among them function transforms, operators for
compilers, and the shape functions that `torch._meta_registrations` registers for tensors without data. The modules
of torch import each other in circles, which only some orders get through: whoever asks for one has all executed, in
the order of torch's own import.
"""

from __future__ import annotations

__all__ = ["DEFERRED", "import_torch"]

import gc
import importlib.metadata
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec

DEFERRED: dict[str, tuple[str, ...]] = {
    "torch.utils.data": (),
    "torch.distributions": (),
    "torch.nested": (),
    "torch.optim": (),
    "torch.profiler": (),
    "torch.nn.intrinsic": (),
    "torch.nn.qat": (),
    "torch.nn.quantizable": (),
    "torch.nn.quantized": (),
    "torch.quantization": (),
    "torch.masked": (),
    "torch.export": (),
    "torch.func": ("vmap",),
    "torch._higher_order_ops": ("cond", "while_loop"),
    "torch._higher_order_ops.invoke_subgraph": ("NestedCompileRegionOptions",),
    "torch.distributed._meta_registrations": (),
    "torch._meta_registrations": (),
    "torch._native": (),
}
"""Modules in the order in which torch executes them, with the names that its import takes from each and does not use"""
TESTED = "2.13."
"""Versions of torch, which may import its own modules in another order"""


class DeferredModule(ModuleType):
    """A module whose code has not been executed: it has the names that the import system sets."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # what `from … import` asks first; a package has it
            raise AttributeError(name)
        return self.__dict__["_s2s_finder"].value_of(self, name)


class DeferredName:
    """A function or class of a module whose code has not been executed."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns."""
        return getattr(self.module, self.name)(*args, **kwargs)

    def __or__(self, other: Any) -> Any:
        """As a type in an annotation, which nothing evaluates further."""
        return self


class DeferredLoader(Loader):
    """Leaves a module unexecuted."""

    def __init__(self, inner: Loader, finder: DeferredFinder) -> None:
        self.inner = inner
        self.finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The import system's own."""
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Left to the first name that somebody asks for."""
        module.__dict__["_s2s_finder"] = self.finder
        module.__class__ = DeferredModule


class DeferredFinder(MetaPathFinder):
    """Defers the modules of `deferred`, all of the package `root`, and executes all when somebody needs one."""

    def __init__(self, root: str, deferred: Mapping[str, tuple[str, ...]]) -> None:
        self.root = root
        self.deferred = deferred
        self.phase: Literal["importing", "imported", "executing"] = "importing"
        """While the package is imported, while all is deferred, and from the first need on"""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module to be deferred; None: another finder loads it at once."""
        if self.phase == "imported" and name.startswith(f"{self.root}."):
            self.execute_all()
        if self.phase == "importing" and name in self.deferred:
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = DeferredLoader(spec.loader, self)
            return spec
        parent = sys.modules.get(name.rpartition(".")[0])
        if type(parent) is DeferredModule:
            _execute(parent)
        return None

    def value_of(self, module: DeferredModule, name: str) -> Any:
        """The value of a name in a deferred module, which is executed, unless the import only takes the name."""
        if self.phase == "importing" and name in self.deferred[module.__name__]:
            return DeferredName(module, name)
        if self.phase == "imported":
            self.execute_all()
        if type(module) is DeferredModule:
            _execute(module)
        return getattr(module, name)

    def execute_all(self) -> None:
        """Execute what is still deferred, in order; what one of them needs of another sooner is executed sooner."""
        self.phase = "executing"
        namespace = sys.modules[self.root].__dict__
        for name, taken in self.deferred.items():
            module = sys.modules.get(name)
            if type(module) is DeferredModule:
                _execute(module)
            for each in taken:
                if type(namespace.get(each)) is DeferredName:
                    namespace[each] = getattr(module, each)
        sys.meta_path.remove(self)


def import_torch() -> None:
    """Import torch: without the deferred parts if it is a build for a CPU alone, in a version that was tested.

    What was made until then is taken out of the garbage collector's sight, which at the end of a process that handles a
    line would search the million objects of torch for longer than the line took.
    """
    version = importlib.metadata.version("torch")
    if "torch" in sys.modules or not version.startswith(TESTED) or not version.endswith("+cpu"):
        return
    finder = DeferredFinder("torch", DEFERRED)
    sys.meta_path.insert(0, finder)
    collects = gc.isenabled()
    gc.disable()
    try:
        import torch
        from torch._opaque_base import OpaqueBaseMeta

        # Before this torch.Generator cannot be called. torch calls it in torch._prims.rng_prims, which needs a deferred
        # module and 0.16 s; there is no public function for it.
        torch._C._set_generator_metaclass(OpaqueBaseMeta)
    finally:
        gc.freeze()
        if collects:
            gc.enable()
    finder.phase = "imported"


def _execute(module: ModuleType) -> None:
    assert module.__spec__ is not None
    loader = module.__spec__.loader
    assert isinstance(loader, DeferredLoader)
    del module.__dict__["_s2s_finder"]
    module.__class__ = ModuleType
    module.__spec__.loader = module.__loader__ = loader.inner
    loader.inner.exec_module(module)
