"""Loops that are staged by trying, and code of the user's that Python calls by itself: operators, conversions, descriptors,
iterators, callbacks. What it changes, it changes in each turn; and what closures change is state wherever they are called."""

from __future__ import annotations

import contextlib
import copy
import cProfile
import dataclasses
import fractions
import functools
import itertools
import math
import operator
import re
import struct
import sys
import types

import numpy as np
import pytest

import gradtape as gt

pytestmark = pytest.mark.usefixtures("reference_backend")
N = 24
BINARY = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "mod": operator.mod,
    "floordiv": operator.floordiv, "pow": operator.pow, "matmul": operator.matmul, "lshift": operator.lshift,
    "rshift": operator.rshift, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip


class Counter:
    def __init__(self):
        self.count = 0.0

    def up(self, *_):
        self.count += 1.0
        return self.count


def answering(value):
    """A method that counts, and answers what `value` makes of the count."""

    def method(self, *_, **__):
        return value(self.up())

    return method


def asked(take, value=float, **methods):
    """An object with one special method, or those given, and how a turn asks it."""
    name = methods.pop("name", None)
    space = {f"__{key}__": answering(each) for key, each in methods.items()} | (
        {} if name is None else {name: answering(value)}
    )
    return (lambda: type("Asked", (Counter,), dict(space))()), take


def two(count):
    return iter([1.0, count])


def even(count):
    return count % 2.0 == 0.0


def text(count):
    return str(count)


def index(count):
    return int(count) % 3


CASES = {
    **{f"s {name} 1": asked(lambda s, i, op=op: op(s, 1.0), name=f"__{name}__") for name, op in BINARY.items()},
    **{f"1 {name} s": asked(lambda s, i, op=op: op(1.0, s), name=f"__r{name}__") for name, op in BINARY.items()},
    "s - 1": asked(lambda s, i: s - 1.0, sub=float),
    "1 / s": asked(lambda s, i: 1.0 / s, rtruediv=float),
    "s @ 1": asked(lambda s, i: s @ 1.0, matmul=float),
    "-s": asked(lambda s, i: -s, neg=float),
    "~s": asked(lambda s, i: ~s, invert=float),
    "s == 1": asked(lambda s, i: 1.0 if s == 1 else 2.0, eq=even),
    "s < 1": asked(lambda s, i: 1.0 if s < 1 else 2.0, lt=even),
    "1 < s < 2": asked(lambda s, i: 1.0 if s < 1 < 2 else 2.0, lt=even),
    "abs": asked(lambda s, i: abs(s), abs=float),
    "divmod": asked(lambda s, i: divmod(s, 2), divmod=float),
    "hash": asked(lambda s, i: float(hash(s)), hash=int),
    "complex": asked(lambda s, i: complex(s).real, complex=complex),
    "str": asked(lambda s, i: float(str(s)), str=text),
    "f-string": asked(lambda s, i: float(f"{s}"), format=text),
    "!r": asked(lambda s, i: float(f"{s!r}"), repr=text),
    "format": asked(lambda s, i: float("{}".format(s)), format=text),  # noqa: UP032
    "%": asked(lambda s, i: float("%s" % (s,)), str=text),  # noqa: UP031
    "index of a list": asked(lambda s, i: [1.0, 2.0, 4.0][s], index=index),
    "index of an array": asked(lambda s, i: np.arange(3.0)[s], index=index),
    "index of a tensor": asked(lambda s, i: gt.constant([1.0, 2.0, 4.0], gt.float64)[s], index=index),
    "range": asked(lambda s, i: float(len(range(s))), index=index),
    "hasattr": asked(lambda s, i: float(hasattr(s, "other")) + s.count, getattr=float),
    "assert": asked(lambda s, i: checked(s), bool=bool),
    "any": asked(lambda s, i: float(any([s])) + s.count, bool=even),
    "in": asked(lambda s, i: float(7 in s) + s.count, iter=two),
    "for": asked(lambda s, i: sum([k for k in s]), iter=two),  # noqa: C416
    "list": asked(lambda s, i: list(s)[1], iter=two),
    "sum": asked(lambda s, i: sum(s), iter=two),
    "zip": asked(lambda s, i: list(zip(s, s, strict=True))[1][0], iter=two),
    "star": asked(lambda s, i: max(*s), iter=two),
    "star in a list": asked(lambda s, i: [*s][1], iter=two),
    "unpacked": asked(lambda s, i: unpacked(s), iter=two),
    "fsum": asked(lambda s, i: math.fsum(s), iter=two),
    "fromiter": asked(lambda s, i: np.fromiter(s, float)[1], iter=two),
    "extend": asked(lambda s, i: extended(s), iter=two),
    "math": asked(lambda s, i: math.sqrt(s), float=float),
    "floor": asked(lambda s, i: math.floor(s), floor=float),
    "array": asked(lambda s, i: float(np.asarray(s)), array=np.array),
    "tensor": asked(lambda s, i: gt.constant(s, gt.float64) * 1.0, array=np.array),
    "ufunc": asked(lambda s, i: np.add(s, 1.0), array_ufunc=float),
    "array and object": asked(lambda s, i: np.ones(3) + s, array_ufunc=float),
    "copy": asked(lambda s, i: copy.copy(s), copy=float),
    "sorted": asked(lambda s, i: (sorted([s, s]), s.count)[1], lt=even),
    "del s.x": asked(lambda s, i: (delattr(s, "x"), s.count)[1], delattr=float),
    "methodcaller": (Counter, lambda s, i: operator.methodcaller("up")(s)),
    "re.sub": (Counter, lambda s, i: (re.sub("a", lambda m: str(s.up()), "aa"), s.count)[1]),
    "vectorize": (Counter, lambda s, i: np.vectorize(s.up)(np.ones(2)).sum()),
    "a weak method's list": (list, lambda s, i: (operator.methodcaller("append", 1.0)(s), float(len(s)))[1]),
    "struct": (lambda: bytearray(8), lambda s, i: packed(s)),
    "__setitem__": (lambda: np.zeros(2), lambda s, i: (s.__setitem__(0, s[0] + 1.0), s[0])[1]),
    "__iadd__": (lambda: np.zeros(2), lambda s, i: s.__iadd__(1.0)[0]),
    "list.append": (list, lambda s, i: (list.append(s, 1.0), float(len(s)))[1]),
    "set.pop": (lambda: set(range(99)), lambda s, i: float(s.pop())),
    "fraction": (lambda: fractions.Fraction(1, 3), lambda s, i: float(s * i)),
}


