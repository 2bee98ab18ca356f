"""Every sample of every public function, run on gradtape and on TensorFlow: values, dtypes, shapes, gradients, errors.

    python -m benchmarks.parity --python /path/to/an/environment/with/tensorflow/bin/python

The samples are those of the op registry, in single and double precision. A call is one line of the printed table when the
two libraries disagree; the script knows nothing about which differences are meant (docs/comefrom/differences.md does).
The invariant: both libraries get the same bytes, through one pickle file written by the gradtape side.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import pickle
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

SPACES = ("", "math", "linalg", "nn", "signal", "bitwise")
BUILTINS = {"ValueError", "TypeError", "RuntimeError"}
TOLERANCE = {"float32": 2e-4, "complex64": 2e-4, "float64": 1e-8, "complex128": 1e-8}

Path = tuple[Any, ...]


@dataclass
class Call:
    """One call of a public function: arguments are NumPy arrays and Python values; `sources` are differentiated."""

    function: str
    label: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    sources: tuple[Path, ...]


@dataclass
class Answer:
    """What one library said: outputs and gradients as arrays, or the error's bases and message."""

    outputs: list[Any]
    gradients: list[Any] | None
    error: str = ""
    bases: tuple[str, ...] = ()


def replaced(value: Any, path: Path, new: Any) -> Any:
    """`value` with every array in it mapped through `new(path, array)`."""
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(replaced(v, (*path, i), new) for i, v in enumerate(value))
    return new(path, value) if isinstance(value, (np.ndarray, np.generic)) else value


