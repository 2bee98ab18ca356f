"""What a call is to a traced function: its tensors, its static values, and the key under which its program is kept.

`Binder` brings a call into one form (defaults applied, keywords in their places); `take_apart` splits it into tensor
leaves (tensors and NumPy data: the inputs of the program) and everything else, which is static and part of the key.
Variables are static, by identity. One tensor given twice is one input, and the key says where it stands.
Invariant: two calls with the same key see the same Python function but for the values of their tensors.
"""

from __future__ import annotations

import inspect
import keyword
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from gradtape.core.conversion import is_foreign_array, typed
from gradtape.core.dispatch import convert, plain
from gradtape.core.record import INTERNAL
from gradtape.core.tensor import Readable, Tensor
from gradtape.dtypes import as_dtype
from gradtape.functions.tokens import ObjectIdentity, identities, shown, token
from gradtape.ir.dims import Dim, fresh_symbol
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.trace.effects import refuse_in_trial
from gradtape.trace.tracing import TracedTensor, current_trace
from gradtape.tree import LeafTuple, like
from gradtape.variables.indexed_slices import IndexedSlices

GENERATED = "<gradtape signature>"  # the file name of generated functions
INTERNAL.add(GENERATED)

# -- from a call to one form ------------------------------------------------------------------------------------------


