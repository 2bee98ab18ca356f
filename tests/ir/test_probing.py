"""Type rules on symbolic shapes, found by probing, agree with the rules on concrete ones."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradtape.core.opdef import Op
from gradtape.errors import InvalidArgumentError
from gradtape.ir import dims
from gradtape.ir.dims import Constraint, infer_by_probing, maximum, minimum, substitute, symbol
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.verify import fits
from gradtape.ops.list_values import item_spec
from gradtape.ops.registry import op_by_name
from tests.harness.cases import Case, all_cases
from tests.harness.spy import spied
from tests.ir.programs import spec

n, m, k, j = map(symbol, "nmkj")


def infer(name: str, *types: Any, **attrs: Any) -> tuple[Any, tuple[Constraint, ...]]:
    return infer_by_probing(op_by_name(name), types, attrs)


def rule(infer: Any) -> Op:
    return Op("rule", "nondiff", ("*x",), lambda *x: None, infer)


def answers(case: Case) -> Iterator[tuple[str, Any, Any, tuple[Constraint, ...]]]:
    """Each primitive call of a case, with each axis of each operand symbolic in turn: found, expected, constraints."""
    for call in spied(case)[1]:
        types = [item_spec(np.float64(x) if isinstance(x, float) else x) for x in call.inputs]  # 0.0 stands for other ranks
        expected = call.op.infer(*types, **call.attrs)
        for place, type in enumerate(types):
            for axis, size in enumerate(type.shape):
                shape = [n if i == axis else other for i, other in enumerate(type.shape)]
                symbolic = [TensorSpec(shape, type.dtype) if i == place else other for i, other in enumerate(types)]
                found, constraints = infer_by_probing(call.op, symbolic, call.attrs)
                if all(c.holds({"n": size}) for c in constraints):
                    yield call.op.name, substitute(found, {"n": size}), expected, constraints
                elif call.op.name != "conv":  # a kernel must fit into what it slides over: no equation
                    assert size == 1, (call.op, symbolic, constraints)  # 1 broadcasts to anything, but n is not known to be 1


@pytest.mark.parametrize("owner", sorted({case.name for case in all_cases()}))
def test_every_rule_of_every_op(owner: str) -> None:
    for case in all_cases():
        if case.name != owner or case.fails:
            continue
        for name, found, expected, _ in answers(case):
            pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
            for own, other in pairs:
                assert fits(own, other), (name, own, other)


@pytest.mark.parametrize(
    ("shapes", "result", "constraints"),
    [
        ([(n,), (n,)], (n,), []),
        ([(n,), ()], (n,), []),
        ([(n, 1), (1, m)], (n, m), []),
        ([(n,), (m,)], (n,), [Constraint(m, n)]),
        ([(n,), (3,)], (3,), [Constraint(n, 3)]),
        ([(3,), (n,)], (3,), [Constraint(n, 3)]),
        ([(n, 1), (m, 4)], (n, 4), [Constraint(m, n)]),
        ([(2 * n,), (m,)], (2 * n,), [Constraint(m, 2 * n)]),
        ([(n + 1,), (m + 1,)], (n + 1,), [Constraint(m + 1, n + 1)]),
        ([(n, m, 5), (k, j, 1)], (n, m, 5), [Constraint(j, m), Constraint(k, n)]),
        ([(n, m), (m, n)], (n, n), [Constraint(m, n)]),
        ([(n // 2,), (m,)], (n // 2,), [Constraint(m, n // 2)]),
    ],
)
def test_broadcasting(shapes: Any, result: Any, constraints: Any) -> None:
    found, needed = infer("multiply", *(spec(*shape) for shape in shapes))
    assert found.shape == result
    assert list(needed) == constraints


def test_impossible_equations_are_the_rules_own_error() -> None:
    with pytest.raises(InvalidArgumentError, match=r"shapes \(n,\) and \(n\+1,\) do not broadcast"):
        infer("multiply", spec(n), spec(n + 1))
    with pytest.raises(InvalidArgumentError, match="do not broadcast"):
        infer("multiply", spec(n, 2), spec(n, 3))


@pytest.mark.parametrize(
    ("key", "size"),
    [
        ((slice(None, 5),), minimum(n, 5)),
        ((slice(1, None),), maximum(n - 1, 0)),
        ((slice(None, -1),), maximum(n - 1, 0)),
        ((slice(2, 5),), maximum(minimum(n, 5) - 2, 0)),
        ((slice(None, None, 2),), (n + 1) // 2),
        ((slice(1, None, 3),), (n + 1) // 3),
        ((slice(None, None, -1),), n),
        ((slice(-3, None),), minimum(n, 3)),
        ((slice(1, n - 1),), maximum(n - 2, 0)),
        ((slice(m, None),), maximum(n - m, 0)),
        ((slice(None, m),), minimum(m, n)),
        ((slice(0, n, 2),), (n + 1) // 2),
    ],
    ids=str,
)
def test_slices(key: Any, size: Any) -> None:
    found, needed = infer("getitem", spec(n, 3), key=key)
    assert found == spec(size, 3)
    assert needed == ()
    for a, b in ((0, 0), (1, 0), (2, 5), (3, 1), (6, 4), (7, 7), (40, 11)):
        env = {"n": a, "m": b}
        concrete, _ = infer("getitem", spec(a, 3), key=substitute(key, env))
        assert concrete == substitute(found, env)


def test_other_forms() -> None:
    assert infer("concat", spec(n, 2), spec(m, 2), spec(3, 2), axis=0)[0] == spec(n + m + 3, 2)
    assert infer("stack", spec(n, 2), spec(n, 2), axis=0)[0] == spec(2, n, 2)
    assert infer("reduce_sum", spec(n, m), axis=(0,), keepdims=False)[0] == spec(m)
    assert infer("transpose", spec(n, m, 2), perm=(2, 0, 1))[0] == spec(2, n, m)
    assert infer("pad_zeros", spec(n), paddings=((1, 2),))[0] == spec(n + 3)
    assert infer("reshape", spec(n, 3), shape=(3 * n,))[0] == spec(3 * n)
    assert infer("reshape", spec(n), shape=(n // 3, 3))[0] == spec(n // 3, 3)
    assert infer("filled", shape=(n, 2 * n + 1), dtype=spec().dtype, value=0.0)[0] == spec(n, 2 * n + 1)


def test_products_and_divisions() -> None:
    outer = rule(lambda x, y: TensorSpec((x.shape[0] * y.shape[0] * 2, x.shape[0] + 2 * y.shape[0] - 1), x.dtype))
    assert infer_by_probing(outer, [spec(n), spec(m)], {})[0] == spec(2 * n * m, n + 2 * m - 1)
    windows = rule(lambda x, *, size, stride: TensorSpec(((x.shape[0] - size) // stride + 1,), x.dtype))
    assert infer_by_probing(windows, [spec(n)], {"size": 5, "stride": 3})[0] == spec((n - 5) // 3 + 1)


def test_constraints_on_whole_sizes_and_divisibility() -> None:
    def checked(x: TensorSpec, *, shape: tuple[int, ...]) -> TensorSpec:
        if TensorSpec(shape, x.dtype).size != x.size:
            raise InvalidArgumentError("sizes differ")
        return TensorSpec(shape, x.dtype)

    assert infer_by_probing(rule(checked), [spec(n)], {"shape": (m, 3)}) == (spec(m, 3), (Constraint(n, 3 * m),))
    assert infer_by_probing(rule(checked), [spec(n, 3)], {"shape": (3 * n,)}) == (spec(3 * n), ())
    found, (constraint,) = infer_by_probing(rule(checked), [spec(n)], {"shape": (n // 4, 4)})
    assert found == spec(n // 4, 4)
    assert [constraint.holds({"n": size}) for size in (8, 9)] == [True, False]


def test_what_only_run_time_knows_stays_unknown() -> None:
    unknown = rule(lambda x: TensorSpec((None, x.shape[0]), x.dtype))
    assert infer_by_probing(unknown, [spec(n)], {})[0] == TensorSpec((None, n), "float32")
    odd = rule(lambda x: TensorSpec((bin(x.shape[0]).count("1"),), x.dtype))  # no form we know
    assert infer_by_probing(odd, [spec(n)], {})[0] == TensorSpec((None,), "float32")


def test_several_results_and_lists() -> None:
    both = rule(lambda x: (TensorSpec(x.shape, x.dtype), ListSpec(TensorSpec(x.shape[1:], x.dtype))))
    assert infer_by_probing(both, [spec(3, n)], {})[0] == (spec(3, n), ListSpec(spec(n)))
    assert infer_by_probing(rule(lambda x: ()), [spec(n)], {})[0] == ()
    items = rule(lambda x: x.item)
    assert infer_by_probing(items, [ListSpec(spec(n))], {})[0] == spec(n)


def test_static_types_go_straight_to_the_rule() -> None:
    calls = []

    def asked(x: TensorSpec) -> TensorSpec:
        calls.append(x)
        return x

    infer_by_probing(rule(asked), [spec(3)], {})
    assert calls == [spec(3)]


def test_answers_are_remembered_and_kept_apart() -> None:
    op = rule(lambda x, *, value: TensorSpec(x.shape, "float32" if isinstance(value, float) else "int32"))
    for value, name in ((1, "int32"), (1.0, "float32"), (True, "int32"), (1, "int32")):
        assert infer_by_probing(op, [spec(n)], {"value": value})[0].dtype.name == name
    before = dims._in_general.cache_info().misses
    # whatever a size is called and made of, the question is the same
    for size in (n, m, 2 * n + 1, maximum(n - m, 0)):
        assert infer_by_probing(op, [spec(size)], {"value": 1})[0] == TensorSpec((size,), "int32")
    assert dims._in_general.cache_info().misses == before


def test_questions_in_other_symbols_are_one_question() -> None:
    checked = rule(lambda x, *, shape: TensorSpec(shape, "float32"))
    infer_by_probing(checked, [spec(n)], {"shape": (n, m, 3)})
    before = dims._remembered.cache_info().misses
    p, q = symbol("p"), symbol("q")
    assert infer_by_probing(checked, [spec(q)], {"shape": (q, p, 3)}) == (spec(q, p, 3), ())
    assert dims._remembered.cache_info().misses == before


def test_names_of_symbols_do_not_matter() -> None:
    """Sizes for the symbols were taken in the order of their names, and n + m - k was negative for some of them."""
    for names in itertools.permutations("abcde"):
        a, b, c, d, e = map(symbol, names)
        found, constraints = infer("add", spec(b + c - a), spec(b + e - d))
        assert found in (spec(b + c - a), spec(b + e - d))
        assert [set(constraint) for constraint in constraints] == [{b + c - a, b + e - d}], names


def test_answers_for_any_sizes_are_as_short_as_those_for_the_sizes_at_hand() -> None:
    after = rule(lambda x: TensorSpec((max(x.shape[0] - 1, 0), min(x.shape[0], 5)), "float32"))
    assert infer_by_probing(after, [spec(n)], {})[0] == spec(maximum(n - 1, 0), minimum(n, 5))
    assert infer_by_probing(after, [spec(n + 1)], {})[0] == spec(n, minimum(n + 1, 5))
    assert infer_by_probing(after, [spec(n + 7)], {})[0] == spec(n + 6, 5)
