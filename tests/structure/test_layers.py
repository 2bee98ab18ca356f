"""The arrows between rooms: each imports only from rooms that stand before it in LAYERS. Lazy imports count."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.structure.house.tree import BASE
from tests.structure.modules import SOURCE, imports, modules

LAYERS = (
    ("base",),
    ("ir",),
    ("core",),
    ("ops",),
    ("trace",),
    ("ad", "passes"),
    ("backends",),
    ("variables",),
    ("functions",),
    ("surface",),
    ("tape",),
    ("interop",),
    ("train",),
    ("data",),
    ("distribute",),
    ("tools",),
    ("keras",),
    ("public",),
)
FOLDERS = {name for layer in LAYERS for name in layer} - {"base", "public"}
OPTIONAL = ("scipy", "safetensors", "ml_dtypes", "llvmlite", "jax", "mpi4py", "keras")


def layer(module: str) -> str:
    """The layer of a module; top-level namespace modules (`gradtape.linalg`) and the package itself are `public`."""
    parts = module.split(".")
    if len(parts) == 1:
        return "public"
    if parts[1] in BASE:
        return "base"
    return parts[1] if parts[1] in FOLDERS else "public"


def rank(name: str) -> int:
    return next(i for i, names in enumerate(LAYERS) if name in names)


def violations() -> list[str]:
    found = []
    for module, path in modules().items():
        own = layer(module)
        for item in imports(path):
            if item.module.split(".")[0] != "gradtape" or own == "public":
                continue
            other = layer(item.module)
            allowed = other == own if rank(other) == rank(own) else rank(other) < rank(own)
            if not allowed:
                found.append(f"{path.relative_to(SOURCE)}:{item.line} ({own}) imports {item.module} ({other})")
    return found


def test_imports_point_down() -> None:
    assert violations() == []


def test_every_folder_is_a_layer() -> None:
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= FOLDERS, "a new folder must be placed among the layers"


@pytest.mark.parametrize("package", OPTIONAL)
def test_heavy_packages_are_imported_lazily(package: str) -> None:
    eager = [
        f"{path.relative_to(SOURCE)}:{item.line}"
        for path in modules().values()
        for item in imports(path)
        if item.module.split(".")[0] == package and item.top_level and not item.for_types
        and not (package == "llvmlite" and "backends/llvm" in str(path))
        and not (package == "keras" and "gradtape/keras" in str(path))
    ]  # fmt: skip
    assert eager == []


def test_llvmlite_only_in_its_backend() -> None:
    users = {path for path in modules().values() for item in imports(path) if item.module.split(".")[0] == "llvmlite"}
    assert all(Path("backends/llvm") in path.relative_to(SOURCE).parents for path in users)


def loaded(code: str, **environment: str) -> list[str]:
    result = subprocess.run(
        [sys.executable, "-c", f"{code}; sys.stdout.write(' '.join(sys.modules))"],
        capture_output=True, text=True, check=True, env={**os.environ, **environment},
    )  # fmt: skip
    return result.stdout.split()


def test_import_loads_nothing_heavy() -> None:
    """Modules are counted: each costs about 0.4 ms of every start."""
    before, names = set(loaded("import numpy, sys")), loaded("import numpy, gradtape, sys")
    rooms = ("backends", "data", "distribute", "functions.staging", "keras", "passes", "tools", "train")
    heavy = (*OPTIONAL, "fractions", "html", "string", *[f"gradtape.{room}" for room in rooms])
    assert [name for name in names if name not in before and name.startswith(heavy)] == []
    assert sum(name.startswith("gradtape") for name in names) <= 115


FIRST_CALL = """
import gradtape as gt

@gt.function
def f(x):
    if gt.reduce_sum(x) > 0.0:
        x = x * 2.0
    return gt.reduce_sum(gt.sin(x) * x)

x = gt.constant([1.0, 2.0, 3.0])
with gt.GradientTape() as tape:
    tape.watch(x)
    y = f(x)
gradient = tape.gradient(y, x)
"""
# what makes programs, machine code and converted functions, and what Python needs for that
MAKING = (
    "gradtape.passes", "gradtape.ops.registry", "gradtape.functions.autograph.transform", "gradtape.backends.numpy",
    *[f"gradtape.backends.llvm.{room}" for room in ("kernels", "planning", "products", "entry.written_program")],
)  # fmt: skip
LIBRARIES = ("scipy", "numpy.random", "subprocess", "ctypes.util", "json", "multiprocessing")


def test_a_first_call_that_is_on_disk_loads_nothing_that_makes_code(tmp_path: Path) -> None:
    """Every process pays for it: a user's, each rank, each worker of a test suite. What made it loaded all."""
    (tmp_path / "first_call.py").write_text(FIRST_CALL)
    code, cache = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import first_call", str(tmp_path / "cache")
    making, again = loaded(code, GRADTAPE_CACHE=cache), loaded(code, GRADTAPE_CACHE=cache)
    assert [name for name in MAKING if name not in making] == []
    assert [name for name in again if name.startswith((*MAKING, *LIBRARIES))] == []
    assert sum(name.startswith("gradtape") for name in again) <= 240


def test_names_that_are_loaded_later_are_there() -> None:
    code = "import gradtape as gt, sys, pickle; from gradtape import *; [getattr(gt, name) for name in dir(gt)]"
    pickled = "from gradtape.ops.elementwise import SIN; assert pickle.loads(pickle.dumps(SIN)) is SIN"
    assert "gradtape.nn" in loaded(f"{code}; assert nn.relu and TensorArray and sort; {pickled}")


def test_tools_are_there_in_a_process_that_uses_nothing_else() -> None:
    """A tool is asked for by name from a room that may not import it: after `import gradtape` alone, each is found."""
    texts = [path.read_text() for path in modules().values()]
    names = sorted({name for text in texts for name in re.findall(r'TOOLS\["(\w+)"\]', text)})
    assert len(names) >= 10
    assert loaded(f"import gradtape, sys; from gradtape.core.observers import TOOLS; [TOOLS[name] for name in {names}]")
