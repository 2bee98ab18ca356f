"""Loops that are staged by trying, and Python code that is not converted: what it draws, takes, counts and writes, it does once
in each turn; what changes nothing does not keep a loop from being staged."""

from __future__ import annotations

import array
import collections
import contextlib
import functools
import io
import itertools
import math
import operator
import random
import re

import numpy as np
import pytest

import gradtape as gt

pytestmark = pytest.mark.usefixtures("reference_backend")
N = 24


class Counter:
    """Counts in every way in which Python asks an object something."""

    def __init__(self):
        self.count = 0.0

    def up(self, *_):
        self.count += 1.0
        return self.count

    def even(self, *_):
        return self.up() % 2 == 0.0

    __next__ = __call__ = __getitem__ = __float__ = __enter__ = up
    __bool__ = __contains__ = even

    def __exit__(self, *_):
        return None

    def __len__(self):
        return int(self.up())

    def __getattr__(self, name):
        if name != "other":
            raise AttributeError(name)
        return self.up()

    @property
    def next(self):
        return self.up()


def counting():
    for number in itertools.count():
        yield float(number)


def managing():
    counter = Counter()

    @contextlib.contextmanager
    def manager():
        yield counter.up()

    return manager


def remembering():
    counter = Counter()
    return functools.lru_cache(1)(lambda turn: counter.up())


def with_manager(manager):
    with manager as number:
        return number


def added(target, value):
    target += value
    return target


def put(target, place, value):
    target[place] = value
    return target


# what is made before the loop, and what a turn takes from it
CHANGING = {
    "random.Random": (lambda: random.Random(3), lambda s, i: s.random()),
    "numpy generator": (lambda: np.random.default_rng(1), lambda s, i: float(s.normal())),
    "numpy shuffle": (lambda: (np.arange(5.0), np.random.RandomState(1)), lambda s, i: (s[1].shuffle(s[0]), s[0][0])[1]),
    "next": (lambda: iter([float(k) for k in range(99)]), lambda s, i: next(s)),
    "__next__": (lambda: itertools.count(), lambda s, i: float(s.__next__())),
    "generator": (counting, lambda s, i: next(s)),
    "send": (counting, lambda s, i: s.send(None)),
    "map": (lambda: map(float, range(99)), lambda s, i: next(s)),
    "list of an iterator": (counting, lambda s, i: sum(list(itertools.islice(s, 3)))),
    "in an iterator": (lambda: iter(range(999)), lambda s, i: float(3 in s)),
    "extended": (counting, lambda s, i: sum(a for a, _ in zip(s, [1, 2, 3], strict=False))),
    "readline": (lambda: io.StringIO("\n".join(map(str, range(99)))), lambda s, i: float(s.readline())),
    "deque": (lambda: collections.deque([float(k) for k in range(99)]), lambda s, i: s.popleft()),
    "bytearray": (lambda: bytearray(range(99)), lambda s, i: float(s.pop())),
    "array": (lambda: array.array("d", range(99)), lambda s, i: s.pop()),
    "memoryview": (lambda: memoryview(bytearray(9)), lambda s, i: float(put(s, 0, s[0] + 1)[0])),
    "numpy item": (lambda: np.zeros(3), lambda s, i: put(s, 0, s[0] + 1.0).sum()),
    "numpy in place": (lambda: np.zeros(3), lambda s, i: added(s, 1.0).sum()),
    "out": (lambda: np.zeros(3), lambda s, i: np.add(s, 1.0, out=s).sum()),
    "out by position": (lambda: np.zeros(3), lambda s, i: np.add(s, 1.0, s).sum()),
    "ndarray.sort": (lambda: np.array([3.0, 1.0]), lambda s, i: (s.sort(), put(s, 1, -s[0])[0])[1]),
    "collections.Counter": (collections.Counter, lambda s, i: (s.update("a"), float(s["a"]))[1]),
    "defaultdict": (lambda: collections.defaultdict(float), lambda s, i: (s[i], float(len(s)))[1]),
    "lru_cache": (remembering, lambda s, i: s(i % 2)),
    "exec": (lambda: {"k": 0.0}, lambda s, i: (exec("k += 1", s), s["k"])[1]),
    "operator.setitem": (lambda: [0.0], lambda s, i: (operator.setitem(s, 0, s[0] + 1.0), s[0])[1]),
    "context manager": (managing, lambda s, i: with_manager(s())),
    "object called": (Counter, lambda s, i: s()),
    "object's method": (Counter, lambda s, i: s.up()),
    "object's next": (Counter, lambda s, i: next(s)),
    "object's item": (Counter, lambda s, i: s[0]),
    "object's attribute": (Counter, lambda s, i: s.other),
    "object's property": (Counter, lambda s, i: s.next),
    "object's float": (Counter, lambda s, i: float(s)),
    "object's length": (Counter, lambda s, i: float(len(s))),
    "object's truth": (Counter, lambda s, i: 1.0 if s else 2.0),
    "object searched": (Counter, lambda s, i: 1.0 if 3 in s else 2.0),
    "object entered": (Counter, lambda s, i: with_manager(s)),
    "reduce": (Counter, lambda s, i: functools.reduce(s.up, [1.0, 2.0, 3.0])),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGING)