def checked(s):
    assert s
    return s.count


def unpacked(s):
    _, count = s
    return count


def extended(s):
    items = []
    items.extend(s)
    return items[1]


def packed(buffer):
    struct.pack_into("d", buffer, 0, struct.unpack_from("d", buffer, 0)[0] + 1.0)
    return struct.unpack("d", buffer)[0]


# -- classes whose attributes are more than attributes --------------------------------------------------------------------


class Descriptor:
    def __get__(self, owner, kind):
        return self if owner is None else owner.up()

    def __set__(self, owner, value):
        owner.count += value


class Doubling(Counter):
    described = Descriptor()
    by_operator = property(operator.methodcaller("up"))

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2.0 if name == "doubled" else value)

    @property
    def gone(self):
        return self.count

    @gone.deleter
    def gone(self):
        self.count += 1.0

    @functools.cached_property
    def cached(self):
        return self.up()


class Above(Doubling):
    def __setattr__(self, name, value):
        super().__setattr__(name, value + 1.0 if name == "doubled" else value)


def doubled(s, i):
    s.doubled = s.count
    return s.doubled + s.up()


def described(s, i):
    s.described = 2.0
    return s.described


def deleted(s, i):
    del s.gone
    return s.gone


def cached(s, i):
    value = s.cached
    del s.cached
    return value


@dataclasses.dataclass
class Counting:
    counter: Counter

    def __post_init__(self):
        self.counter.up()


class New:
    def __new__(cls, counter):
        counter.up()
        return object.__new__(cls)


def class_body(s, i):
    class Local:
        count = s.up()

    return Local.count


def decorated(s, i):
    @s.up
    def count():
        return None

    return count


def left(s, i):
    with contextlib.ExitStack() as stack:
        stack.callback(s.up)
    return s.count


CASES |= {
    "__setattr__": (Doubling, doubled),
    "super().__setattr__": (Above, doubled),
    "descriptor": (Doubling, described),
    "property of an operator": (Doubling, lambda s, i: s.by_operator),
    "deleter": (Doubling, deleted),
    "cached_property": (Doubling, cached),
    "__post_init__": (Counter, lambda s, i: (Counting(s), s.count)[1]),
    "__new__": (Counter, lambda s, i: (New(s), s.count)[1]),
    "class body": (Counter, class_body),
    "decorator": (Counter, decorated),
    "exit stack": (Counter, left),
}


# -- closures ---------------------------------------------------------------------------------------------------------------


def closure():
    count = 0.0

    def up():
        nonlocal count
        count += 1.0
        return count

    return up


def calling_closure():
    count = 0.0

    def up():
        nonlocal count
        count += 1.0

    def often():
        for _ in range(12):
            up()
        return count

    return often


CASES |= {
    "closure": (closure, lambda s, i: s()),
    "closure that calls one": (calling_closure, lambda s, i: s()),
    "closure made in the turn": (Counter, lambda s, i: closure()() + s.count),
}


def in_for(make, take):
    def f(x):
        state = make()
        for i in range(N):
            x = x * 0.5 + take(state, i)
        return x

    return f


