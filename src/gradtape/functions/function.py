"""`function`: the decorator that makes a Python function a program.

A `Function` is called like the function it decorates: the call's types decide which program runs, and a call of new types
is traced (`engine.py`). As a method it is bound per object: the programs of an object are found by its identity, held
weakly, and go with it. Invariant: result, side effects and derivatives are those of the undecorated function, or an error.
"""

from __future__ import annotations

import copy
import functools
import inspect
import weakref
from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from gradtape.config import settings
from gradtape.core.record import SCOPE
from gradtape.functions.argument_reader import MISS
from gradtape.functions.autograph.tracebacks import strip
from gradtape.functions.cache import CacheInfo, Traced
from gradtape.functions.compiled import RUNNERS
from gradtape.functions.concrete import AnyRank, ConcreteFunction, rankless, with_stand_ins
from gradtape.functions.declared import checked_signature
from gradtape.functions.engine import Engine, FunctionState, Options
from gradtape.functions.tokens import add_bound
from gradtape.trace.tracing import TRACE

_BACKENDS = (None, "numpy", "llvm")
P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")
_OBJECTS = 64  # objects without weak references whose methods keep programs


class _Traceable(Generic[P, R]):
    """What functions and bound methods have in common: a callable, an engine, a state."""

    _target: Callable[..., Any]
    _engine: Engine
    _state: FunctionState

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            # inside another trace a call is an operation of that program, and tools that watch runs want the long way
            if TRACE.get() is None and not RUNNERS and not settings["functions_run_eagerly"]:
                cache = self._state.cache
                nobody = SCOPE.get() is None
                # The way of nearly all calls, kept in one body: each Python call saved here shows in the time of a small
                # program.
                for short in cache.short:
                    if short.check is None or short.check():
                        result: Any = short.run(*args, **kwargs) if nobody else short.record(*args, **kwargs)
                        if result is not MISS:
                            cache.hits += 1
                            cache.clock = short.traced.used = cache.clock + 1
                            return result
            return self._engine.call(self._target, self._state, args, kwargs)
        except Exception as error:
            if TRACE.get() is None:
                # frames of the library say nothing to the user; inside another trace that one does it
                strip(error)
            raise  # not `raise error`: that would add this frame again

    # -- programs ------------------------------------------------------------------------------------------------------

    @property
    def python_function(self) -> Callable[P, R]:
        """The undecorated function."""
        return self._target

    @property
    def input_signature(self) -> tuple[Any, ...] | None:
        return self._engine.options.input_signature

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> Any:
        """The trace for these arguments: values, or `gt.TensorSpec` in the place of tensors.

        A type without a rank, `TensorSpec(None)`, is traced for each rank that it is called with.

        >>> f = gt.function(lambda x: 2.0 * x)
        >>> f.get_concrete_function(gt.TensorSpec([None, 2])).structured_outputs
        TensorSpec(shape=(None, 2), dtype=gt.float32, name=None)
        """
        if not args and not kwargs and self._engine.declared is not None:
            args = self._engine.declared.signature
        if rankless((args, kwargs)):
            return AnyRank(self.get_concrete_function, self._engine.name, args, kwargs)
        traced, call = self._for(args, kwargs)
        return ConcreteFunction(self._engine, self._target, self._state, traced, call)

    def _for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Traced, Any]:
        engine = self._engine
        if not args and not kwargs and engine.declared is not None:
            args = engine.declared.signature
        call, pattern = engine.bound(*with_stand_ins((args, kwargs)))
        if pattern is None:
            pattern = self._state.generality.opened(call)
        traced, _ = engine.traced(self._target, self._state, call, pattern)
        return traced, call

    def to_text(self, *args: Any, **kwargs: Any) -> str:
        """The program for these arguments; without arguments, all programs traced so far.

        >>> f = gt.function(lambda x: x * x, name="square")
        >>> print(f.to_text(gt.TensorSpec([3])).splitlines()[0])
        func square(%x: float32[3]"x") {
        """
        if args or kwargs or (self._engine.declared is not None and not self._state.cache.all()):
            return self._for(args, kwargs)[0].program.to_text()
        texts = [traced.program.to_text() for traced in self._state.cache.all()]
        if not texts:
            raise ValueError(
                f"`{self._engine.name}` was not traced yet: call it first, or give to_text the arguments of a call"
            )
        return "\n".join(texts)

    # -- the cache -----------------------------------------------------------------------------------------------------

    def expect(self, *args: Any, **kwargs: Any) -> None:
        """Calls with such arguments (values or `gt.TensorSpec`) will come: sizes that differ are open from the first trace on.

        >>> f = gt.function(lambda x: 2.0 * x, reduce_retracing=True)
        >>> f.expect(gt.TensorSpec([3]))
        >>> results = [f(gt.ones(n)) for n in (5, 3)]
        >>> f.experimental_get_tracing_count()
        1
        """
        self._state.generality.seen(self._engine.bound(*with_stand_ins((args, kwargs)))[0])

    def experimental_get_tracing_count(self) -> int:
        """How often the function was traced."""
        return self._state.cache.traces

    def cache_info(self) -> CacheInfo:
        """Hits, misses, the bound and the number of programs kept.

        >>> f = gt.function(lambda x, n: x * n)
        >>> results = [f(gt.constant(1.0), n) for n in (2, 3, 3)]
        >>> f.cache_info()
        CacheInfo(hits=1, misses=2, maxsize=64, currsize=2)
        """
        return self._state.cache.info()

    def clear_cache(self) -> None:
        """Forget all programs."""
        self._state.clear()

    def explain(self) -> str:
        """What was traced, when and why; what each program reads, captures and keeps.

        >>> f = gt.function(lambda x, n: x * n, name="scaled")
        >>> results = [f(gt.constant(1.0), n) for n in (2, 3)]
        >>> [line.split(" (")[0].strip() for line in f.explain().splitlines() if "argument `n`" in line]
        ['trace 2: argument `n`: 2 → 3']
        """
        cache = self._state.cache
        options = self._engine.options
        source = "converted by AutoGraph" if options.autograph else "as it is (autograph=False)"
        info = cache.info()
        lines = [
            f"function `{self._engine.name}`",
            f"  stages: Python {source} → trace → passes → {options.target()}",
            f"  calls: {info.hits} served by a program, {info.misses} traced",
            f"  cache: {info.currsize} programs, at most {info.maxsize}",
        ]
        if options.input_signature is not None:
            lines.append(f"  input_signature: {', '.join(map(str, options.input_signature))}")
        lines += [f"  {line}" for line in cache.log]
        lines += [f"  note: {note}" for note in cache.notes]
        for traced in cache.all():
            inputs = ", ".join(
                f"{spec.name}: {spec.dtype.name}{list(spec.shape)}" for spec in traced.specs if spec.shape is not None
            )
            lines.append(f"  program of trace {traced.number}({inputs})")
            guards = traced.program.guards
            lines += [f"    reads {line}" for line in guards.lines()]
            lines += [f"    not guarded: {text}" for text in guards.unguarded]
            lines += [f"    counts on {constraint}" for constraint in traced.program.constraints]
            lines += [f"    {line}" for line in traced.program.report()]
        return "\n".join(lines)

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """The types of each trace, as TensorFlow names it."""
        return "\n".join(f"{self._engine.name}({', '.join(map(str, traced.specs))})" for traced in self._state.cache.all())


