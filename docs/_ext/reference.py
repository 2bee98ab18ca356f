"""What is known of each public name: signature, words, arguments, shapes, gradient, errors, an example that ran, its source.

Words come from the docstring, the rest from the operation itself: its samples, its rules, its type rule. Nothing is written
down twice, and an example's output is what it printed here. `reference_pages.py` lays it
out; `tests/docs/test_reference.py` holds every public name to being complete.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import functools
import inspect
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from docs._ext.arguments import words_for

import gradtape as gt
from gradtape.core.opdef import Composite, Op, Sample
from gradtape.ops import registry

ROOT = Path(__file__).resolve().parents[2]
# namespaces in the order of the reference; one that is not there (an optional part) is skipped
SPACES = (
    "", "math", "nn", "linalg", "signal", "image", "random", "bitwise", "optimizers", "optimizers.schedules", "initializers",
    "train", "autodiff", "debugging", "test", "nest", "errors", "config", "autograph", "scipy.special",
    "data", "data.experimental", "distribute", "mixed_precision",
)  # fmt: skip
OWN_ONLY = (
    "optimizers.schedules",
    "scipy.special",
    "config",
)  # files that import helpers: what they define themselves is public


@dataclass(frozen=True)
class Entry:
    """One public name and everything the reference says about it."""

    name: str
    value: Any
    aliases: tuple[str, ...]
    owner: Op | Composite | None

    @property
    def is_class(self) -> bool:
        return isinstance(self.value, type)

    @functools.cached_property
    def parameters(self) -> list[inspect.Parameter]:
        target = self.value.__init__ if self.is_class else self.value
        if self.is_class and (issubclass(self.value, BaseException) or self.value.__init__ is object.__init__):
            return []
        try:
            found = list(inspect.signature(target).parameters.values())
        except ValueError:
            return []
        return [p for p in found[1 if self.is_class else 0 :] if not p.name.startswith("_")]

    @property
    def signature(self) -> str:
        shown: list[str] = []
        starred = False
        for p in self.parameters:
            if p.kind is p.KEYWORD_ONLY and not starred:
                shown.append("*")
            starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
            star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
            kind = "" if (text := self._type(p)) is None else f": {text}"
            default = "" if p.default is p.empty else f"{' = ' if kind else '='}{_default(p.default)}"
            shown.append(f"{star}{p.name}{kind}{default}")
        result = None if self.is_class else returns(self.value) or ("Tensor" if "op" in self.value.__dict__ else None)
        return f"{self.name}({', '.join(shown)})" + ("" if result is None else f" -> {result}")

    def _type(self, parameter: inspect.Parameter) -> str | None:
        """Its annotation; the short forms of elementwise functions have none, but all of them take the same."""
        if parameter.annotation is parameter.empty and not self.is_class and "op" in self.value.__dict__:
            return "str | None" if parameter.name == "name" else "TensorLike"
        return annotation(parameter)

    @property
    def summary(self) -> str:
        return self._document[0]

    @property
    def prose(self) -> str:
        return self._document[1]

    @functools.cached_property
    def _document(self) -> tuple[str, str]:
        text = inspect.getdoc(self.value) or ""
        prose = re.sub(r"^>>>.*?(?:\n\s*\n|\Z)", "", text, flags=re.MULTILINE | re.DOTALL)
        summary, _, rest = prose.strip().partition("\n\n")
        return summary.replace("\n", " "), rest.strip()

    @property
    def arguments(self) -> list[tuple[str, str | None, str | None]]:
        """(name, type, words) of each argument."""
        return [(p.name, self._type(p), words_for(self.name, p.name)) for p in self.parameters]

    @functools.cached_property
    def samples(self) -> list[Sample]:
        return [] if self.owner is None or self.owner.samples is None else list(self.owner.samples())

    @functools.cached_property
    def shapes(self) -> list[str]:
        """`(3, 4), axis=0 → (4,)` of a few samples."""
        shown: list[str] = []
        for sample in self.samples:
            if sample.raises is None and len(shown) < 3 and (line := _shape_line(self.value, sample)) and line not in shown:
                shown.append(line)
        return shown

    @functools.cached_property
    def gradient(self) -> str | None:
        """What the gradient is, or why there is none; None for what is no operation."""
        if self.owner is None:
            return None
        if not self.owner.differentiable:
            reason = self.owner.reason if isinstance(self.owner, Op) else ""
            return (
                f"none: {reason}"
                if reason
                else "none: the result is piecewise constant or not a number that moves with the input"
            )
        rules = _partials(self.owner) if isinstance(self.owner, Op) else []
        reached = self._reached
        text = f"with respect to {', '.join(f'`{name}`' for name in reached)}" if reached else "of any order"
        return text + (": " + ", ".join(rules) if rules else "") + "; orders 1 and 2 are checked against finite differences"

    @functools.cached_property
    def _reached(self) -> list[str]:
        """The arguments that get a gradient, found by asking a tape."""
        names = [p.name for p in self.parameters]
        for sample in self.samples:
            if sample.raises is not None or not any(_floating(a) for a in sample.args):
                continue
            tensors = [gt.constant(a) if _floating(a) else a for a in sample.args]
            try:
                with _quiet(), gt.GradientTape() as tape:
                    tape.watch([t for t in tensors if isinstance(t, gt.Tensor)])
                    out = self.value(*tensors, **sample.kwargs)
                    targets = [o for o in gt.nest.flatten(out) if isinstance(o, gt.Tensor) and o.dtype.is_differentiable]
                watched = [(n, t) for n, t in zip(names, tensors, strict=False) if isinstance(t, gt.Tensor)]
                with _quiet():
                    answers = tape.gradient(targets, [t for _, t in watched])
            except Exception:
                continue
            if reached := [n for (n, _), g in zip(watched, answers, strict=True) if g is not None]:
                return reached
        return []

    @functools.cached_property
    def raises(self) -> list[tuple[str, str]]:
        """(exception, message) of the error samples, as they are raised."""
        shown: list[tuple[str, str]] = []
        for sample in self.samples:
            if sample.raises is None:
                continue
            try:
                with _quiet():
                    self.value(*sample.args, **sample.kwargs)
            except Exception as error:
                if sample.raises[1] in str(error):
                    line = (type(error).__name__, str(error).splitlines()[0])
                    shown += [line] if line not in shown else []
        return shown

    @functools.cached_property
    def example(self) -> str | None:
        """A session: that of the docstring, which runs as a test, or one made from a sample, run here."""
        text = inspect.getdoc(self.value) or ""
        examples = doctest.DocTestParser().get_examples(text)
        if examples:
            rows = [_session(e.source) + e.want.rstrip("\n") for e in examples]
            return "\n".join(row.rstrip("\n") for row in rows if row.strip() != ">>> import gradtape as gt")
        return self._from_sample

    @functools.cached_property
    def _from_sample(self) -> str | None:
        ranked = sorted((s for s in self.samples if s.raises is None), key=_strangeness)
        for sample in ranked:
            for digits in (2, 6):
                session = _run_sample(self.name, self.value, [p.name for p in self.parameters], sample, digits)
                if session is not None:
                    return session
        return None

    @functools.cached_property
    def source(self) -> tuple[Path, int] | None:
        """File and line of the definition."""
        module = inspect.getmodule(self.value)
        if module is None or module.__file__ is None:
            return None
        path = Path(module.__file__)
        short = self.value.__name__.rpartition(".")[2]
        pattern = re.compile(
            rf"^(?:async )?(?:def|class) {re.escape(short)}\b|^{re.escape(short)}(?:,.*)?\b.* = |^.*, {re.escape(short)}\b.* = "
        )
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if pattern.match(line):
                return path, number
        try:
            return path, inspect.getsourcelines(self.value)[1]
        except (OSError, TypeError):
            return path, 1

    @property
    def missing(self) -> list[str]:
        """What a complete entry has and this one has not."""
        lacks = [f"words for the argument {name!r}" for name, _, words in self.arguments if not words]
        lacks += [] if self.summary else ["a summary"]
        lacks += [] if self.source else ["a source"]
        if not self.is_class:
            lacks += [] if self.example else ["an example"]
            lacks += ["a gradient"] if self.owner is not None and not self.gradient else []
        return lacks


@functools.cache
def entries() -> dict[str, Entry]:
    """Every public function and class by the name it is listed under."""
    composites = {c.function: c for c in registry.COMPOSITES}
    by_name = {op.name: op for op in registry.OPS} | {c.name: c for c in registry.COMPOSITES}
    by_call = {op.call: op for op in registry.OPS if op.call is not None}
    names: dict[int, tuple[Any, list[str]]] = {}
    for space in SPACES:
        module = _space(space)
        for name, value in members(space, module).items() if module is not None else ():
            names.setdefault(id(value), (value, []))[1].append(f"gt.{space}.{name}" if space else f"gt.{name}")
    found = {}
    for value, (first, *others) in names.values():
        owner = None
        if isinstance(value, FunctionType):
            short = first.rpartition(".")[2]
            owner = value.__dict__.get("op") or composites.get(value) or by_call.get(value)
            if owner is None and value.__module__.startswith("gradtape.ops"):
                owner = by_name.get(short)
        found[first] = Entry(first, value, tuple(others), owner)
    return found


def _space(path: str) -> Any:
    module: Any = gt
    for part in path.split(".") if path else ():
        try:
            module = getattr(module, part)
        except (AttributeError, ImportError):
            return None
    return module


def members(space: str, module: Any) -> dict[str, Any]:
    """The public functions and classes of a namespace that are gradtape's own."""
    chosen = {}
    for name in sorted(getattr(module, "__all__", None) or dir(module), key=str.lower):
        value = getattr(module, name)
        own = isinstance(value, FunctionType | type) and value.__module__.startswith("gradtape")
        if own and not name.startswith("_") and (space not in OWN_ONLY or value.__module__ == module.__name__):
            chosen[name] = value
    return chosen