def leaves(value: Any) -> Iterator[Any]:
    """The tensors of a returned structure, in order."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    elif hasattr(value, "numpy"):
        yield value


def answer(library: Any, call: Call) -> Answer:
    """Run one call on `library`, with the gradients of a fixed random combination of its float outputs."""
    function: Any = library
    for part in call.function.split("."):
        function = getattr(function, part)
    found: dict[Path, Any] = {}

    def tensor(path: Path, array: Any) -> Any:
        made = library.constant(array)
        if path in call.sources:
            found[path] = made
            tape.watch(made)
        return made

    try:
        with library.GradientTape(persistent=True) as tape:
            args = tuple(replaced(a, (i,), tensor) for i, a in enumerate(call.args))
            kwargs = {k: replaced(v, (k,), tensor) for k, v in call.kwargs.items()}
            outputs = list(leaves(function(*args, **kwargs)))
        smooth = [t for t in outputs if t.numpy().dtype.kind in "fc"]
    except Exception as error:
        return Answer([], None, f"{type(error).__name__}: {str(error).splitlines()[0][:160]}", _bases(error))
    plain = [t.numpy() for t in outputs]
    if not found or not smooth:
        return Answer(plain, None)
    rng = np.random.default_rng(zlib.crc32(call.label.encode()))
    seeds = [library.constant(_random(rng, t.numpy())) for t in smooth]
    try:
        gradients = tape.gradient(smooth, [found[p] for p in call.sources], seeds, unconnected_gradients="none")
        plain_gradients = [None if g is None else library.convert_to_tensor(g).numpy() for g in gradients]
    except Exception as error:
        return Answer(plain, None, f"gradient: {type(error).__name__}: {str(error).splitlines()[0][:160]}", _bases(error))
    return Answer(plain, plain_gradients)


def _bases(error: Exception) -> tuple[str, ...]:
    return tuple(c.__name__ for c in type(error).__mro__)


def _random(rng: np.random.Generator, like: Any) -> Any:
    values = rng.standard_normal(like.shape)
    if like.dtype.kind == "c":
        values = values + 1j * rng.standard_normal(like.shape)
    return np.asarray(values, like.dtype)


# -- the gradtape side: collect the calls ----------------------------------------------------------------------------


def calls() -> list[Call]:
    """All samples of public functions, twice: in single and in double precision."""
    from tests.harness import cases

    import gradtape as gt
    from gradtape.core.opdef import Composite
    from gradtape.ops import registry

    public = {
        f"{space}.{name}".strip("."): value
        for space in SPACES
        for name, value in vars(getattr(gt, space) if space else gt).items()
        if inspect.isroutine(value)
    }
    made = []
    for owner in (*registry.OPS, *registry.COMPOSITES):
        function = owner.function if isinstance(owner, Composite) else cases.public_function(owner)
        names = [path for path, value in public.items() if value is function]
        for index, sample in enumerate(cases.samples_of(owner) if names else []):
            case = cases.Case(owner, index, sample)
            for double in (False, True):

                def cast(path: Path, array: Any, double: bool = double) -> Any:
                    return cases.in_precision(array, double)

                args = tuple(replaced(a, (i,), cast) for i, a in enumerate(sample.args))
                kwargs = {k: replaced(v, (k,), cast) for k, v in sample.kwargs.items()}
                kwargs = {k: v for k, v in kwargs.items() if not isinstance(v, gt.DType)} | {
                    k: v.name for k, v in kwargs.items() if isinstance(v, gt.DType)
                }
                sources = case.paths if owner.differentiable else ()
                for name in names:
                    label = f"{name}[{index}] {'64' if double else '32'}"
                    made.append(Call(name, label, args, kwargs, tuple(sources)))
    return made


# -- comparison ------------------------------------------------------------------------------------------------------


def differences(ours: Answer, theirs: Answer) -> Iterator[str]:
    """What differs between the two answers, one text each."""
    if ours.error or theirs.error:
        if bool(ours.error) != bool(theirs.error):
            yield f"error: gradtape {ours.error or 'answers'} | tensorflow {theirs.error or 'answers'}"
        elif not set(ours.bases) & BUILTINS & _builtin(theirs.bases):
            yield f"error type: gradtape {ours.error} | tensorflow {theirs.error}"
        return
    if len(ours.outputs) != len(theirs.outputs):
        yield f"outputs: gradtape {len(ours.outputs)} | tensorflow {len(theirs.outputs)}"
        return
    for i, (a, b) in enumerate(zip(ours.outputs, theirs.outputs, strict=True)):
        yield from _compare(f"output {i}", a, b)
    for i, (a, b) in enumerate(zip(ours.gradients or (), theirs.gradients or (), strict=False)):
        yield from _compare(f"gradient {i}", a, b)


def _builtin(bases: tuple[str, ...]) -> set[str]:
    # TensorFlow's own errors derive only from Exception; ours are also the fitting Python builtin
    return set(bases) if BUILTINS & set(bases) else BUILTINS


def _compare(what: str, a: Any, b: Any) -> Iterator[str]:
    if (a is None) != (b is None):
        yield f"{what}: gradtape {_short(a)} | tensorflow {_short(b)}"
    elif a is not None and (np.shape(a) != np.shape(b) or a.dtype != b.dtype):
        yield f"{what}: gradtape {a.dtype}{np.shape(a)} | tensorflow {b.dtype}{np.shape(b)}"
    elif a is not None:
        tolerance = TOLERANCE.get(str(a.dtype), 0.0)
        if a.dtype.kind not in "fc":
            close = bool(np.all(a == b))
        else:
            close = np.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, _largest(b)), equal_nan=True)
        if not close:
            yield f"{what}: gradtape {_short(a)} | tensorflow {_short(b)}"


def _largest(array: Any) -> float:
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def _short(value: Any) -> str:
    return "None" if value is None else np.array2string(value, precision=4, threshold=12, separator=",").replace("\n", "")[:150]


def _serve(library: str, path_in: str, path_out: str, start: str) -> None:
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    module = importlib.import_module(library)
    with open(path_in, "rb") as file:
        wanted = pickle.load(file)  # written by this script
    with open(path_out, "ab") as file, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for call in wanted[int(start) :]:
            pickle.dump(answer(module, call) if _exists(module, call.function) else None, file)
            file.flush()


def _ask(library: str, python: str, path: str, count: int) -> list[Answer | None]:
    """All answers of one library. A call that kills the interpreter is an error too; the next ones get a new process."""
    answers: list[Answer | None] = []
    out = path + library
    while len(answers) < count:
        command = [python, "-m", "benchmarks.parity", "--serve", library, path, out, str(len(answers))]
        died = subprocess.run(command, stderr=subprocess.DEVNULL).returncode
        with open(out, "rb") as file:
            while file.peek(1):
                answers.append(pickle.load(file))  # written by this script
        os.remove(out)
        if died:
            answers.append(Answer([], None, "the process died"))
    return answers


def _exists(library: Any, path: str) -> bool:
    for part in path.split("."):
        library = getattr(library, part, None)
    return library is not None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has TensorFlow")
    parser.add_argument("--only", default="", help="part of a function's name")
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        _serve(*options.serve)
        return
    wanted = [c for c in calls() if options.only in c.function]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "calls")
        with open(path, "wb") as file:
            pickle.dump(wanted, file)
        answers = [
            _ask(name, python, path, len(wanted))
            for name, python in (("gradtape", sys.executable), ("tensorflow", options.python))
        ]
    compared = 0
    for call, ours, theirs in zip(wanted, *answers, strict=True):
        if theirs is None:
            continue
        compared += 1
        for text in differences(ours, theirs):
            print(f"{call.label:40s} {text}")
    print(f"{compared} calls of {len({c.function for c in wanted})} functions compared")


if __name__ == "__main__":
    # pickled classes must have this module's importable name, not __main__
    importlib.import_module("benchmarks.parity").main()
