"""The short way of a compiled call: how much Python it runs, and that it is taken only by calls of the same signature."""

from __future__ import annotations

import collections
import gc
import sys
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.record import CLOCK
from tests.harness.call_counts import calls_in

X = gt.constant([1.0, 2.0, 3.0])
Y = gt.constant([0.5, 0.25, 4.0])


class Pair(NamedTuple):
    first: Any
    second: Any


def python_calls(run: Any) -> int:
    """How many Python functions one run calls, itself not counted; it runs before until it takes the short way."""
    for _ in range(4):
        run()
    return calls_in(run, "call") - 1


def served(f: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a call that went the short way: no key was made for it."""
    from gradtape.functions.engine import Engine

    def refused(self: Any, *call: Any) -> Any:
        raise AssertionError("the call went the long way")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "call", refused)
        return f(*args, **kwargs)


def ready(body: Any, *args: Any, **kwargs: Any) -> Any:
    """The compiled function after calls with these arguments, so that more of them go the short way."""
    f = gt.function(body)
    for _ in range(3):
        f(*args, **kwargs)
    served(f, *args, **kwargs)
    return f


# -- how much Python runs ----------------------------------------------------------------------------------------------

V = gt.Variable([2.0, 3.0, 4.0])
CALLS = {
    "one tensor": (lambda a: a * a, (X,), {}),
    "two tensors": (lambda a, b: a * b, (X, Y), {}),
    "the same tensor twice": (lambda a, b: a * b, (X, X), {}),
    "tuple": (lambda p: p[0] * p[1], ((X, Y),), {}),
    "named tuple": (lambda p: p.first * p.second, (Pair(X, Y),), {}),
    "dict": (lambda p: p["a"] * p["b"], ({"a": X, "b": Y},), {}),
    "nested": (lambda p, q: p["a"][0] * p["b"]["c"] + q[0], ({"a": [X, Y], "b": {"c": Y}}, (X,)), {}),
    "keyword": (lambda a, b: a * b, (X,), {"b": Y}),
    "keyword only": (lambda a, *, b: a * b, (X,), {"b": Y}),
    "default": (lambda a, n=3.0: a * n, (X,), {}),
    "number": (lambda a, n: a * n, (X, 2.0), {}),
    "text and None": (lambda a, mode, rest: a if mode == "plain" and rest is None else -a, (X, "plain", None), {}),
    "any number": (lambda *parts: parts[0] * parts[1], (X, Y), {}),
    "any names": (lambda **parts: parts["a"] * parts["b"], (), {"a": X, "b": Y}),
    "several results": (lambda a: {"twice": [a + a, (a * a, 3)]}, (X,), {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_runs_little_python(name: str) -> None:
    body, args, kwargs = CALLS[name]
    f = ready(body, *args, **kwargs)
    gt.nest.map_structure(np.testing.assert_array_equal, served(f, *args, **kwargs), body(*args, **kwargs))
    assert python_calls(lambda: f(*args, **kwargs)) <= 2  # the function object and the generated code


def test_a_variable_is_three_calls_more() -> None:
    x, v = (
        gt.constant([1.0, 2.0, 3.0]),
        gt.Variable([2.0, 3.0, 4.0]),
    )
    f = ready(lambda a: a * v, x)
    # one to see that it is still the same, one to read it, one to keep it in mind; where it came from is four more, and counts
    # only while some tape is open that may be asked, be it another test's
    assert python_calls(lambda: f(x)) <= (9 if CLOCK.open else 5)


def test_a_recorded_call_and_its_gradient_run_little_python() -> None:
    x = gt.constant([1.0, 2.0, 3.0])  # what was watched once keeps that in mind: nobody else has it
    f = gt.function(gt.sin)
    structured = gt.function(lambda p: gt.sin(p["a"][0]))

    def chain(step: Any, length: int) -> Any:
        def run() -> Any:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = x
                for _ in range(length):
                    y = step(y)
            return tape.gradient(y, x)

        return run

    for step in (f, lambda y: structured({"a": (y,)})):
        per_call = (python_calls(chain(step, 30)) - python_calls(chain(step, 10))) / 20
        # forward: the function object, generated code, the recorder, orders, attributes, record, the user's frame, shapes;
        # backward: the part of the output, the pull (two), the backward half; two records that are reduced to skeletons
        assert per_call <= 14 + 2 * (step is not f)  # the lambda here, and a check that `gt.sin` is what it was


def test_a_call_with_variables_under_a_tape_goes_the_short_way() -> None:
    f = gt.function(lambda a: a * V)

    def gradient(call: Any) -> Any:
        with gt.GradientTape() as tape:
            y = call(X)
        return tape.gradient(y, V)

    for _ in range(3):
        gradient(f)
    np.testing.assert_array_equal(gradient(lambda x: served(f, x)), X)


# -- only calls of the same signature ----------------------------------------------------------------------------------


def told(*args: Any, **kwargs: Any) -> Any:
    """A function whose result says what it was given: static values become text, so a wrong program shows."""
    leaves = gt.nest.flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, gt.Tensor)]
    return tensors[0] * 1.0, repr([id(x) if isinstance(x, gt.Variable) else x for x in leaves if not isinstance(x, gt.Tensor)])


LIKE = {
    "numbers": [((X, 1), {}), ((X, True), {}), ((X, 1.0), {}), ((X, 2), {})],
    "zeros": [((X, 0.0), {}), ((X, -0.0), {}), ((X, 0), {}), ((X, False), {})],
    "nan": [((X, float("nan")), {}), ((X, float("inf")), {}), ((X, 1.5), {})],
    "text": [((X, "a"), {}), ((X, b"a"), {}), ((X, "b"), {}), ((X, None), {})],
    "structure": [((X, [1]), {}), ((X, (1,)), {}), ((X, [1, 1]), {}), ((X, {"a": 1}), {}), ((X, {"b": 1}), {})],
    "order of keys": [(({"a": X, "b": 1},), {}), (({"b": 1, "a": X},), {}), (({"a": X, 1: 1},), {})],
    "kinds of dict": [(({"a": X},), {}), ((collections.OrderedDict(a=X),), {}), ((Pair(X, 1),), {}), (((X, 1),), {})],
    "keywords": [((X,), {"n": 1}), ((X,), {"m": 1}), ((X, 1), {}), ((X,), {"n": 1, "m": 2}), ((X,), {"m": 2, "n": 1})],
    "objects": [((X, told), {}), ((X, np.sin), {}), ((X, V), {}), ((X, gt.float32), {}), ((X, gt.float64), {})],
}


@pytest.mark.parametrize("name", LIKE)
def test_calls_that_differ_have_programs_of_their_own(name: str) -> None:
    f = gt.function(told, autograph=False)
    for _ in range(4):
        for args, kwargs in LIKE[name]:
            value, text = f(*args, **kwargs)
            expected_value, expected_text = told(*args, **kwargs)
            np.testing.assert_array_equal(value, expected_value)
            assert text == expected_text
    assert f.experimental_get_tracing_count() == len(LIKE[name])


def test_equal_text_that_is_another_object_is_the_same_key() -> None:
    f = ready(lambda p: p["weight"] * 2.0, {"weight": X})
    served(f, {"".join(["wei", "ght"]): X})


def test_arrays_and_tensors_take_the_same_way() -> None:
    f = ready(lambda p: p[0] * p[1], (X, Y))
    np.testing.assert_array_equal(served(f, (X.numpy(), Y)), X * Y)
    np.testing.assert_array_equal(served(f, (X, Y.numpy())), X * Y)
    with pytest.raises(AssertionError, match="long way"):
        served(f, (X.numpy().astype(np.float64), Y))


def test_one_object_given_twice_is_another_call() -> None:
    def changed(a: Any, b: Any) -> Any:
        a[0] = 10.0
        return a + b

    f = gt.function(changed)
    for _ in range(3):
        a, b = gt.constant([1.0, 2.0]), gt.constant([5.0, 6.0])
        np.testing.assert_array_equal(f(a, b), [15.0, 8.0])
        np.testing.assert_array_equal(f(b, b), [20.0, 12.0])
        np.testing.assert_array_equal(a, [10.0, 2.0])


def test_one_list_given_twice_is_another_call() -> None:
    def grown(a: Any, b: Any) -> Any:
        a.append(b[0] * 2.0)
        return b[-1] + 0.0

    f = gt.function(grown)
    for _ in range(4):
        a, b = [X], [Y]
        np.testing.assert_array_equal(f(a, b), Y)
        np.testing.assert_array_equal(a[1], Y * 2.0)
        np.testing.assert_array_equal(f(b, b), Y * 2.0)
        assert len(b) == 2


def test_shapes_that_alternate_keep_their_short_ways() -> None:
    f = gt.function(lambda p: p[0] + 1.0)
    shapes = [gt.constant(np.zeros(n, np.float32)) for n in (1, 2, 3)]
    for _ in range(3):
        for x in shapes:
            f((x,))
    for x in shapes:
        assert served(f, (x,)).shape == x.shape


def test_declared_types_take_the_short_way_too() -> None:
    f = gt.function(lambda a, b: a * b, input_signature=[gt.TensorSpec([None]), gt.TensorSpec([None])])
    for _ in range(3):
        f(X, Y)
    np.testing.assert_array_equal(served(f, X, Y), X * Y)
    np.testing.assert_array_equal(f([1.0, 2.0], [3.0, 4.0]), [3.0, 8.0])
    with pytest.raises(TypeError, match="must have dtype float32"):
        f(X, gt.cast(Y, gt.float64))


def test_effects_happen_once() -> None:
    seen: list[float] = []

    def noted(x: Any) -> Any:
        gt.py_function(lambda v: seen.append(float(v[0])), [x], [])
        return gt.gather(x, gt.cast(x[0], gt.int32))

    f = gt.function(noted)
    for start in range(3):
        f(gt.constant([float(start), 5.0, 7.0]))
    assert served(f, gt.constant([1.0, 5.0, 7.0])).numpy() == 5.0
    assert seen == [0.0, 1.0, 2.0, 1.0]
    with pytest.raises(gt.errors.OpError):
        f(gt.constant([9.0, 5.0, 7.0]))
    assert seen[4:] == [9.0]


def test_wrong_arguments_raise_what_the_function_would_raise() -> None:
    def body(a: Any, b: Any) -> Any:
        return a * b

    f = ready(body, X, Y)
    for args, kwargs in ((X,), {}), ((X, Y, X), {}), ((X, Y), {"c": 1}):
        with pytest.raises(TypeError) as plain:
            body(*args, **kwargs)
        with pytest.raises(TypeError) as compiled:
            f(*args, **kwargs)
        assert str(compiled.value) == str(plain.value)


def test_parameters_may_have_the_names_of_builtins() -> None:
    f = ready(lambda len, tuple, list: len * tuple[0] + list["id"], X, (Y,), {"id": X})
    np.testing.assert_array_equal(served(f, X, (Y,), {"id": X}), X * Y + X)


def test_a_short_way_holds_neither_arguments_nor_objects() -> None:
    class Options:
        scale = 2.0

    options, x = Options(), gt.constant([1.0])
    f = ready(lambda p, how: p["x"] * how.scale, {"x": x}, options)
    seen = weakref.ref(options), weakref.ref(x)
    del options, x
    gc.collect()
    assert [ref() for ref in seen] == [None, None]
    assert f.cache_info().currsize == 0
    assert f._state.cache.short == ()


# -- under tapes -------------------------------------------------------------------------------------------------------


def test_recorded_calls_give_what_eager_code_gives() -> None:
    def body(p: Any, n: Any) -> Any:
        return {"y": gt.sin(p["a"]) * p["b"][0] + n, "z": p["b"][0] ** 2}

    f = gt.function(body)

    def answers(call: Any, watched: Any, persistent: bool) -> Any:
        with gt.GradientTape(persistent=persistent) as tape:
            for source in watched:
                tape.watch(source)
            outs = call({"a": a, "b": (b,)}, 3)
            total = gt.reduce_sum(outs["y"] * outs["z"])
        grads = tape.gradient(total, [a, b])
        return [outs["y"], outs["z"], *grads] + ([tape.gradient(outs["y"], b)] if persistent else [])

    a, b = gt.constant([0.5, 1.0]), gt.constant([2.0, -1.0])
    for _ in range(4):
        for watched in ([a, b], [a], [b], []):
            for persistent in (False, True):
                for mine, eager in zip(answers(f, watched, persistent), answers(body, watched, persistent), strict=True):
                    assert (mine is None) == (eager is None)
                    if mine is not None:
                        np.testing.assert_allclose(mine, eager, rtol=1e-6)


def test_results_keep_in_mind_where_they_came_from() -> None:
    of_tensor, of_variable = gt.function(lambda a: a * 2.0), gt.function(lambda a: a * V)
    x = gt.constant([1.0, 2.0, 3.0])
    for _ in range(4):
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
        line = sys._getframe().f_lineno + 1
        for late in (of_tensor(y), of_variable(y)):
            explanation = tape.explain(late, x)
            assert explanation.cause == "computed_after_the_tape"
            assert explanation.location.endswith(f"test_fast_call.py:{line}")
    del tape
    for _ in range(4):
        early = of_variable(gt.ones(3))
        with gt.GradientTape() as tape:
            y = early * 2.0
        assert tape.explain(y, V).cause == "computed_before_the_tape"
        del tape


def test_nested_tapes_record_the_short_way() -> None:
    f = gt.function(lambda x: x**3)
    x = gt.constant([1.0, 2.0])
    for _ in range(4):
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            slope = inner.gradient(y, x)
        np.testing.assert_allclose(slope, 3.0 * x**2)
        np.testing.assert_allclose(outer.gradient(slope, x), 6.0 * x)


def test_a_recorded_call_names_the_users_line() -> None:
    x = gt.constant([1.0, 2.0, 3.0])
    f = gt.function(lambda p: p[0] * 2.0)
    for _ in range(4):
        with gt.GradientTape() as tape:
            tape.watch(x)
            line = sys._getframe().f_lineno + 1
            y = f((x,))
        record = next(record for record in tape.records if record.op.name == "function")
        assert record.location == (__file__, line)
        del y
