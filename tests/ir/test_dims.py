"""Symbolic dimensions against the integers they stand for."""

import copy
import operator
import pickle
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from gradtape.errors import OpError, StaticDimensionNeeded
from gradtape.ir.dims import Constraint, Dim, dims_in, fresh_symbol, match, maximum, minimum, substitute, symbol, symbols_in
from gradtape.ir.polynomial import bounds, evaluate
from gradtape.ir.types import ListSpec, TensorShape, TensorSpec
from tests.harness.program_parser import parse_dim

n, m, k = symbol("n"), symbol("m"), symbol("k")
ENVS = [
    {"n": a, "m": b, "k": c} for a, b, c in ((0, 0, 0), (1, 1, 1), (2, 3, 5), (7, 4, 1), (12, 5, 30), (100, 99, 98), (0, 8, 3))
]

OPERATORS = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, maximum, minimum)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> tuple[Any, Any]:
    """A dimension, and a function of an environment that computes the same with ints."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        if draw(st.booleans()):
            value = draw(st.integers(-4, 9))
            return value, lambda env: value
        name = draw(st.sampled_from("nmk"))
        return symbol(name), lambda env: env[name]
    op = draw(st.sampled_from(OPERATORS))
    left, left_value = draw(expressions(depth - 1))
    right, right_value = draw(expressions(depth - 1))
    if op in (operator.floordiv, operator.mod) and right == 0:
        return left, left_value
    plain = {maximum: max, minimum: min}.get(op, op)
    return op(left, right), lambda env: plain(left_value(env), right_value(env))


@hypothesis.given(expressions())
@hypothesis.settings(max_examples=400, deadline=None)
def test_arithmetic_is_that_of_integers(pair: tuple[Any, Any]) -> None:
    dim, value = pair
    for env in ENVS:
        try:
            expected = value(env)
        except ZeroDivisionError:
            continue
        try:
            found = evaluate(dim, env)
        except ZeroDivisionError:  # a canonical form may keep a division that the sum around it multiplies by 0
            continue
        assert found == expected
        low, high = bounds(dim)
        assert low is None or low <= expected
        assert high is None or expected <= high


@hypothesis.given(expressions())
@hypothesis.settings(max_examples=200, deadline=None)
def test_text_comes_back(pair: tuple[Any, Any]) -> None:
    dim, _ = pair
    assert parse_dim(str(dim)) == dim
    assert hash(parse_dim(str(dim))) == hash(dim)


@hypothesis.given(expressions(), expressions())
@hypothesis.settings(max_examples=200, deadline=None)
def test_equal_means_equal_for_all_sizes(a: tuple[Any, Any], b: tuple[Any, Any]) -> None:
    assert (a[0] + b[0]) - b[0] == a[0]
    assert a[0] * b[0] == b[0] * a[0]
    assert (a[0] + b[0]) * (a[0] - b[0]) == a[0] * a[0] - b[0] * b[0]
    if b[0] != 0:
        assert (a[0] * b[0]) // b[0] == a[0]


def test_canonical_forms() -> None:
    assert str(2 * n + 1) == "2*n+1"
    assert n - n == 0
    assert type(n - n) is int
    assert (6 * n + 4) // 2 == 3 * n + 2
    assert (2 * n + 1) // 2 == n
    assert (4 * n + 3) % 2 == 1
    assert (n * m * 3) // (m * n) == 3
    assert (n * n - 1) // (n - 1) == n + 1
    assert str(n - m) == "n-m"
    assert str(1 - (n + 1) // 2) == "1-((n+1)//2)"
    assert str(3 * (n // 2)) == "3*(n//2)"
    assert maximum(n, 0) == n
    assert maximum(n + 2, n) == n + 2
    assert minimum(3, n + 5) == 3
    assert str(maximum(n - 1, 0)) == "max(n-1,0)"
    assert maximum(maximum(n - 1, 0), 0) == maximum(0, n - 1)
    assert n**3 == n * n * n
    assert np.int64(2) * n == 2 * n
    assert TensorSpec((n, 3, m), "float32").size == 3 * n * m


def test_equality_is_structural() -> None:
    assert n == symbol("n")
    assert n != m
    assert n != 3
    assert {2 * n + 1, 1 + n + n} == {2 * n + 1}
    for again in (copy.deepcopy(2 * n + 1), pickle.loads(pickle.dumps(2 * n + 1))):
        assert again == 2 * n + 1


def test_order_where_it_always_holds() -> None:
    assert n >= 0
    assert n + 1 > 0
    assert n < n + 2 * m + 1
    assert n + 1 > n
    assert not n + 1 <= n
    with pytest.raises(StaticDimensionNeeded, match="n > 3"):
        _ = n > 3


@pytest.mark.parametrize("use", [int, bool, float, range, operator.index, lambda d: np.zeros((d,)), lambda d: [0][d]])
def test_python_cannot_have_the_value(use: Any) -> None:
    with pytest.raises(StaticDimensionNeeded, match=r"the dimension 2\*n is known only when the function runs"):
        use(2 * n)
    assert issubclass(StaticDimensionNeeded, TypeError)
    assert issubclass(StaticDimensionNeeded, OpError)


def test_fresh_symbols_differ() -> None:
    found = [fresh_symbol("rows") for _ in range(5)]
    assert len(set(found)) == 5
    assert found[1].name.startswith("rows_")
    assert fresh_symbol("x.y 1").name.isidentifier()


def test_other_operands_are_refused_in_words() -> None:
    with pytest.raises(TypeError):
        n + "a"
    with pytest.raises(TypeError):
        _ = n < "a"
    with pytest.raises(ZeroDivisionError):
        n // 0


def test_substitution_in_types_and_attributes() -> None:
    thing = {"shape": (n, 3), "key": (slice(1, n - 1), None), "type": ListSpec(TensorSpec((n, m), "int32"))}
    assert symbols_in(thing) == {"n", "m"}
    assert set(dims_in(thing)) == {n, m, n - 1}
    found = substitute(thing, {"n": 5, "m": 2 * k})
    assert found == {"shape": (5, 3), "key": (slice(1, 4), None), "type": ListSpec(TensorSpec((5, 2 * k), "int32"))}
    assert type(substitute(TensorShape((n,)), {"n": 2})) is TensorShape
    assert n.evaluate({}) == n
    assert (n // 2).evaluate({"n": 4 * m}) == 2 * m


def test_matching_types() -> None:
    env: dict[str, Any] = {}
    match(ListSpec(TensorSpec((n, 3, 2 * k), "int32")), ListSpec(TensorSpec((m + 1, 3, 8), "int32")), env)
    assert env == {"n": m + 1}


def test_constraints() -> None:
    assert Constraint(n, 2 * m).holds({"n": 4, "m": 2})
    assert not Constraint(n, 3).holds({"n": 4})
    assert str(Constraint(n, 2 * m)) == "n == 2*m"
    assert isinstance(Constraint(n, 3).left, Dim)
