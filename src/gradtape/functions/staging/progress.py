"""Progress bars (tqdm) in a function: each run of the program makes a bar of its own, which the turns of the loop move.

Without this a bar would show how the loop is traced, once. tqdm is not imported here: who calls it has done so.
Invariant: a bar changes no value, and which loops are staged does not depend on it.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from gradtape.functions.at_run_time import at_run_time
from gradtape.functions.impure import BAR_METHODS
from gradtape.functions.staging.iterables import PulledIterable, is_staged_iterable
from gradtape.functions.staging.staged_builtins import call_builtin

POSITIONAL = ("desc", "total", "leave")  # behind the iterable; the others are always named


def bar_call(callee: Any) -> Callable[..., Any] | None:
    """What stands for a class of bars, or `trange`, in a function that is traced; None for everything else."""
    if not str(callee.__module__).startswith("tqdm."):
        return None
    if isinstance(callee, type) and issubclass(callee, sys.modules["tqdm"].tqdm):
        return lambda iterable=None, *more, **said: Bar(iterable, callee, {**dict(zip(POSITIONAL, more, strict=False)), **said})
    if callee.__name__ == "trange":
        return lambda *numbers, **said: Bar(range(*numbers), lambda **now: callee(now["total"], **now), said)
    return None


class Bar:
    """A bar of the program: what it goes over, and what was said of it."""

    def __init__(self, iterable: Any, make: Callable[..., Any], said: dict[str, Any], counted: Any = None) -> None:
        self.iterable = iterable
        self._counted = iterable if counted is None else counted
        self._make = make
        self._said = said
        self._runs: dict[int, Any] = {}  # the bars that are shown, by thread
        if iterable is None:  # moved by hand, with `update`
            self._start(said.get("total"))

    def over(self, change: Callable[[Any], Any]) -> Bar:
        """The same bar over something that has as many items."""
        return Bar(change(self.iterable), self._make, self._said, self._counted)

    def moved_by(self, body: Callable[[Any], Any]) -> Callable[[Any], None]:
        """The body of a loop over it: the bar begins before the loop, and each turn moves it."""
        items = self._counted
        staged = is_staged_iterable(items) and not isinstance(items, PulledIterable)
        length = call_builtin("len", (items,), {}) if staged else operator.length_hint(items, 0) or None
        self._start(self._said.get("total", length))

        def turn(item: Any) -> None:
            body(item)
            at_run_time(self.update)()

        return turn

    def _start(self, total: Any) -> None:
        at_run_time(self._started)({**self._said, "total": total})

    def _started(self, said: dict[str, Any]) -> None:
        self.close()  # that of a run which did not come to its end
        total = said["total"]
        self._runs[threading.get_ident()] = self._make(**{**said, "total": None if total is None else int(total)})

    def __getattr__(self, name: str) -> Any:
        if name not in BAR_METHODS:
            raise AttributeError(
                f"`{name}` of a bar in a function is not known when it is traced; it has {', '.join(BAR_METHODS)}"
            )
        return MethodType(_method(name), self)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        at_run_time(self.close)()

    def __len__(self) -> int:
        return len(self._counted)

    def __iter__(self) -> Iterator[Any]:
        move = self.moved_by(lambda item: None)
        for item in self.iterable:
            yield item
            move(item)
        at_run_time(self.close)()


def _method(name: str) -> Callable[..., None]:
    """A method of the bar that is shown in this thread."""

    def call(bar: Bar, *args: Any, **kwargs: Any) -> None:
        shown = bar._runs.get(threading.get_ident())
        if shown is not None:
            getattr(shown, name)(*args, **kwargs)

    call.__name__ = name
    return call