def annotation(parameter: inspect.Parameter) -> str | None:
    """The type of a parameter, as it is written."""
    if parameter.annotation is parameter.empty:
        return None
    return _type_text(parameter.annotation)


def returns(function: Any) -> str | None:
    """The type of what a function gives."""
    try:
        given = inspect.signature(function).return_annotation
    except ValueError:
        return None
    return None if given is inspect.Signature.empty else _type_text(given)


def _type_text(given: Any) -> str:
    text = given if isinstance(given, str) else getattr(given, "__name__", None) or str(given)
    if not isinstance(given, str) and getattr(given, "__args__", None):
        text = str(given)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", text).replace("'", "")


def _default(value: Any) -> str:
    if isinstance(value, type | FunctionType):
        return value.__name__
    text = repr(value)
    return text if re.fullmatch(r"[\w.'\"()\[\], +-]+", text) else "..."


# -- samples -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Neither warnings nor floating-point messages."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _floating(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.floating | float) and np.asarray(value).dtype.kind in "fc"


def _size(sample: Sample) -> int:
    sizes = [np.asarray(a).size for a in (*sample.args, *sample.kwargs.values()) if isinstance(a, np.ndarray)]
    return sum(sizes) if all(sizes) else 10**6


def _strangeness(sample: Sample) -> tuple[bool, bool, int]:
    """Complex numbers, scalars and large arrays make worse examples."""
    arrays = [np.asarray(a) for a in sample.args if isinstance(a, np.ndarray | np.generic)]
    size = _size(sample)
    return any(a.dtype.kind == "c" for a in arrays), not any(1 < a.size < 13 for a in arrays), size