class Function(_Traceable[P, R]):
    """A Python function that runs as a traced program. Made by `gt.function`."""

    def __init__(self, python_function: Callable[P, R], options: Options, name: str | None = None) -> None:
        self._target = python_function
        self._options = options
        self._state = FunctionState()
        self._methods = _Methods()
        self._lazy: Engine | None = None
        self._method_engine: Engine | None = None
        functools.update_wrapper(self, python_function)
        self._name = str(name or getattr(python_function, "__name__", type(python_function).__name__))

    @property
    def _engine(self) -> Engine:  # type: ignore[override]
        # made at the first call: a module that decorates hundreds of functions must not pay for their signatures at import
        engine = self._lazy
        if engine is None:
            engine = self._lazy = Engine(self._target, self._options, self._name)
        return engine

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self: Function[Concatenate[S, Q], R], instance: S, owner: type | None = None) -> BoundFunction[Q, R]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        # a state for each object: what is traced for one object's attributes says nothing of another's
        return BoundFunction(self, instance, self._methods.of(instance))

    def _engine_for(self, method: Callable[..., Any]) -> Engine:
        """The engine for calls as a method: the first parameter is taken."""
        engine = self._method_engine
        if engine is None:
            engine = self._method_engine = Engine(method, self._options, self._name)
        return engine

    def clear_cache(self) -> None:
        """Forget all programs, those of bound methods too."""
        self._state.clear()
        for state in self._methods.states():
            state.clear()

    def __repr__(self) -> str:
        return f"<gt.function {getattr(self, '__qualname__', self._name)}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Function[P, R]:
        # as Python's functions: a copy of a module's function is the function
        if not isinstance(self._target, MethodType):
            return self
        target: Callable[P, R] = copy.deepcopy(self._target, memo)  # bound to the copied object
        twin = Function(target, self._options, self._name)
        memo[id(self)] = twin
        return twin

    def __reduce__(self) -> Any:
        if isinstance(self._target, MethodType):
            return _again, (self._target, self._options, self._name)
        return str(self._target.__qualname__)  # by name, as Python functions


