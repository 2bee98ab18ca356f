"""What can be converted, and what a converted function keeps of the original."""

from __future__ import annotations

import functools
import gc
import inspect
import linecache
import math
import warnings
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import AutographWarning
from gradtape.functions.autograph import convert, do_not_convert, source
from gradtape.functions.autograph.code_registry import ENTRIES
from tests.autograph.compare import assert_same

LIMIT = 3


def made(text: str, name: str, **space: Any) -> Any:
    """A function from text, its source known to `linecache`, as notebooks do it."""
    file = f"<cell {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), space)
    return space[name]


def test_keeps_what_describes_it() -> None:
    def f(a: int, b: float = 2.0, *args: int, c: int = 3, **rest: int) -> int:
        """What it does."""
        return a if a > b else c

    f.note = "attribute"  # type: ignore[attr-defined]
    g: Any = convert(f)
    assert g is not f
    assert inspect.signature(g) == inspect.signature(f)
    assert (g.__name__, g.__qualname__, g.__module__, g.__doc__) == (f.__name__, f.__qualname__, f.__module__, f.__doc__)
    assert (g.__defaults__, g.__kwdefaults__, g.__annotations__) == (f.__defaults__, f.__kwdefaults__, f.__annotations__)
    assert g.note == "attribute"
    assert g.__globals__ is f.__globals__
    assert (g.__code__.co_filename, g.__code__.co_name) == (f.__code__.co_filename, f.__code__.co_name)


def test_shares_closure_cells() -> None:
    count = 0

    def bump(by: int) -> int:
        nonlocal count
        if by > 0:
            count += by
        return count

    g = convert(bump)
    assert g(2) == 2
    assert count == 2
    count = 10
    assert g(1) == 11
    assert bump(1) == 12


def test_sees_globals_as_they_are_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def below() -> bool:
        return bool(LIMIT < 5 or None)

    g = convert(below)
    assert g()
    monkeypatch.setitem(globals(), "LIMIT", 7)
    assert not g()


def test_converting_twice_changes_nothing() -> None:
    def f(x: int) -> int:
        return x if x else -x

    g = convert(f)
    assert convert(g) is g
    assert convert(f).__code__ is g.__code__  # type: ignore[attr-defined]


class Base:
    def __init__(self, scale: int) -> None:
        self.scale = scale
        self.__hidden = 5

    def value(self, x: int) -> int:
        return x * self.scale

    def hidden(self) -> int:
        return self.__hidden if self.scale else 0

    def __call__(self, x: int) -> int:
        return self.value(x) if x > 0 else 0

    @classmethod
    def named(cls, x: int) -> tuple[str, int]:
        return (cls.__name__, x) if x else ("", 0)

    @staticmethod
    def twice(x: int) -> int:
        return x + x if x else 0


class Derived(Base):
    def value(self, x: int) -> int:
        if x > 2:
            return super().value(x) + 1
        return -1

    def spread(self, n: int) -> list[int]:
        out = []
        for i in range(n):
            if i != 1:
                out.append(super().value(i))
        return out

    def klass(self) -> str:
        return __class__.__name__ if self else ""  # type: ignore[name-defined]


def test_methods() -> None:
    d = Derived(3)
    assert convert(d.value)(4) == 13
    assert convert(d.value)(1) == -1
    assert convert(d.spread)(4) == [0, 6, 9]
    assert convert(d.klass)() == "Derived"
    assert convert(d.hidden)() == 5
    assert convert(d)(4) == 13
    assert convert(Base.named)(2) == ("Base", 2)
    assert convert(Base.twice)(2) == 4
    assert convert(d.value).__self__ is d  # type: ignore[attr-defined]
    assert convert(Derived) is Derived


def test_partial() -> None:
    def f(a: int, b: int, c: int = 0) -> tuple[int, ...]:
        return (a, b, c) if a else ()

    p = functools.partial(f, 1, c=5)
    g: Any = convert(p)
    assert g is not p
    assert g(2) == (1, 2, 5)
    assert isinstance(g, functools.partial)