def _shape_line(function: Any, sample: Sample) -> str | None:
    try:
        with _quiet():
            out = function(*sample.args, **sample.kwargs)
    except Exception:
        return None
    results = [r for r in gt.nest.flatten(out) if hasattr(r, "shape")]
    if not results or any(np.size(a) == 0 for a in sample.args if isinstance(a, np.ndarray)):
        return None
    given = [_shape(a) for a in sample.args] + [f"{k}={_shape(v)}" for k, v in sample.kwargs.items()]
    return f"{', '.join(given)} → {', '.join(str(tuple(r.shape)) for r in results)}"


def _shape(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        return str(value.shape)
    if isinstance(value, list | tuple) and value and all(isinstance(v, np.ndarray) for v in value):
        return f"[{', '.join(str(v.shape) for v in value)}]"
    return _literal(value, 2) or type(value).__name__


def _literal(value: Any, digits: int) -> str | None:
    """A value as one would type it; None if that would be long."""
    if isinstance(value, np.ndarray | np.generic):
        if np.size(value) > 24:
            return None
        rounded = np.round(value, digits) if np.asarray(value).dtype.kind in "fc" else value
        return re.sub(r"\s+", " ", str(rounded.tolist()))
    if isinstance(value, list | tuple):
        parts = [_literal(v, digits) for v in value]
        if any(p is None for p in parts):
            return None
        inner = ", ".join(p for p in parts if p is not None)
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(parts) == 1 else ''})"
    return repr(value) if isinstance(value, int | float | complex | str | None) else None


