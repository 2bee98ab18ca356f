"""Iterators and generators from outside gave their first items at every call of a function, without a word.

A program is traced once, so whatever is used up while tracing would be stale. Iterators of any kind that were made outside are
refused with the line, whoever advances them; iterators made inside, and sequences, work as before. Those of a user's class are
objects like any other: what they change is followed. Random numbers and clocks of
Python and NumPy are frozen, as in TensorFlow, with a warning.
"""

from __future__ import annotations

import datetime
import io
import itertools
import os
import queue
import random
import secrets
import time
import warnings

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import AutographWarning, InvalidArgumentError
from tests.corpus.modes import agree


def counting():
    k = 0.0
    while True:
        k += 1.0
        yield k


class Own:
    def __init__(self):
        self.k = 0.0

    def __iter__(self):
        return self

    def __next__(self):
        self.k += 1.0
        if self.k > 5.0:
            raise StopIteration
        return self.k


ITERATORS = {
    "iter": lambda: iter([1.0, 2.0, 3.0]),
    "generator": counting,
    "enumerate": lambda: enumerate([1.0, 2.0]),
    "zip": lambda: zip([1.0], [2.0], strict=True),
    "map": lambda: map(float, [1, 2]),
    "filter": lambda: filter(None, [1.0, 2.0]),
    "reversed": lambda: reversed([1.0, 2.0]),
    "count": lambda: itertools.count(1.0),
    "cycle": lambda: itertools.cycle([1.0, 2.0]),
    "dict": lambda: iter({1.0: 2.0}.items()),
}
USES = {
    "next": lambda it, x: x * np.sum(next(it)),
    "next with a default": lambda it, x: x * np.sum(next(it, 1.0)),
    "for": lambda it, x: [x * np.sum(a) for a in it],
}


def in_a_loop(it, x):
    for a in it:
        x = x * np.sum(a)
        break
    return x


@pytest.mark.parametrize("use", [*USES.values(), in_a_loop], ids=[*USES, "loop"])
@pytest.mark.parametrize("kind", ITERATORS)
def test_an_iterator_from_outside_is_refused_with_the_line(kind, use):
    it = ITERATORS[kind]()
    f = gt.function(lambda x: use(it, x))
    with pytest.raises(
        InvalidArgumentError, match=r"test_11_stale_iterators\.py:\d+: .*an iterator made outside the function"
    ) as refused:
        f(gt.constant(1.0))
    assert type(it).__name__ in str(refused.value)


@pytest.mark.parametrize(
    "consumer", [list, tuple, sum, dict, sorted, lambda it: [*it], lambda it: list(zip(it, it, strict=False))]
)
def test_whoever_uses_it_up(consumer):
    it = iter([(1.0, 2.0)])
    with pytest.raises(InvalidArgumentError, match="an iterator made outside the function"):
        gt.function(lambda x: (consumer(it), x)[1])(gt.constant(1.0))
    assert next(it) == (1.0, 2.0)  # nothing was used up


def test_as_argument_attribute_and_item():
    class Box:
        pass

    box = Box()
    box.it = iter([1.0])
    held = {"it": counting()}
    for f, args in [
        (lambda x, it: x * next(it), (iter([1.0]),)), (lambda x: x * next(box.it), ()), (lambda x: x * next(held["it"]), ()),
    ]:  # fmt: skip
        with pytest.raises(InvalidArgumentError, match="an iterator made outside the function"):
            gt.function(f)(gt.constant(1.0), *args)


def test_one_that_is_not_used_is_no_matter():
    it = iter([1.0])
    f = gt.function(lambda x: x * 2.0 if it is not None else x)
    assert float(f(gt.constant(1.0))) == 2.0


def made_inside(x):
    it = iter([1.0, 2.0, 3.0])
    y = x * next(it)
    for a in it:
        y = gt.sin(y) * a
    gen = (k * 0.5 for k in range(3))
    for i, (a, b) in enumerate(zip(gen, [3.0, 4.0, 5.0], strict=True)):
        y = y + a * b * x * float(i)
    return y + sum(map(float, range(3)))