def test_recursion_is_converted_all_the_way() -> None:
    frames: list[str] = []

    def fib(n: int) -> int:
        frames.append(inspect.currentframe().f_back.f_code.co_filename)  # type: ignore[union-attr]
        if n < 2:
            return n
        return fib(n - 1) + fib(n - 2)

    assert convert(fib)(7) == 13
    assert set(frames) == {__file__} | ({frames[0]} - {__file__})  # no frame of gradtape stands between the calls


# fmt: off
PAIR = (lambda x: x + 1 if x else 0), (lambda x: x * 2 if x else 1)
NESTED = lambda a: (lambda b: a and b)  # noqa: E731
SPREAD = [lambda x: x and 1, lambda x:
          x or 2, lambda y: y or 3]
# fmt: on


def test_lambdas_on_one_line() -> None:
    for f in (*PAIR, NESTED, NESTED(3), *SPREAD):
        g: Any = convert(f)
        assert g is not f
        assert g.__name__ == "<lambda>"
    assert [convert(f)(5) for f in PAIR] == [6, 10]
    assert [convert(f)(0) for f in PAIR] == [0, 1]
    assert convert(NESTED)(2)(7) == 7
    assert convert(NESTED(2))(7) == 7
    assert [convert(f)(0) for f in SPREAD] == [0, 2, 3]


def test_decorated_functions() -> None:
    def twice(f: Any) -> Any:
        @functools.wraps(f)
        def wrapper(*args: Any) -> Any:
            return f(*args) + f(*args) if args else None

        return wrapper

    @twice
    @twice
    def f(x: int) -> int:
        return x if x > 0 else -x

    assert convert(f)(-3) == 12
    assert_same(f, 2)


def test_source_from_a_notebook() -> None:
    text = "class A:\n    def f(self, x):\n        if x:\n            return self.__p\n        return 1\n    __p = 9\n"
    a = made(text, "A")()
    assert convert(a.f)(1) == 9
    assert convert(a.f).__code__.co_filename.startswith("<cell")  # type: ignore[attr-defined]


def test_future_annotations_of_the_file_hold() -> None:
    text = "from __future__ import annotations\ndef f():\n    def g(x: missing): return x\n    return g.__annotations__\n"
    assert convert(made(text, "f"))() == {"x": "missing"}


def test_function_without_source_is_left_alone_and_said_once() -> None:
    space: dict[str, Any] = {}
    exec("def f(x):\n    return x if x else 1\n", space)
    f = space["f"]
    with pytest.warns(AutographWarning, match="does not convert f: its source is not available.*traced as it is") as seen:
        assert convert(f) is f
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert convert(f) is f


def test_source_that_does_not_fit_is_not_used() -> None:
    f = made("def f(a):\n    return a if a else 1\n", "f")
    file = f.__code__.co_filename
    linecache.cache[file] = (1, None, ["def f(other):\n", "    return 2\n"], file)
    with pytest.warns(AutographWarning):
        assert convert(f) is f


def test_libraries_builtins_and_coroutines_run_as_they_are() -> None:
    async def later() -> None: ...

    for f in (np.linalg.norm, gt.reduce_sum, functools.reduce, inspect.getsource, math.sin, len, print, int, later):
        assert convert(f) is f  # type: ignore[arg-type]


def test_do_not_convert() -> None:
    @do_not_convert
    def f(x: int) -> int:
        return x if x else 1

    assert convert(f) is f

    class C:
        def m(self, x: int) -> int:
            return x if x else 1

    c = C()
    do_not_convert(c.m)
    assert convert(c.m) == c.m
    assert do_not_convert()(f) is f
    assert gt.autograph.experimental.do_not_convert(functools.partial(f, 3))() == 3


def test_marked_nested_function_is_left_alone() -> None:
    def outer(x: int) -> Any:
        @do_not_convert
        def inner(y: int) -> Any:
            return [y if y else x]

        return inner

    inner = convert(outer)(3)
    assert inner(0) == [3]
    assert not any(name.startswith("ag__") for name in inner.__code__.co_freevars)