def _again(target: Callable[..., Any], options: Options, name: str) -> Function[..., Any]:
    return Function(target, options, name)


class BoundFunction(_Traceable[P, R]):
    """A `gt.function` as a method of one object; holds the object as Python's bound methods do."""

    def __init__(self, function: Function[..., R], instance: Any, state: FunctionState) -> None:
        self.__func__ = function
        self.__self__ = instance
        self._state = state

    @property
    def _target(self) -> Callable[..., Any]:  # type: ignore[override]
        return MethodType(self.__func__._target, self.__self__)

    @property
    def _engine(self) -> Engine:  # type: ignore[override]
        return self.__func__._method_engine or self.__func__._engine_for(self._target)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            return getattr(self.__func__, name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.__func__.__doc__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundFunction) and other.__self__ is self.__self__ and other.__func__ is self.__func__

    def __hash__(self) -> int:
        return hash((id(self.__self__), id(self.__func__)))

    def __repr__(self) -> str:
        return f"<bound gt.function {self.__func__._name} of {self.__self__!r}>"

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self.__func__._name)

    def __deepcopy__(self, memo: dict[int, Any]) -> BoundFunction[..., Any]:
        return self.__func__.__get__(copy.deepcopy(self.__self__, memo))


add_bound(BoundFunction)


class _Methods:
    """The states of a function's bound methods, by object; an object's state goes with the object."""

    def __init__(self) -> None:
        self._states: dict[int, tuple[Any, FunctionState]] = {}

    def of(self, instance: Any) -> FunctionState:
        known = self._states.get(id(instance))
        if known is not None:
            return known[1]
        state = FunctionState()
        key = id(instance)
        try:
            # Keyed by identity and not by the object: it may be unhashable, or equal to another. The weak reference drops the
            # entry before the number can be another object's.
            held: Any = weakref.ref(instance, _forgetter(weakref.ref(self), key))
        except TypeError:  # no weak references to it: keep a bounded number of them
            held = instance
            strong = [k for k, (other, _) in self._states.items() if not isinstance(other, weakref.ref)]
            for old in strong[: max(0, len(strong) - _OBJECTS + 1)]:
                self._states.pop(old, None)
        # (two threads may make one at the same time: the first stays)
        return self._states.setdefault(key, (held, state))[1]

    def states(self) -> list[FunctionState]:
        return [state for _, state in list(self._states.values())]

    def discard(self, key: int) -> None:
        self._states.pop(key, None)


def _forgetter(methods: weakref.ref[_Methods], key: int) -> Callable[[Any], None]:
    def forget(_: Any) -> None:
        alive = methods()
        if alive is not None:
            alive.discard(key)

    return forget


# -- the decorator ----------------------------------------------------------------------------------------------------


# fmt: off
@overload
def function(
    func: Callable[P, R], input_signature: Any = None, autograph: bool = True, jit_compile: bool | None = None,
    reduce_retracing: bool = False, backend: str | None = None, check: bool = False, memory_limit: int | None = None,
    experimental_implements: Any = None, experimental_autograph_options: Any = None, experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None, experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None, name: str | None = None,
) -> Function[P, R]: ...
@overload
def function(
    func: None = None, input_signature: Any = None, autograph: bool = True, jit_compile: bool | None = None,
    reduce_retracing: bool = False, backend: str | None = None, check: bool = False, memory_limit: int | None = None,
    experimental_implements: Any = None, experimental_autograph_options: Any = None, experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None, experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None, name: str | None = None,
) -> Callable[[Callable[P, R]], Function[P, R]]: ...
# fmt: on