def test_a_turn_takes_what_pythons_turn_takes(name):
    make, take = CHANGING[name]

    def f(x):
        state = make()
        for i in range(N):
            x = x * 0.5 + take(state, i)
        return x

    x = gt.constant(0.25, gt.float64)
    np.testing.assert_allclose(gt.function(f)(x), f(x), rtol=1e-12)


def test_an_iterator_is_used_up_by_the_loop_that_goes_over_it():
    def f(x):
        pairs = zip([1.0] * N, [2.0] * N, strict=False)
        for _ in range(3):
            for a, b in pairs:
                x = x + a * b
        return x + len(list(pairs))

    x = gt.constant(0.25, gt.float64)
    np.testing.assert_allclose(gt.function(f)(x), f(x))


def test_an_iterator_that_a_loop_may_leave_early_is_not_used_later():
    @gt.function
    def f(x):
        pairs = zip([1.0] * N, [2.0] * N, strict=False)
        for a, b in pairs:
            x = x + a * b
            if x > 3.0:
                break
        return x + len(list(pairs))

    with pytest.raises(gt.errors.InvalidArgumentError, match=r"how many items the loop in line \d+ took is known only when"):
        f(gt.constant(0.25))


def constant_things(x, i):
    pairs = zip([1.0, 2.0], [3.0, 4.0], strict=True)
    x = x + sum(a * b for a, b in pairs) + math.sqrt(2.0) + float("1.5") * len("abc".upper()) + float(np.sum(np.ones(3)))
    x = x + next(iter([0.5])) + operator.add(1.0, 2.0) + max(map(float, [1, 2])) + np.float64(2.0) + np.exp(1.0)
    with contextlib.nullcontext():
        x = x * gt.cast(i, x.dtype) + functools.reduce(operator.mul, [1.0, 2.0])
    return x + collections.namedtuple("P", "a")(3.0).a


def test_what_changes_nothing_does_not_keep_a_loop_from_being_staged():
    def operations(turns):
        @gt.function
        def f(x):
            for i in range(turns):
                x = constant_things(x, i)
            return x

        with np.errstate(over="ignore"):  # as it would in eager code
            f(gt.constant(0.5))
        return re.search(r"operations: \d+ traced|.*turn by turn.*", f.explain()).group()

    assert operations(N) == operations(2 * N)


def test_explain_names_what_was_called():
    draw = random.Random(1)

    @gt.function
    def f(x):
        for _ in range(N):
            x = x + draw.uniform(0.0, 1.0)
        return x

    with pytest.warns(gt.errors.AutographWarning):
        f(gt.constant(0.5))
    assert "turn by turn: `uniform` is called, which may do and give something else in each turn" in f.explain()