def test_conversions_die_with_the_code() -> None:
    text = "def f(x):\n    if x:\n        return lambda: x\n    return 0\n"
    before = len(ENTRIES)
    for number in range(5):
        f = made(text + "#" * number, "f")
        assert convert(f)(3)() == 3
        del f
    gc.collect()
    assert len(ENTRIES) <= before + 1


def test_closure_is_not_kept_alive() -> None:
    import weakref

    class Big:
        pass

    def make() -> Any:
        big = Big()

        def f(x: int) -> Any:
            return big if x else None

        return f, weakref.ref(big)

    f, ref = make()
    assert convert(f)(1) is ref()
    del f
    gc.collect()
    assert ref() is None


def test_to_code() -> None:
    def f(x: int, n: int = 3) -> int:
        while x < n:
            x += 1
        return x

    text = gt.autograph.to_code(f)
    assert text.startswith("def f(x: int, n: int=3) -> int:")
    assert "ag__.while_stmt(lambda: x < n, ag__body_1, ag__get_1, ag__set_1, ('x',)," in text
    compile(text, "text", "exec")
    assert "ag__.if_exp" in gt.autograph.to_code(PAIR[0])
    assert gt.autograph.to_code(Derived(1).value).startswith("def value(self, x: int)")
    with pytest.raises(TypeError, match="needs a Python function"):
        gt.autograph.to_code(len)
    with pytest.raises(ValueError, match="belongs to a library"):
        gt.autograph.to_code(gt.reduce_sum)


def test_loop_options_are_accepted() -> None:
    assert gt.autograph.experimental.Feature.ALL.name == "ALL"

    def f(n: int) -> int:
        i = 0
        while i < n:
            gt.autograph.experimental.set_loop_options(maximum_iterations=3, shape_invariants=[])
            i += 1
        return i

    assert convert(f)(4) == 4


def test_many_branches_in_a_row() -> None:
    lines = "".join(f"    if x == {i}:\n        return {i * i}\n" for i in range(60))
    f = made(f"def f(x):\n{lines}    return -1\n", "f")
    g = convert(f)
    assert g is not f
    assert [g(i) for i in (0, 7, 59, 60)] == [0, 49, 59 * 59, -1]


def test_eager_tensors() -> None:
    def f(x: Any) -> Any:
        total = gt.zeros(())
        for row in x:
            if row[0] > 1.0:
                total += gt.reduce_sum(row)
            elif not row[0] > 0.5 or row[1] < 0.0:
                continue
            else:
                total = -total
        return total if total > 0 else total * 2

    x = gt.constant([[2.0, 3.0], [0.75, 1.0], [0.1, 1.0], [4.0, -1.0]])
    assert float(convert(f)(x)) == float(f(x))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = convert(f)(x)
    with gt.GradientTape() as plain:
        plain.watch(x)
        z = f(x)
    np.testing.assert_array_equal(tape.gradient(y, x), plain.gradient(z, x))


def overwritten_inside_and_after(x):
    b = x[0]
    if b > 0.0:
        if x[1] > 0.0:
            b = gt.sin(x[0])
            b = b * 2.0
        else:
            b = gt.cos(x[0])
        b = 0.5 * b
    b = x[2]
    return b * 1.0


def test_a_name_nobody_reads_after_a_branch_is_its_own_variable():
    compiled = gt.function(overwritten_inside_and_after)
    for values in ([1.0, 1.0, 3.0], [1.0, -1.0, 4.0], [-1.0, 1.0, 5.0]):
        assert float(compiled(gt.constant(values))) == values[2]


def test_constant_lambdas_on_one_line_are_told_apart() -> None:
    """Python 3.12 gives a returned constant no position."""
    numbers = [lambda x: 6.0, lambda x: 7.0, lambda x: x, lambda x: None]
    bodies = [source.find(f.__code__, source.text_of(f.__code__, globals())) for f in (*numbers[:2], numbers[3])]
    assert [body and body.node.body.value for body in bodies] == [6.0, 7.0, None]  # type: ignore[union-attr]
    assert bodies[2] is not None