def in_while(make, take):
    def f(x):
        state, i = make(), 0
        while i < N:
            x = x * 0.5 + take(state, i)
            i += 1
        return x

    return f


def in_inner(make, take):
    def f(x):
        state = make()
        for i in range(2):
            for k in range(12):
                x = x * 0.5 + take(state, i + k)
        return x

    return f


def in_comprehension(make, take):
    def f(x):
        state = make()
        parts = [x * 0.5 + take(state, i) for i in range(N)]
        return sum(parts) + parts[-1] * parts[3]

    return f


@pytest.mark.parametrize("loop", [in_for, in_while, in_inner, in_comprehension])
@pytest.mark.parametrize("name", CASES)
def test_a_turn_changes_what_pythons_turn_changes(name, loop):
    f = loop(*CASES[name])
    x = gt.constant(0.25, gt.float64)
    np.testing.assert_allclose(gt.function(f)(x), f(x), rtol=1e-12)


def staged_for(make, take):
    def f(x):
        state = make()
        for _ in gt.range(5):
            x = x * 0.5 + take(state, 0)
        return x

    return f


def staged_if(make, take):
    def f(x):
        state = make()
        if x > 0.0:
            take(state, 0)
            x = x + take(state, 1)
        else:
            x = x * take(state, 0)
        return x * take(state, 1)

    return f


@pytest.mark.parametrize("construct", [staged_for, staged_if])
@pytest.mark.parametrize("name", ["closure", "closure that calls one", "closure made in the turn", "descriptor", "deleter",
                                  "__setattr__", "super().__setattr__"])  # fmt: skip
@pytest.mark.parametrize("x", [0.25, -0.25])
def test_what_converted_methods_and_closures_change_is_state_of_the_program(name, construct, x):
    f = construct(*CASES[name])
    x = gt.constant(x, gt.float64)
    np.testing.assert_allclose(gt.function(f)(x), f(x), rtol=1e-12)


def test_a_loop_that_calls_nothing_foreign_is_staged_under_a_profiler_too():
    @gt.function
    def f(x):
        for _ in range(N):
            x = x * 0.5 + 1.0
        return x

    seen = []
    sys.setprofile(lambda *event: seen.append(event[1]))
    try:
        f(gt.constant(0.25))
        kept = sys.getprofile()
    finally:
        sys.setprofile(None)
    assert kept is not None
    assert seen
    with cProfile.Profile() as profile:
        gt.function(f.python_function)(gt.constant(0.25, gt.float64))
    assert "turn by turn" not in f.explain()
    assert any("test_foreign_code" in str(key[0]) for key in _stats(profile))


def _stats(profile):
    profile.create_stats()
    return profile.stats


def test_dataclasses_and_named_tuples_do_not_keep_a_loop_from_being_staged():
    def operations(turns):
        @gt.function
        def f(x):
            for _ in range(turns):
                x = Pair(x, 1.0).first * 0.5 + next(iter(itertools.repeat(1.0)))
            return x

        f(gt.constant(0.5))
        return re.search(r"operations: \d+ traced|.*turn by turn.*", f.explain()).group()

    assert operations(N) == operations(2 * N)


class Finder:
    """Asked for every module that is not loaded yet, as those of installed packages are."""

    asked = 0

    def find_spec(self, name, path=None, target=None):
        self.asked += len(self.named(name))

    def named(self, name):
        return [name]


def test_what_libraries_import_when_they_first_need_it_does_not_keep_a_loop_from_being_staged(monkeypatch):
    """The first call of a process would be traced turn by turn, and only that."""
    finder = Finder()
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])

    @gt.function
    def f(x):
        for _ in range(N):
            import wave

            x = x * 0.5 + wave.WAVE_FORMAT_PCM
        return x

    monkeypatch.delitem(sys.modules, "wave", raising=False)
    f(gt.constant(0.5))
    assert finder.asked
    assert "turn by turn" not in f.explain()


def test_a_module_of_the_users_is_not_run_for_a_trial(monkeypatch, tmp_path):
    """What its code does, it does in Python's first turn."""
    (tmp_path / "counting_module.py").write_text("import test_counted\ntest_counted.count += 1.0\n")
    counted = types.ModuleType("test_counted")
    counted.count = 1.0
    monkeypatch.setitem(sys.modules, "test_counted", counted)
    monkeypatch.syspath_prepend(str(tmp_path))

    @gt.function
    def f(x):
        for _ in range(N):
            x = x + counted.count
            import counting_module  # noqa: F401

        return x

    value = f(gt.constant(0.5))
    sys.modules.pop("counting_module", None)
    assert float(value) == 0.5 + 1.0 + 2.0 * (N - 1)


@dataclasses.dataclass
class Pair:
    first: object
    second: object