def function(
    func: Callable[..., Any] | None = None, input_signature: Any = None, autograph: bool = True,
    jit_compile: bool | None = None, reduce_retracing: bool = False, backend: str | None = None, check: bool = False,
    memory_limit: int | None = None, experimental_implements: Any = None, experimental_autograph_options: Any = None,
    experimental_attributes: Any = None, experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None, experimental_follow_type_hints: bool | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Make a Python function run as a traced program; use it as a decorator, with or without arguments.

    The first call with arguments of new types traces the function: Python runs once, on stand-ins for the tensors, and
    its operations, loops and branches become a program. Later calls run the program. Python values are part of the types.

    >>> @gt.function
    ... def f(x):
    ...     return x * x
    >>> f(gt.constant(3.0)).numpy()
    np.float32(9.0)

    Args:
        func: the function; None gives a decorator.
        input_signature: a `gt.TensorSpec` (or nested ones) per argument; None dimensions take any size with one trace.
        autograph: whether Python's `if`, `for`, `while`, ... on tensors become part of the program.
        jit_compile: True asks for machine code, which is also what None means unless `gt.config.native_code(False)` (or
            GRADTAPE_NATIVE=0) says otherwise; False for the reference backend, which runs operation by operation on NumPy.
        reduce_retracing: dimensions that turn out to vary are left open, so that further sizes need no trace.
        backend: "llvm" (machine code), "numpy", or None for the usual one.
        check: compare the first call of each signature, and its gradients, with the undecorated function.
        memory_limit: bytes that loops may keep for their backward pass; they run parts again instead of keeping everything.
            The gradient is the same (as machine code up to rounding), and each iteration runs again at most log2(iterations)
            times (a warning says when that needs more bytes). Effects never run twice. Derivatives of higher order are right,
            but not limited.
        name: for messages; by default the function's own.

    Programs are kept for the 64 signatures used last. `f.explain()` says what was traced and why.
    """
    if backend not in _BACKENDS:
        raise ValueError(f"function: there is no backend {backend!r}; use 'llvm', 'numpy' or None")
    if memory_limit is not None and (isinstance(memory_limit, bool) or not isinstance(memory_limit, int) or memory_limit < 0):
        raise ValueError(f"function: memory_limit is a number of bytes, got {memory_limit!r}")
    extra = {
        "experimental_implements": experimental_implements, "experimental_autograph_options": experimental_autograph_options,
        "experimental_attributes": experimental_attributes, "experimental_follow_type_hints": experimental_follow_type_hints,
    }  # fmt: skip
    options = Options(
        checked_signature(input_signature), bool(autograph),
        jit_compile if experimental_compile is None else experimental_compile,
        bool(reduce_retracing or experimental_relax_shapes), backend, bool(check), memory_limit, extra,
    )  # fmt: skip
    if func is None:
        return functools.partial(_decorated, options=options, name=name)
    return _decorated(func, options, name)


def _decorated(func: Any, options: Options, name: str | None) -> Any:
    if isinstance(func, (staticmethod, classmethod)):
        return type(func)(_decorated(func.__func__, options, name))
    # decorated twice: the new options count, and the program is traced from the plain function
    if isinstance(func, Function):
        return Function(func.python_function, options, name)
    if not callable(func):
        raise TypeError(f"function: the decorated object must be callable, got {func!r} of type {type(func).__name__}")
    inner = func.func if isinstance(func, functools.partial) else func
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise TypeError(
            f"function: `{_name(func)}` is a generator function (it uses `yield`); a program gives one result. Return a list "
            "or a tensor, or decorate the functions it calls"
        )
    if inspect.iscoroutinefunction(inner):
        raise TypeError(f"function: `{_name(func)}` is a coroutine function (`async def`); decorate a plain function")
    return Function(func, options, name)


def _name(func: Any) -> str:
    return getattr(func, "__qualname__", type(func).__name__)
