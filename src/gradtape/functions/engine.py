"""From a call to the program that serves it: bind, take apart, find or trace, run.

`Engine` holds what all calls of a function share (parameters, options); `FunctionState` what was traced, for a function or for
one object's method. Neither refers to the function itself: the callable comes with each call, so a state lives and dies with
its owner. Programs come from `functions/attempts.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gradtape import config
from gradtape.core.observers import SESSION, TOOLS
from gradtape.core.record import SCOPE
from gradtape.errors import OpError, UnimplementedError
from gradtape.functions import attempts
from gradtape.functions.autograph import convert
from gradtape.functions.building import InitialValueError
from gradtape.functions.cache import Cache, Generality, Pattern, Traced
from gradtape.functions.declared import Declared
from gradtape.functions.fast_call import fast_call
from gradtape.functions.retracing import WARN_AFTER, warn_retracing
from gradtape.functions.signature import Binder, BoundCall, has_batches
from gradtape.functions.unknown_arguments import name_argument
from gradtape.functions.waiting import waiting
from gradtape.ir.garbage import uncollected
from gradtape.ir.walk import has_effect
from gradtape.ops.random_state import of_example
from gradtape.trace.effects import active
from gradtape.trace.tracing import TRACE

_ATTEMPTS = 3  # short ways written for a program: calls that look different may have one key
_COUNTED = ("shape", "value", "object")  # reasons for which a function should not be traced often


@dataclass(frozen=True)
class Options:
    """What the user chose for a function."""

    input_signature: tuple[Any, ...] | None = None
    autograph: bool = True
    jit_compile: bool | None = None
    reduce_retracing: bool = False
    backend: str | None = None
    check: bool = False
    memory_limit: int | None = None
    extra: dict[str, Any] = field(default_factory=dict, compare=False)  # TensorFlow's experimental_ options, kept only

    def target(self) -> str:
        """What runs the programs, in words."""
        backend = self.chosen()
        native = config.native_code_enabled() if backend is None else backend == "llvm"
        return "machine code (LLVM)" if native else "NumPy interpreter"

    def chosen(self) -> str | None:
        """The backend that the user asks for; None for what is usual."""
        if self.backend is None and self.jit_compile is not None:
            return "llvm" if self.jit_compile else "numpy"
        return self.backend


class FunctionState:
    """What was traced for one function or one object's method."""

    __slots__ = ("__weakref__", "built", "cache", "generality")

    def __init__(self) -> None:
        self.cache = Cache()
        self.generality = Generality()
        self.built = False  # Python has run once, to make variables

    def clear(self) -> None:
        self.cache.clear()
        self.generality = Generality()