def test_iterators_made_inside_work():
    agree(made_inside, (0.7,), (-0.3,))


LIST = [1.0, 2.0]


def over_a_list_from_outside(x):
    for a in LIST:
        x = x * a + 0.1
    return x + next(iter(LIST))


def test_sequences_from_outside_work():
    agree(over_a_list_from_outside, (0.7,))


RNG = np.random.default_rng(1)


def filled_queue(kind):
    made = kind()
    for k in range(9):
        made.put(float(k))
    return made


QUEUE, SIMPLE = filled_queue(queue.Queue), filled_queue(queue.SimpleQueue)
FROZEN = {
    "random": lambda: random.random(),
    "uniform": lambda: random.uniform(0.0, 1.0),
    "np.random": lambda: np.random.rand(),
    "generator": lambda: RNG.normal(),
    "time": lambda: time.time(),
    "perf_counter": lambda: time.perf_counter(),
    "monotonic_ns": lambda: float(time.monotonic_ns()),
    "localtime": lambda: float(time.localtime().tm_year),
    "now": lambda: datetime.datetime.now().timestamp(),
    "utc now": lambda: datetime.datetime.now(datetime.UTC).timestamp(),
    "today": lambda: float(datetime.date.today().year),
    "queue": lambda: QUEUE.get(),
    "simple queue": lambda: SIMPLE.get_nowait(),
    "size of a queue": lambda: float(QUEUE.qsize()),
    "environment": lambda: float(os.environ.get("NOT_SET", "1")),
    "getenv": lambda: float(os.getenv("NOT_SET", "1")),
    "urandom": lambda: float(os.urandom(1)[0]),
    "secrets": lambda: float(secrets.randbelow(7)),
}


@pytest.mark.parametrize("name", FROZEN)
def test_what_is_frozen_warns_when_traced(name):
    number = FROZEN[name]
    f = gt.function(lambda x: x + number())
    line = number.__code__.co_firstlineno
    words = (
        r"is called while a gt\.function is traced: every call .* this first one got.*gt\.random.*argument.*gt\.numpy_function"
    )
    with pytest.warns(AutographWarning, match=words) as said:
        f(gt.constant(1.0))
    assert (said[0].filename, said[0].lineno) == (__file__, line)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(gt.constant(1.0))


def test_a_file_from_outside_is_refused():
    file = io.StringIO("1.0\n2.0\n")
    with pytest.raises(InvalidArgumentError, match=r"test_11_stale_iterators\.py:\d+: .*an iterator made outside the function"):
        gt.function(lambda x: x + float(file.readline()))(gt.constant(1.0))


def test_what_is_made_inside_is_not_frozen():
    def f(x):
        made = queue.Queue()
        made.put(2.0)
        return x * made.get() + float(datetime.datetime(2020, 1, 1).year) + float(io.StringIO("3.0").read())

    agree(f, (0.5,))


def test_the_cures_run_at_each_call():
    ticks = itertools.count()

    def tick():
        return float(next(ticks))

    # without tensors among its arguments it ran once, while tracing
    f = gt.function(lambda x, now: x + now + gt.numpy_function(tick, [], gt.TensorSpec([], gt.float32)))
    assert [float(f(gt.constant(1.0), gt.constant(k))) for k in (10.0, 20.0, 30.0)] == [11.0, 22.0, 33.0]


def test_a_generator_made_inside_begins_anew_at_each_call():
    def f(x):
        return x + np.random.default_rng(3).normal()

    agree(f, (0.5,))


@pytest.mark.parametrize("use", [*USES.values(), in_a_loop], ids=[*USES, "loop"])
def test_an_iterator_of_a_users_class_goes_on_where_it_was(use):
    """It was refused as well: its items were those of the first call."""
    plain, followed = Own(), Own()
    f = gt.function(lambda x: use(followed, x))
    for value in (1.0, 2.0, 3.0):
        x = gt.constant(value)
        got, want = f(x), use(plain, x)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
        assert followed.k == plain.k
