"""`raise` and `try` in traced code.

An exception that the user's code raises inside a staged branch or loop body belongs to the program: it is raised when, and if,
that point is reached at run time. A `try` outside of it could not catch it then, so that is refused; a `try` around it in the
same branch catches it while tracing, as in Python. Errors of gradtape itself are never deferred.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from typing import Any

from gradtape.core.opdef import Fails
from gradtape.core.record import user_location
from gradtape.errors import InvalidArgumentError, OperatorNotAllowedInGraphError, OutOfRangeError
from gradtape.functions.special_methods import ANSWERS
from gradtape.functions.staging.staged_builtins import Template
from gradtape.ops import staged
from gradtape.trace.effects import active
from gradtape.trace.tracing import current_trace

MARK = "ag__raised"
# what operations raise that fail at run time for reasons no type shows
OP_ERRORS = frozenset(cls.__name__ for kind in (InvalidArgumentError, OutOfRangeError) for cls in kind.__mro__)


def in_region() -> bool:
    """Whether what runs now is traced into a branch or loop body."""
    return active() is not None and len(current_trace().blocks) > 1


def raising(error: Any) -> Any:
    """The operand of a `raise` statement; inside a staged construct, marked as the user's own."""
    if active() is None or not in_region():
        return error
    raised = error() if isinstance(error, type) and issubclass(error, BaseException) else error
    if isinstance(raised, BaseException):
        setattr(raised, MARK, True)
    return raised


def ending(run: Callable[..., Any]) -> Callable[..., Any]:
    """A branch or body that may end with an exception: then the program raises it there."""

    def traced(*args: Any) -> Any:
        try:
            return run(*args)
        except Exception as error:
            if not getattr(error, MARK, False):
                raise
            if isinstance(error, ANSWERS.get()):
                raise OperatorNotAllowedInGraphError(
                    f"{user_location()}: a tensor's value, known only when the function runs, decides whether "
                    f"{type(error).__name__} is raised, by which an object tells Python's loop to end. Write it as `while`"
                ) from None
            # A compiled program has no `except`: a handler around this that would have caught it is refused, not left out.
            for guard in GUARDS.get():
                guard.consider({cls.__name__ for cls in type(error).__mro__}, f"the {type(error).__name__} raised in it")
            emit_error(error)
            return None

    return traced


class RaisedAgain:
    """An exception that cannot be rebuilt from a text: raised as it was, each time anew."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __call__(self, *text: Any) -> BaseException:
        try:
            raised = copy.copy(self.error)
        except Exception:  # the user's class says how it is copied: one that cannot be is raised itself
            raised = self.error
        return raised.with_traceback(None)

    def __repr__(self) -> str:
        return f"<{type(self.error).__name__}>"


def emit_error(error: BaseException, due: Any = None) -> None:
    """The program raises this error here; with `due`, not before that value is computed."""
    template = Template()
    # Only of an exception whose class makes nothing of its argument is it known that class and text say everything.
    plain = len(error.args) <= 1 and error.__cause__ is None and type(error).__init__ in _SIMPLE
    parts = tuple(template.part(arg) for arg in error.args) if plain else ()
    trace = current_trace()
    never = trace.constant(False)
    attrs = {"template": parts, "exception": type(error) if plain else RaisedAgain(error)}
    trace.emit(staged.ASSERT, [never, *template.values, *(() if due is None else (due,))], attrs)


_SIMPLE = {Exception.__init__, ValueError.__init__, OSError.__init__, KeyError.__init__, AssertionError.__init__}


class Guard:
    """The body of a `try` statement with handlers, while a function is traced."""

    statement = "`try`"
    __slots__ = ("block", "line", "names", "refusal", "start", "token")

    def __init__(self, line: int | str, names: tuple[str, ...]) -> None:
        self.line = line
        self.names = names
        self.refusal = ""  # said after the statement: its own handlers must not catch it

    def __enter__(self) -> None:
        self.block = current_trace().block
        self.start = len(self.block.operations)
        around = GUARDS.get()
        if not around:
            REFUSED.set("")
        self.token = GUARDS.set((*around, self))

    def __exit__(self, kind: Any, *rest: Any) -> bool | None:
        GUARDS.reset(self.token)
        if kind is None:
            # No exception while tracing: what was recorded in the body may still raise when the program runs.
            for operation in _all(self.block.operations[self.start :]):
                if operation.op.fails is Fails.VALUES:
                    exception = operation.attrs.get("exception")
                    mro = {c.__name__ for c in exception.__mro__} if isinstance(exception, type) else OP_ERRORS
                    self.consider(mro, f"what `{operation.op.name}` raises")
        if self.refusal:
            REFUSED.set(self.refusal)
        return None

    def consider(self, mro: set[str] | frozenset[str], what: str) -> None:
        """An exception with these bases may come at run time: refuse if a handler waits for it."""
        if not self.refusal and not mro.isdisjoint(self.names):
            self.refusal = (
                f"line {self.line}: this {self.statement} would have to catch {what} when the program runs, and a compiled "
                f"program has no `except`. Test the condition instead (an `if`, gt.where), or move the {self.statement} out of "
                "the function"
            )


class Suppressing(Guard):
    """The body of `with contextlib.suppress(...)`: nothing comes after it that could say what could not be caught."""

    statement = "`suppress`"
    __slots__ = ("manager",)

    def __init__(self, manager: suppress) -> None:
        super().__init__(user_location().rpartition(":")[2], tuple(kind.__name__ for kind in vars(manager)["_exceptions"]))
        self.manager = manager

    def __exit__(self, kind: Any, *rest: Any) -> bool:
        super().__exit__(kind, *rest)
        if self.refusal:
            REFUSED.set("")
            raise InvalidArgumentError(self.refusal)
        return bool(self.manager.__exit__(kind, *rest))


GUARDS: ContextVar[tuple[Guard, ...]] = ContextVar("gradtape_try", default=())
REFUSED: ContextVar[str] = ContextVar("gradtape_try_refused", default="")


def _all(operations: Any) -> Iterator[Any]:
    for operation in operations:
        yield operation
        for block in operation.regions.values():
            yield from _all(block.operations)


def guarded_try(line: int, names: tuple[str, ...]) -> Any:
    """Around the body of a `try` statement whose handlers catch exceptions of these names."""
    return nullcontext() if active() is None else Guard(line, names)


def after_try() -> None:
    """After a `try` statement with handlers: say what could not be caught."""
    if active() is not None and (refusal := REFUSED.get()):
        REFUSED.set("")
        raise InvalidArgumentError(refusal)
