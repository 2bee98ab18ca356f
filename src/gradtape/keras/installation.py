"""The one place where gradtape takes a seat in Keras.

Keras chooses its engine by name among those it ships and has no way to add one. So the modules of its `numpy` backend are
answered by gradtape's own, through the import system: `SEATS` says which of our files make each of them; no file of Keras is
changed, and the rest of Keras's NumPy backend is never loaded. While Keras is imported its backend is called "numpy", which is
what chooses these modules; afterwards `keras.backend.backend()` says "gradtape", so no branch for NumPy (which
cannot train) is taken.

Besides, `AMENDED` lists what is said differently in modules of Keras itself, each with its reason.

Invariant: either Keras runs on gradtape, or `install` has raised and said why.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, spec_from_loader
from types import FunctionType, ModuleType
from typing import Any

from gradtape.functions.autograph import policy

NAME = "gradtape"
OLDEST, NEWEST = (3, 10), (3, 15)  # the versions whose own tests were run
SEAT = "keras.src.backend.numpy"
# Each module of the backend and the files here that make it; a name's trailing underscore is there for Python's sake only.
SEATS: dict[str, tuple[str, ...]] = {
    "core": ("keras_variable", "core_ops", "spec_inference", "control_ops"),
    "numpy": ("numpy_elementwise", "numpy_reductions", "numpy_arrangement", "new_arrays", "numpy_products"),
    "nn": ("nn_activations", "nn_windows", "nn_losses", "nn_attention"),
    "math": ("math_ops", "spectral_ops"),
    "linalg": ("linalg_ops",),
    "random": ("random_ops",),
    "image": ("image_ops", "image_geometry"),
    "rnn": ("recurrent_ops",),
    "layer": ("layer_base",),
    "trainer": ("trainer_base",),
    "export": ("export_refusal",),
}
# What Keras looks for in a module of its backend though it is its own.
LENT = {"random": ("keras.src.random.seed_generator", ("SeedGenerator", "draw_seed", "make_default_seed"))}
PRIVATE = {"complex_of_pair": "_get_complex_tensor_from_tuple"}  # a name with an underscore that Keras asks for all the same
HOMES = "gradtape.keras"


def install() -> ModuleType:
    """Keras, running on gradtape.

    Raises:
        ImportError: Keras is not installed, or of a version that was not tried.
        RuntimeError: Keras was imported before with another engine.
    """
    loaded = sys.modules.get("keras")
    if loaded is not None:
        if _backend_of(loaded) == NAME:
            return loaded
        raise RuntimeError(
            f"Keras was imported before gradtape.keras and runs on {_backend_of(loaded)!r}; put `import gradtape.keras` above "
            "the first `import keras` (or import of a package that imports it)"
        )
    _checked_version()
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    asked, os.environ["KERAS_BACKEND"] = os.environ.get("KERAS_BACKEND"), "numpy"
    try:
        _leave_alone()
        keras = import_module("keras")
        config = import_module("keras.src.backend.config")
        vars(config)["_BACKEND"] = NAME
    except BaseException:
        for name in [name for name in sys.modules if name == "keras" or name.startswith("keras.")]:
            del sys.modules[name]
        sys.meta_path.remove(finder)
        raise
    finally:
        if asked is None:
            del os.environ["KERAS_BACKEND"]
        else:
            os.environ["KERAS_BACKEND"] = asked
    return keras


def _backend_of(keras: ModuleType) -> str:
    try:
        return str(keras.backend.backend())
    except AttributeError:  # it is being imported, or is not Keras 3
        return "another engine"


def keras_version() -> tuple[int, int]:
    """Major and minor version of the Keras that is installed."""
    try:
        major, minor = version("keras").split(".")[:2]
    except PackageNotFoundError:
        raise ImportError("gradtape.keras needs Keras 3: pip install 'gradtape[keras]'") from None
    return int(major), int(minor)


def _checked_version() -> None:
    if not OLDEST <= keras_version() <= NEWEST:
        raise ImportError(
            f"gradtape.keras runs Keras {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, whose own tests it was held to; "
            f"Keras {version('keras')} is installed: pip install 'keras>={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}'"
        )


def _leave_alone() -> None:
    """AutoGraph runs Keras's files as they are; a user's `call` is converted (`layer_base.py`)."""
    spec = find_spec("keras")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        policy.leave_alone(folder)


class _Finder(MetaPathFinder):
    """Answers imports of the backend's modules, and of those that are amended."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The seat's modules are ours; amended ones are Keras's, with an addition."""
        if name == SEAT:
            return spec_from_loader(name, _Seat(()), is_package=True)
        if name.startswith(f"{SEAT}."):
            files = SEATS.get(name.removeprefix(f"{SEAT}."))
            return None if files is None else spec_from_loader(name, _Seat(files))
        if name in AMENDED:
            spec = PathFinder.find_spec(name, path)
            if spec is not None and spec.loader is not None:
                spec.loader = _Amending(spec.loader, AMENDED[name])
            return spec
        return None