def _run_sample(name: str, function: Any, parameters: list[str], sample: Sample, digits: int) -> str | None:
    """A session that calls the function with the values of a sample, with what it printed; None if it does not work out."""
    lines, arguments, space = [], [], {"gt": gt, "np": np}
    for i, value in enumerate(sample.args):
        text = _literal(value, digits)
        if text is None or "nan" in text or "inf" in text:
            return None
        if isinstance(value, np.ndarray) and value.ndim and i < len(parameters):
            dtype = "" if value.dtype.kind in "ib" else f', "{value.dtype.name}"'
            line = f"{parameters[i]} = gt.constant({text}{dtype})"
            lines.append(f">>> {line}")
            exec(line, space)
            text = parameters[i]
        arguments.append(text)
    arguments += [f"{k}={_literal(v, digits)}" for k, v in sample.kwargs.items()]
    if any(a == "None" for a in arguments) and sample.kwargs:
        return None
    call = f"{name}({', '.join(arguments)})"
    try:
        with _quiet():
            out = eval(call, space)
    except Exception:
        return None
    if any(
        isinstance(o, gt.Tensor) and o.dtype.is_differentiable and not np.isfinite(o.numpy()).all()
        for o in gt.nest.flatten(out)
    ):
        return None
    shown = f"{call}.numpy()" if isinstance(out, gt.Tensor) else call
    with np.printoptions(precision=4, suppress=True, threshold=12):
        printed = repr(out.numpy() if isinstance(out, gt.Tensor) else out)
    return "\n".join([*lines, f">>> {shown}", *([printed] if out is not None else [])])


def _session(source: str) -> str:
    first, *rest = source.rstrip("\n").split("\n")
    return "\n".join([f">>> {first}", *(f"... {line}".rstrip() for line in rest)]) + "\n"


# -- rules ---------------------------------------------------------------------------------------------------------------


def _partials(op: Op) -> list[str]:
    """`∂/∂x = cos(x)` of each input of an elementwise op whose partial is one expression."""
    shown = []
    for name, rule in zip(op.args, op.partials, strict=False):
        if isinstance(rule, int | float):
            shown.append(f"∂/∂{name} = `{rule:g}`")
        elif rule is not None and (text := _expression(rule)) and len(text) < 90:
            shown.append(f"∂/∂{name} = `{text}`")
    return shown


@functools.cache
def _tree(path: str) -> tuple[str, list[ast.Lambda]]:
    text = Path(path).read_text(encoding="utf-8")
    return text, [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Lambda)]


def _expression(rule: Any) -> str | None:
    """The text of a lambda's body."""
    if rule.__name__ != "<lambda>":
        return None
    text, lambdas = _tree(rule.__code__.co_filename)
    wanted = rule.__code__.co_varnames[: rule.__code__.co_argcount]
    spots = [(line, column) for line, _, column, _ in rule.__code__.co_positions() if line and column]
    for node in lambdas:
        body = node.body
        if tuple(a.arg for a in node.args.args) == wanted and any(
            body.lineno == line and body.col_offset <= column <= (body.end_col_offset or 0) for line, column in spots
        ):
            return re.sub(r"\s+", " ", ast.get_source_segment(text, body) or "") or None
    return None