class Engine:
    """How the calls of one function are served."""

    def __init__(self, function: Callable[..., Any], options: Options, name: str) -> None:
        self.options = options
        self.name = name
        self.binder = Binder(function)
        signature = options.input_signature
        self.declared = None if signature is None else Declared(signature, self.binder, name)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def call(self, target: Callable[..., Any], state: FunctionState, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function: its program, or Python where a program cannot stand for it."""
        if config.functions_run_eagerly():
            return target(*args, **kwargs)
        call, pattern = self.bound(args, kwargs)
        scope = SCOPE.get()
        if scope is not None and scope.batches and (has_batches(call.tensors) or any(b is not None for b in scope.batches)):
            return Caller(target, call, self.binder).inline(self.options.autograph)  # Python runs on batched tensors
        caller = Caller(target, call, self.binder)
        try:
            traced, new = self.traced(target, state, call, pattern)
        except InitialValueError:
            if state.built or TRACE.get() is not None:
                raise
            # its variables follow from this call's values: Python makes them, and later calls find them made
            state.built = True
            result = caller.rerun(call.tensors)
            self.traced(target, state, *self.bound(args, kwargs))
            return result
        if TRACE.get() is not None:
            return self._inside(traced, caller)
        # once for each trace, on the arguments at hand
        if new and self.options.check:
            TOOLS["check_function"](self.name, target, partial(self._run_apart, target, traced, call), call, traced.leaves)
        result = traced.program(call.tensors, caller)
        if not new:
            # not at the first call: many functions are called once, and the short way takes time to write
            self.shorten(state, traced, call)
        return result

    def shorten(self, state: FunctionState, traced: Traced, call: BoundCall) -> None:
        """Calls like this one, which was served the long way, are to go a short way from now on, if there is one."""
        short = traced.short
        # declared types convert arguments, and want the very defaults of the others: only tensors pass as they are
        readable = self.declared is None or (not call.kwargs and call.is_plain(call.args))
        if readable and (short is None or short in state.cache.short) and traced.shortened < _ATTEMPTS:
            traced.shortened += 1
            short = traced.short = fast_call(traced, call, self.binder)
        if short is not None:
            state.cache.prefer(short)

    def _run_apart(self, target: Callable[..., Any], traced: Traced, call: BoundCall, tensors: Sequence[Any]) -> Any:
        """Run a program on other tensors and on copies of the call's lists and dicts."""
        twin = BoundCall(*call.rebuild(self.binder)(tensors))
        return traced.program(twin.tensors, Caller(target, twin, self.binder))

    def _inside(self, traced: Traced, caller: Caller) -> Any:
        """A call while another function is traced: its program becomes part of that one, and so does what it read."""
        program = traced.program
        around = active()
        if any(capture.kind == "number" for capture in program.captures):
            # Python numbers that are state: the trace around this call must see the reads and writes themselves
            return caller.inline(self.options.autograph)
        if of_example() and any(map(has_effect, program.block.operations)):
            # random numbers of one example of a `vectorized_map`: they depend on a value of the trace around this call
            return caller.inline(self.options.autograph)
        if around is not None:
            # should one of them change, the program around must be traced again, too
            around.guards.include(program.guards)
        return program(caller.tensors, caller)

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[BoundCall, Pattern | None]:
        """The call taken apart, and the pattern its declared types give (None if no dimension is open)."""
        args, kwargs = self.binder(*args, **kwargs)
        if self.declared is None:
            return BoundCall(args, kwargs), None
        args, kwargs, declared = self.declared.apply(args, kwargs)
        call = BoundCall(args, kwargs)
        pattern = tuple(declared.get(id(t), own) for t, own in zip(call.tensors, call.shapes, strict=True))
        return call, pattern if any(None in shape for shape in pattern) else None

    # -- programs ------------------------------------------------------------------------------------------------------

    def traced(
        self, target: Callable[..., Any], state: FunctionState, call: BoundCall, pattern: Pattern | None = None
    ) -> tuple[Traced, bool]:
        """The program for a call, and whether it was traced just now."""
        traced = self._find(state, call, pattern)
        if traced is None:
            with state.cache.tracing(call.key) as first:
                if not first:
                    raise UnimplementedError(
                        f"`{self.name}` calls itself with arguments of the same types while it is being traced: how deep the "
                        "recursion goes would depend on the values of tensors, known only when the function runs. Use a loop, "
                        "or make the depth depend on Python numbers"
                    )
                traced = self._find(state, call, pattern)  # another thread may have traced it meanwhile
                if traced is None:
                    state.cache.misses += 1
                    try:
                        return self._new(target, state, call, pattern), True
                    except Exception as error:
                        name_argument(error)
                        raise
        state.cache.hits += 1
        return traced, False

    def _find(self, state: FunctionState, call: BoundCall, pattern: Pattern | None) -> Traced | None:
        traced = state.cache.find(call.key, call.tensors) if pattern is None else None  # for its sizes alone: the faster one
        pattern = pattern or state.generality.pattern(call)
        if traced is None and pattern is not None:
            traced = state.cache.find((call.family(), pattern), call.tensors)
        return traced

    def _new(self, target: Callable[..., Any], state: FunctionState, call: BoundCall, pattern: Pattern | None) -> Traced:
        if pattern is None:
            pattern = state.generality.pattern(call)
            if pattern is None and self.options.reduce_retracing:
                pattern = state.generality.seen(call)
        if pattern is not None:
            family = call.family()
            key = (family, pattern)
            if not state.generality.refused(family, pattern) and not state.cache.unfit(key, call.tensors):
                try:
                    traced = self._trace(target, state, call, key, pattern)
                except (OpError, ValueError, TypeError) as error:
                    # with sizes known the trace may succeed; if not, its error speaks of the sizes the user knows
                    traced = self._trace(target, state, call, call.key, call.shapes)
                    state.generality.refuse(family, pattern)
                    state.cache.notes[f"traced per shape, because with unknown sizes: {error}"] = None
                    return traced
                # a trace with open sizes may have found conditions (n > 1, m == n) that this very call does not meet
                if traced.fits(call.tensors):
                    return traced
        return self._trace(target, state, call, call.key, call.shapes)

    @uncollected()
    def _trace(
        self, target: Callable[..., Any], state: FunctionState, call: BoundCall, key: Any, pattern: Sequence[tuple[Any, ...]]
    ) -> Traced:
        rebuild = call.rebuild(self.binder)
        specs = call.specs(pattern, rebuild.names)
        cache = state.cache
        reasons = cache.why(key, rebuild.leaves, call.tensors)
        start = time.perf_counter()
        try:
            with waiting("tracing", self.name):
                program = attempts.trace_program(
                    target, rebuild, specs, rebuild.names, autograph=self.options.autograph, name=self.name,
                    memory_limit=self.options.memory_limit, backend=self.options.chosen(),
                )  # fmt: skip
        finally:
            # a trace that failed is kept by its error's traceback: it must not keep the arguments alive
            rebuild.release()
        seconds = time.perf_counter() - start
        cache.traces += 1
        traced = Traced(key, program, specs, rebuild.leaves, reasons, seconds, cache.traces)
        cache.add(traced, call.objects())
        cache.record(traced)
        for observer in SESSION.observers:
            observer.traced(self.name, target, traced.number, reasons, seconds)
        if any(reason.kind in _COUNTED for reason in reasons):
            cache.retraces += 1
            if cache.retraces >= WARN_AFTER and not cache.warned:
                cache.warned = True
                warn_retracing(self.name, cache.traces, [r for r in reasons if r.kind in _COUNTED])
        return traced


class Caller:
    """What a running program may need of the call it serves."""

    __slots__ = ("_binder", "_call", "_target", "containers", "tensors")

    def __init__(self, target: Callable[..., Any], call: BoundCall, binder: Binder) -> None:
        self._target = target
        self._call = call
        self._binder = binder
        self.containers = call.containers
        self.tensors = call.tensors

    def rerun(self, tensors: Sequence[Any]) -> Any:
        """The call, done by Python: the function itself on its own arguments (converted to tensors where they are not)."""
        call = self._call
        # (its own arguments, as they were given, whenever they can be used: the user's code may look at their types)
        if any(a is not b for a, b in zip(tensors, call.tensors, strict=True)):
            args, kwargs = call.rebuild(self._binder)(tensors)
            return self._target(*args, **kwargs)
        return self._target(*call.args, **call.kwargs)

    def inline(self, autograph: bool) -> Any:
        """The call as part of the code around it."""
        target = convert(self._target) if autograph and TRACE.get() is not None else self._target
        return target(*self._call.args, **self._call.kwargs)