class _Seat(Loader):
    """Fills a module with the names of our files; the package itself with those of its `core` and `rnn`."""

    def __init__(self, files: tuple[str, ...]) -> None:
        self.files = files

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill it."""
        for file in self.files:
            module.__dict__.update(_names_of(import_module(f"{HOMES}.{file}")))
        source, names = LENT.get(module.__name__.removeprefix(f"{SEAT}."), ("", ()))
        module.__dict__.update({name: getattr(import_module(source), name) for name in names})
        if self.files:
            return
        parts = {part: import_module(f"{SEAT}.{part}") for part in ("core", "image", "linalg", "math", "nn", "numpy", "random")}
        module.__dict__.update(_public(parts["core"]), **_public(import_module(f"{SEAT}.rnn")), **parts)
        module.__dict__["name_scope"] = import_module("keras.src.backend.common.name_scope").name_scope


def _names_of(home: ModuleType) -> dict[str, Any]:
    """What a file of ours gives to a module of Keras: the functions, classes and switches it defines."""
    given = {}
    for name, value in vars(home).items():
        name = PRIVATE.get(name, name)
        ours = str(getattr(value, "__module__", "")).startswith(HOMES) or isinstance(value, bool)
        if ours and (not name.startswith("_") or name in PRIVATE.values()):
            given[name.rstrip("_")] = _signed(value)
    return given


def _signed(value: Any) -> Any:
    """Keras's tests compare its functions' signatures with the engine's; there are no types in them."""
    if isinstance(value, FunctionType):
        signature = inspect.signature(value)
        bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        value.__dict__["__signature__"] = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return value


def _public(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


class _Amending(Loader):
    """Runs a module of Keras, then what is to be said differently in it."""

    def __init__(self, inner: Any, amend: Callable[[ModuleType], None]) -> None:
        self.inner = inner
        self.amend = amend

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Run it, then amend."""
        self.inner.exec_module(module)
        self.amend(module)


def _keep_double(dtypes: ModuleType) -> None:
    """float64 stays float64 where Keras's rules would make float32 of it, as on TensorFlow: derivatives are checked in it."""
    dtypes.BIT64_TO_BIT32_DTYPE["float64"] = "float64"


def _unknown_sizes(variables: ModuleType) -> None:
    """A size that only run time knows is None in Keras's shapes, as it is for the symbols of JAX and PyTorch."""
    from gradtape.ir.polynomial import Dim

    standardize = variables.standardize_shape

    def standardize_shape(shape: Any) -> Any:
        if isinstance(shape, (tuple, list)) and any(isinstance(size, Dim) for size in shape):
            shape = tuple(None if isinstance(size, Dim) else size for size in shape)
        return standardize(shape)

    vars(variables)["standardize_shape"] = standardize_shape


def _data_layers(backend_utils: ModuleType) -> None:
    """Layers for data (normalisation, augmentation, lookups) ask by the engine's name: ours is known too."""
    dynamic = backend_utils.DynamicBackend
    others = dynamic.__getattr__

    def of_engine(self: Any, name: str) -> Any:
        if self.__dict__.get("_backend") in (NAME, "numpy"):
            return getattr(import_module("keras.src.backend"), name)
        return others(self, name)

    dynamic.__getattr__ = of_engine


def _placeholders(keras_tensor: ModuleType) -> None:
    """A function of gradtape that is given an input of a functional model takes it for an array: the cure is said."""

    def refused(self: Any, dtype: Any = None, copy: bool | None = None) -> Any:
        raise ValueError(
            "A KerasTensor is symbolic: it's a placeholder for a shape and dtype. It doesn't have any actual numerical value, "
            f"so functions of gradtape and NumPy cannot take it ({self!r}). While a functional model is put together, use "
            "`keras.ops` and layers: keras.ops.sum(x), or a Layer with gt.reduce_sum(x) in its `call`"
        )

    keras_tensor.KerasTensor.__array__ = refused


AMENDED: dict[str, Callable[[ModuleType], None]] = {
    "keras.src.backend.common.dtypes": _keep_double,
    "keras.src.backend.common.keras_tensor": _placeholders,
    "keras.src.backend.common.variables": _unknown_sizes,
    "keras.src.utils.backend_utils": _data_layers,
}