class Binder:
    """Binds calls as Python does, with Python's own errors, by a compiled stub of the same parameters.

    >>> def f(a, b=2, *rest, c=3, **more): ...
    >>> Binder(f)(1, c=5, d=6)
    ((1, 2), {'c': 5, 'd': 6})
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            if isinstance(function, np.ufunc):  # what it says of its options it does not take all together
                raise TypeError("a ufunc")
            signature = inspect.signature(function, follow_wrapped=False)
            self.parameters = list(signature.parameters.values())
        except (TypeError, ValueError):  # some builtins do not say
            kinds = (("args", inspect.Parameter.VAR_POSITIONAL), ("kwargs", inspect.Parameter.VAR_KEYWORD))
            self.parameters = [inspect.Parameter(name, kind) for name, kind in kinds]
        kind = inspect.Parameter
        self.positional = [p.name for p in self.parameters if p.kind in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)]
        self.rest = next((p.name for p in self.parameters if p.kind is kind.VAR_POSITIONAL), None)
        self._name = getattr(function, "__name__", type(function).__name__)
        self._qualname = getattr(function, "__qualname__", self._name)
        given = [*self.positional, *([f"*{self.rest}"] if self.rest else [])]
        named = [f"**{p.name}" if p.kind is p.VAR_KEYWORD else f"{p.name!r}: {p.name}" for p in self.parameters if _is_named(p)]
        items = ", ".join(given) + ("," if given else "")
        # Python binds the arguments itself, defaults and errors included: nothing of its rules is written again here
        self._stub = self.define([f"return ({items}), {{{', '.join(named)}}}"], {})

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self._stub(*args, **kwargs)

    def name(self, place: int) -> str:
        """What the user calls the positional argument at `place`."""
        if place < len(self.positional):
            return self.positional[place]
        return f"{self.rest or 'args'}[{place - len(self.positional)}]"

    def define(self, body: Sequence[str], space: dict[str, Any]) -> Callable[..., Any]:
        """A function of these parameters and defaults, with another body. `space` has what the body names."""
        space = dict(space)
        heads: list[str] = []
        for place, p in enumerate(self.parameters):
            text = "*" * (p.kind is p.VAR_POSITIONAL) + "**" * (p.kind is p.VAR_KEYWORD) + p.name
            if p.default is not p.empty:
                # by name: a default may be any object, which has no text
                space[f"_gt_default_{place}"] = p.default
                text = f"{text}=_gt_default_{place}"
            # (`*args` before it says the same)
            if p.kind is p.KEYWORD_ONLY and not any(head.startswith("*") for head in heads):
                heads.append("*")
            heads.append(text)
            if p.kind is p.POSITIONAL_ONLY and not any(q.kind is q.POSITIONAL_ONLY for q in self.parameters[place + 1 :]):
                heads.append("/")
        # a lambda's is none
        name = self._name if self._name.isidentifier() and not keyword.iskeyword(self._name) else "function"
        source = f"def {name}({', '.join(heads)}):\n " + "\n ".join(body) + "\n"
        exec(compile(source, GENERATED, "exec"), space)  # noqa: S102  (names of parameters and our own templates)
        defined: FunctionType = space[name]
        # Python's own messages about wrong arguments name the code, not the function
        defined.__code__ = defined.__code__.replace(co_qualname=self._qualname)
        defined.__qualname__ = self._qualname
        return defined


def _is_named(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD)


# -- containers -------------------------------------------------------------------------------------------------------


class Parts(NamedTuple):
    """A container, opened: the stand-in of its form, its children with their paths, and how to make one of new children."""

    form: Any
    paths: list[str]
    children: list[Any]
    assemble: Callable[[list[Any]], Any]


def _opened(value: Any) -> Parts | None:
    """None for a leaf."""
    kind: Any = value.__class__
    if isinstance(value, dict):
        # keys in their order: code that goes over a dict depends on it
        form = (kind, *[token(key) for key in value])
        if isinstance(value, defaultdict):
            # (it decides what a missing key gives)
            form = (*form, token(value.default_factory))
        return Parts(form, [f"[{key!r}]" for key in value], list(value.values()), partial(like, value))
    if isinstance(value, (list, tuple)) and not isinstance(value, LeafTuple):
        fields = getattr(kind, "_fields", None)
        paths = [f"[{i}]" for i in range(len(value))] if fields is None else [f".{field}" for field in fields]
        return Parts((kind, len(value)), paths, list(value), partial(like, value))
    if kind is slice:
        return Parts(slice, [".start", ".stop", ".step"], [value.start, value.stop, value.step], lambda c: slice(*c))
    if kind is partial:
        given = [value.func, *value.args, *value.keywords.values()]
        count = len(value.args) + 1
        names = list(value.keywords)
        paths = [".func", *[f".args[{i}]" for i in range(count - 1)], *[f".keywords[{name!r}]" for name in names]]
        form = (partial, count, tuple(names))
        return Parts(form, paths, given, lambda c: partial(c[0], *c[1:count], **dict(zip(names, c[count:], strict=True))))
    if kind is IndexedSlices:
        shape = value.dense_shape
        form = (IndexedSlices, None if shape is None else tuple(shape))
        return Parts(form, [".values", ".indices"], [value.values, value.indices], lambda c: IndexedSlices(c[0], c[1], shape))
    return None


# -- a call, taken apart ----------------------------------------------------------------------------------------------


class Leaf(NamedTuple):
    """What a message can say about one leaf of a call."""

    name: str
    kind: str  # "tensor", "value" (number, text), "object" (by identity), "form" (a container), "same" (given before)
    shape: tuple[Any, ...] | None
    dtype: str | None
    text: str
    type: str


class BoundCall:
    """One call: `tensors` in order, each object once; `key`; and on demand what tracing needs."""

    __slots__ = ("_dims", "_places", "args", "containers", "key", "kwargs", "shapes", "tensors")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs
        self.tensors: list[Tensor] = []
        self.containers: list[Any] = []  # lists and dicts met on the way, in order: the program may change them
        self.shapes: list[tuple[Any, ...]] = []  # of the tensors; symbolic dimensions numbered by first appearance
        self._places: list[int] = []  # where the shapes stand in the key
        self._dims: dict[Any, Any] = {}
        parts: list[Any] = [len(args), *kwargs]
        seen: dict[int, int] = {}
        for value in args:
            self._take(value, parts, seen)
        for value in kwargs.values():
            self._take(value, parts, seen)
        self.key = tuple(parts)

    def _take(self, value: Any, parts: list[Any], seen: dict[int, int]) -> None:
        kind = value.__class__
        if _is_tensor_leaf(value):
            self._add(value, _as_tensor(value), parts, seen)
            return
        if not isinstance(value, Readable) or kind is IndexedSlices:
            opened = _opened(value)
            if opened is not None:
                mutable = isinstance(value, (list, dict))
                if mutable:
                    known = seen.get(id(value))
                    if known is not None:
                        parts.append(("same", known))
                        return
                    seen[id(value)] = len(seen)
                    self.containers.append(value)
                parts.append(opened.form)
                for child in opened.children:
                    self._take(child, parts, seen)
                return
        parts.append(token(value))

    def _add(self, value: Any, tensor: Any, parts: list[Any], seen: dict[int, int]) -> None:
        known = seen.get(id(value))
        if known is not None:
            parts.append(("same", known))
            return
        seen[id(value)] = len(seen)
        self.tensors.append(tensor)
        if isinstance(tensor, TracedTensor):
            type = tensor._data.type
            if isinstance(type, ListSpec):
                parts.append(type)
                self.shapes.append(())
                self._places.append(-1)
                return
            shape = tuple([self._numbered(d) if d.__class__ is Dim else d for d in type.shape])
            dtype = type.dtype.dtype
        elif tensor.wraps:  # of a batching evaluator: what one example is
            shape, dtype = tuple(tensor.shape), tensor.dtype
        else:
            # NumPy's own objects, whose hashes are quick: the key is made at each call that has no short way
            shape, dtype = tensor._data.shape, tensor._data.dtype
        self.shapes.append(shape)
        self._places.append(len(parts))
        parts.append(shape)
        parts.append(dtype)

    def _numbered(self, dim: Dim) -> Numbered:
        return self._dims.setdefault(dim, Numbered(len(self._dims)))

    # -- what tracing and messages need, asked for when there is no program yet

    def family(self) -> tuple[Any, ...]:
        """The key with ranks in the place of shapes."""
        parts = list(self.key)
        for place in self._places:
            if place >= 0:
                parts[place] = len(parts[place])
        return tuple(parts)

    def specs(self, pattern: Sequence[tuple[Any, ...]], names: Sequence[str]) -> list[Any]:
        """The types of the inputs; None in `pattern` is a symbol of its own, numbered dimensions are shared symbols."""
        shared: dict[Any, Any] = {}
        specs: list[Any] = []
        for tensor, dims, name in zip(self.tensors, pattern, names, strict=True):
            if isinstance(tensor, TracedTensor) and isinstance(tensor._data.type, ListSpec):
                specs.append(tensor._data.type)
                continue
            shape = []
            for d in dims:
                if d is None:
                    shape.append(fresh_symbol("n"))
                elif d.__class__ is Numbered:
                    if d not in shared:
                        shared[d] = fresh_symbol("n")
                    shape.append(shared[d])
                else:
                    shape.append(d)
            specs.append(TensorSpec(shape, tensor.dtype, name))
        return specs

    def objects(self) -> list[Any]:
        """The objects the key holds by identity, weakly: with one of them the call can never come again."""
        return [identity.target for identity in identities(self.key) if identity.weak]

    def rebuild(self, binder: Binder) -> CallRebuilder:
        return CallRebuilder(self, binder)

    def is_plain(self, args: tuple[Any, ...]) -> bool:
        """Whether the call was just these tensors: nothing else about it can change from one call to the next."""
        return not self.containers and len(self.tensors) == len(args) and all(map(_is, self.tensors, args))


class Numbered(NamedTuple):
    """A symbolic dimension of the function around this call, numbered by first appearance."""

    number: int


def _is(a: Any, b: Any) -> bool:
    return a is b


def _is_tensor_leaf(value: Any) -> bool:
    if value.__class__ is Tensor:
        return True
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind not in "OVMm" or value.dtype.name == "bfloat16"
    return isinstance(value, (Tensor, Dim)) or is_foreign_array(value)


def _as_tensor(value: Any) -> Any:
    if value.__class__ is Tensor:
        return value
    if isinstance(value, Tensor):
        if getattr(value, "weak", False):
            refuse_in_trial("a number of the loop is an argument of a gt.function")
        return value if value.wraps else plain(value)
    return current_trace().dim(value) if isinstance(value, Dim) else convert(value)


def has_batches(tensors: Sequence[Tensor]) -> bool:
    """Whether some tensor belongs to a batching evaluator (`vectorized_map`), which runs Python code, not programs."""
    return any(t.wraps and not isinstance(t, TracedTensor) for t in tensors)


class CallRebuilder:
    """`rebuild(stand_ins)` is the call again, as (args, kwargs), with other objects for its tensors.

    `names` are the tensors' names; `containers` (after a call) the new lists and dicts, in the order of `BoundCall.containers`;
    `objects` the static objects with the names under which they were given.
    """

    def __init__(self, call: BoundCall, binder: Binder) -> None:
        self._call: BoundCall | None = call
        self._binder = binder
        self.containers: list[Any] = []
        self.leaves = list(self._leaves())
        self.names = [leaf.name for leaf in self.leaves if leaf.kind == "tensor"]
        self.objects: list[tuple[Any, str]] = [
            (value, path)
            for path, value, _ in self._walk()
            if _opened(value) is None and token(value).__class__ is ObjectIdentity
        ]

    def tensors(self) -> Sequence[Any]:
        """The tensors of the call."""
        return () if self._call is None else self._call.tensors

    def release(self) -> None:
        """Forget the arguments: nothing that outlives the trace may hold them."""
        self._call = None
        self.containers = []
        self.objects = []

    def __call__(self, stand_ins: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        call = self._call
        if call is None:
            raise RuntimeError("the call was released after its trace")
        feed = iter(stand_ins)
        self.containers = []
        twins: dict[int, Any] = {}
        args = tuple([self._replaced(value, feed, twins) for value in call.args])
        return args, {name: self._replaced(value, feed, twins) for name, value in call.kwargs.items()}

    def _replaced(self, value: Any, feed: Iterator[Any], twins: dict[int, Any]) -> Any:
        if id(value) in twins:
            return twins[id(value)]
        if _is_tensor_leaf(value):
            stand_in = twins[id(value)] = next(feed)
            return stand_in
        opened = None if isinstance(value, Readable) and value.__class__ is not IndexedSlices else _opened(value)
        if opened is None:
            return value
        if value.__class__ is list or value.__class__ is dict:  # may contain itself
            twin: Any = value.__class__()
            twins[id(value)] = twin
            self.containers.append(twin)
            items = [self._replaced(child, feed, twins) for child in opened.children]
            twin.extend(items) if value.__class__ is list else twin.update(zip(value, items, strict=True))
            return twin
        place = len(self.containers)
        mutable = isinstance(value, (list, dict))
        if mutable:
            # (its place first: containers are numbered from the outside in, as `BoundCall` met them)
            self.containers.append(None)
        twin = opened.assemble([self._replaced(child, feed, twins) for child in opened.children])
        if mutable:
            twins[id(value)] = self.containers[place] = twin
        return twin

    def _walk(self) -> Iterator[tuple[str, Any, str | None]]:
        """Every part of the call with its path, containers before what is in them; and the path of the same object before."""
        assert self._call is not None
        waiting: list[tuple[str, Any]] = [(self._binder.name(i), value) for i, value in enumerate(self._call.args)]
        waiting += list(self._call.kwargs.items())
        # a stack, so that parts come in the order of the parameters
        waiting.reverse()
        seen: dict[int, str] = {}
        while waiting:
            path, value = waiting.pop()
            opened = None if _is_tensor_leaf(value) else _opened(value)
            if _is_tensor_leaf(value) or isinstance(value, (list, dict)):
                if id(value) in seen:
                    yield path, value, seen[id(value)]
                    continue
                seen[id(value)] = path
            yield path, value, None
            if opened is not None:
                below = [(path + suffix, child) for suffix, child in zip(opened.paths, opened.children, strict=True)]
                waiting.extend(reversed(below))

    def _leaves(self) -> Iterator[Leaf]:
        assert self._call is not None
        shapes = iter(self._call.shapes)
        for path, value, same in self._walk():
            if same is not None:
                yield Leaf(path, "same", None, None, f"the same object as `{same}`", type(value).__name__)
                continue
            if _is_tensor_leaf(value):
                yield Leaf(path, "tensor", next(shapes), as_dtype(_dtype_of(value)).name, "", "tensor")
                continue
            opened = _opened(value)
            if opened is not None:
                yield Leaf(path, "form", None, None, _form(value, opened), type(value).__name__)
            else:
                stand_in = token(value)
                by_identity = stand_in.__class__ is ObjectIdentity
                # the number keeps apart objects that read alike; it is compared, never shown
                mark = str(id(value)) if by_identity else ""
                yield Leaf(path, "object" if by_identity else "value", None, mark, shown(value), type(value).__name__)


def _dtype_of(value: Any) -> Any:
    if isinstance(value, Dim):
        return np.int32
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "US":
        return object
    return value.dtype if isinstance(value, (np.ndarray, np.generic, Tensor)) else typed(value).dtype


def _form(value: Any, opened: Parts) -> str:
    if isinstance(value, dict):
        return f"a {type(value).__name__} with keys {list(value)!r}"
    return f"a {type(value).__name__} of {len(opened.children)}"
