"""Imports torch without the parts that decoding on a CPU does not use: they are executed when one of them is used.

`import torch` executes a thousand modules, and for a line of text takes longer than everything else that a command
does. Deferred are the modules that the import itself does not depend on, among them function transforms, operators for
compilers, and the shape functions that `torch._meta_registrations` registers for tensors without data. The modules of
torch have circular imports, which only work in some orders: the first use of a deferred module, or the import of
another module of torch, executes all of them in the order of torch's own import.
"""

from __future__ import annotations

__all__ = ["DEFERRED", "import_torch"]

import atexit
import gc
import importlib.metadata
import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec

DEFERRED: dict[str, tuple[str, ...]] = {
    "torch.utils.data": (),
    "torchgen.model": (),
    "torch.distributions": (),
    "torch.hub": ("tqdm",),
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
"""Modules in the order in which torch executes them, with the names that its import takes from each but does not use"""
TESTED = "2.13."
"""Tested versions of torch; others may import torch's modules in another order"""


class DeferredModule(ModuleType):
    """A module whose code has not been executed: it has only the names that the import system sets."""

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # what `from … import` looks up first; a package has it
            raise AttributeError(name)
        return self.__dict__["_s2s_finder"].value_of(self, name)


class DeferredName:
    """A function or class of a module whose code has not been executed."""

    def __init__(self, module: ModuleType, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        return self.value()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value(), name)

    def __or__(self, other: Any) -> Any:
        """For use as a type in an annotation, which is not evaluated further."""
        return self

    def value(self) -> Any:
        """The function or class."""
        return getattr(self.module, self.name)


class DeferredLoader(Loader):
    """Leaves a module unexecuted."""

    def __init__(self, inner: Loader, finder: DeferredFinder) -> None:
        self.inner = inner
        self.finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module of the wrapped loader."""
        return self.inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Deferred to the first access to one of its names."""
        module.__dict__["_s2s_finder"] = self.finder
        module.__class__ = DeferredModule


class DeferredFinder(MetaPathFinder):
    """Defers the modules of `deferred` while the package `root` is imported; the first use of one executes them all."""

    def __init__(self, root: str, deferred: Mapping[str, tuple[str, ...]]) -> None:
        self.root = root
        self.deferred = deferred
        self.phase: Literal["importing", "imported", "executing", "executed"] = "importing"
        """During the import of the package, while modules are deferred, during the first use, and from then on"""
        self.taken: list[DeferredName] = []
        self.running: set[str] = set()
        """Modules of which a part has been executed"""
        self.lock = threading.RLock()
        """Held while modules are executed: other threads wait for the modules that they use"""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of a module to be deferred; None: another finder loads it at once."""
        if self.phase == "importing" and name in self.deferred:
            spec = PathFinder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = DeferredLoader(spec.loader, self)
            return spec
        # Do not wait for the lock: an importing thread may hold an import lock that the executing thread needs.
        if name.startswith(f"{self.root}.") and self.lock.acquire(blocking=False):
            try:
                if self.phase == "imported":
                    self.execute_all()
                parent = sys.modules.get(name.rpartition(".")[0])
                if type(parent) is DeferredModule and parent.__name__ not in self.running:
                    self.execute(parent)
            finally:
                self.lock.release()
        return None

    def value_of(self, module: DeferredModule, name: str) -> Any:
        """The value of a name in a deferred module, which is executed unless the import only takes the name."""
        with self.lock:
            if self.phase == "importing" and name in self.deferred[module.__name__]:
                self.taken.append(DeferredName(module, name))
                return self.taken[-1]
            if self.phase == "imported":
                self.execute_all()
            if module.__name__ in self.running:
                raise AttributeError(f"module '{module.__name__}', half of which is executed, has no '{name}' yet")
            if type(module) is DeferredModule:
                self.execute(module)
        return getattr(module, name)

    def execute_all(self) -> None:
        """Execute the modules that are still deferred, in order; one that another needs sooner is executed sooner."""
        self.phase = "executing"
        try:
            for name in self.deferred:
                module = sys.modules.get(name)
                if type(module) is DeferredModule:
                    self.execute(module)
        except BaseException:
            self.phase = "imported"
            raise
        self.phase = "executed"
        values = {id(name): name.value() for name in self.taken}
        for module in [*sys.modules.values()]:
            for key, value in [*vars(module).items()] if isinstance(module, ModuleType) else ():
                if type(value) is DeferredName:
                    vars(module)[key] = values[id(value)]

    def execute(self, module: DeferredModule) -> None:
        """Execute a module's code; the module stays deferred if that fails."""
        assert module.__spec__ is not None
        loader = module.__spec__.loader
        assert isinstance(loader, DeferredLoader)
        self.running.add(module.__name__)
        module.__spec__.loader = module.__loader__ = loader.inner
        try:
            loader.inner.exec_module(module)
        except BaseException:
            module.__spec__.loader = module.__loader__ = loader
            raise
        finally:
            self.running.discard(module.__name__)
        if type(module) is DeferredModule:  # its code may have given it another class
            module.__class__ = ModuleType  # type: ignore[assignment]


def import_torch() -> None:
    """Import torch, without the deferred parts if it is a CPU-only build of a tested version.

    The garbage collector does not traverse the objects of all its modules again, neither afterwards nor at exit: for a
    line of text that took longer than the search for its output.
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

        # Without this call torch.Generator cannot be called. torch makes it in torch._prims.rng_prims, which needs a
        # deferred module and 0.16 s; there is no public function for it.
        torch._C._set_generator_metaclass(OpaqueBaseMeta)
    except BaseException:
        sys.meta_path.remove(finder)
        raise
    finally:
        if collects:
            gc.enable()
    finder.phase = "imported"
    gc.freeze()
    atexit.register(gc.freeze)
