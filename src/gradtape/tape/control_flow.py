"""TensorFlow's control-flow functions, run eagerly: Python decides, the tape records what ran.

Structures of tensors go in and out as `gradtape.tree` sees them. `parallel_iterations`, `swap_memory` and `infer_shape`
are accepted and change nothing; `back_prop=False` makes the results constants for derivatives, as TensorFlow documents it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradtape import tree
from gradtape.core.arguments import function_of
from gradtape.core.dispatch import convert, promote
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import DTypeLike, Integer, TensorLike
from gradtape.errors import InvalidArgumentError, OpError
from gradtape.functions.staging.branches import is_staged, valued
from gradtape.functions.staging.staged_control import (
    NONE_TRUE,
    SEVERAL_TRUE,
    staged_case,
    staged_cond,
    staged_fold,
    staged_map,
    staged_over,
    staged_switch,
    staged_while,
    tried_while,
)
from gradtape.ir.types import TensorShape, TensorSpec
from gradtape.ops.create import zeros
from gradtape.ops.elementwise import cast
from gradtape.ops.shape import stack, unstack
from gradtape.ops.stop import stop_gradient
from gradtape.surface.misc import truth
from gradtape.tape.tensor_array import TensorArray
from gradtape.trace.effects import converted
from gradtape.tree import Structure
from gradtape.variables.indexed_slices import IndexedSlices

Branches: TypeAlias = Mapping[int, Callable[[], Any]] | Sequence[Callable[[], Any]] | Sequence[tuple[int, Callable[[], Any]]]
FEW = 8  # iterations of a `while_loop` that Python decides: then it is tried as a loop of the program

# -- branches --------------------------------------------------------------------------------------------------------


def cond(
    pred: TensorLike, true_fn: Callable[[], Any] | None = None, false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """`true_fn()` if the scalar `pred` is true, else `false_fn()`.

    >>> x = gt.Variable(3.0)
    >>> with gt.GradientTape() as tape:
    ...     y = gt.cond(x > 0, lambda: x * x, lambda: -x)
    >>> tape.gradient(y, x).numpy()
    np.float32(6.0)
    """
    true_fn, false_fn = function_of(true_fn, "true_fn", "cond"), function_of(false_fn, "false_fn", "cond")
    # a variable is asked by its value
    if is_staged(pred := valued(pred)):
        return staged_cond(pred, true_fn, false_fn)
    true_fn, false_fn = converted(true_fn), converted(false_fn)
    return true_fn() if truth(pred, "cond") else false_fn()


def case(
    pred_fn_pairs: Mapping[Any, Callable[[], Any]] | Iterable[tuple[Any, Callable[[], Any]]],
    default: Callable[[], Any] | None = None, exclusive: bool = False, strict: bool = False, name: str = "case",
) -> Any:  # fmt: skip
    """The result of the first function whose predicate is true, or of `default`.

    Args:
        pred_fn_pairs: list of (scalar predicate, function) pairs, or a dict.
        exclusive: check that not more than one predicate is true.
        strict: keep a list or tuple of one result as it is; otherwise it is unpacked.

    >>> x = gt.constant(5)
    >>> gt.case([(x < 3, lambda: gt.constant("low")), (x < 8, lambda: gt.constant("middle"))]).numpy()
    b'middle'
    """
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, Mapping) else list(pred_fn_pairs)
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"case: pred_fn_pairs must hold (predicate, function) pairs, got {pair!r}")
        function_of(pair[1], "each branch", "case")
    if default is not None:
        function_of(default, "default", "case")
    if any(is_staged(valued(pair[0])) for pair in pairs):
        return _unwrapped(staged_case(pairs, default, exclusive), strict)
    # (of exclusive ones all are asked: that a second one is true is an error)
    chosen = [function for predicate, function in _until_true(pairs, exclusive)]
    if len(chosen) > 1:
        raise InvalidArgumentError(SEVERAL_TRUE)
    if chosen:
        return _unwrapped(chosen[0](), strict)
    if default is None:
        raise InvalidArgumentError(NONE_TRUE)
    return _unwrapped(default(), strict)


def _unwrapped(result: Structure, strict: bool) -> Any:
    """TensorFlow's `case` takes a list of one result apart unless it is strict."""
    if not strict and isinstance(result, (list, tuple)) and len(result) == 1:
        return result[0]
    return result


def _until_true(pairs: list[Any], all_of_them: bool) -> list[Any]:
    chosen = []
    for pair in pairs:
        if truth(pair[0], "case"):
            chosen.append(pair)
            if not all_of_them:
                break
    return chosen


def switch_case(
    branch_index: Integer, branch_fns: Branches, default: Callable[[], Any] | None = None, name: str = "switch_case"
) -> Any:
    """`branch_fns[branch_index]()`; an index without a branch runs `default`, or the last branch if there is none.

    Args:
        branch_index: an integer, Python's or a scalar tensor.
        branch_fns: a list of functions, a list of (int, function) pairs, or a dict from int to function.

    >>> gt.switch_case(gt.constant(1), [lambda: gt.constant(10), lambda: gt.constant(20)]).numpy()
    np.int32(20)
    """
    index = valued(branch_index.read() if isinstance(branch_index, Readable) else branch_index)
    if is_staged(index):
        functions = _branches(branch_fns)
        return staged_switch(index, functions, default or functions[max(functions)])
    try:
        place = int(index.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"switch_case: branch_index must be a scalar integer, got {index!r}") from None
    table = _branches(branch_fns)
    if default is not None:
        function_of(default, "default", "switch_case")
    if place in table:
        return table[place]()
    return (default or table[max(table)])()


def _branches(branch_fns: Branches) -> dict[int, Callable[[], Any]]:
    if isinstance(branch_fns, Mapping):
        pairs = list(branch_fns.items())
    else:
        pairs = [entry if isinstance(entry, tuple) else (i, entry) for i, entry in enumerate(branch_fns)]
    if not pairs:
        raise ValueError("switch_case: branch_fns is empty")
    for pair in pairs:
        if len(pair) != 2 or not isinstance(pair[0], int):
            raise TypeError(f"switch_case: branch_fns must hold functions or (int, function) pairs, got {pair!r}")
        function_of(pair[1], f"branch {pair[0]}", "switch_case")
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError(f"switch_case: a key is repeated in {[key for key, _ in pairs]}")
    return table


# -- loops -----------------------------------------------------------------------------------------------------------


def while_loop(
    cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Sequence[Any], shape_invariants: Structure = None,
    parallel_iterations: int = 10, back_prop: bool = True, swap_memory: bool = False, maximum_iterations: Integer | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """Run `loop_vars = body(*loop_vars)` while `cond(*loop_vars)` is true; returns the last loop variables.

    Args:
        loop_vars: list or tuple of tensors and structures of tensors; the result is arranged like it.
        shape_invariants: shapes, arranged like `loop_vars`, that every iteration must respect.
        back_prop: False makes the results constants for derivatives.
        maximum_iterations: stop after so many iterations even if `cond` is still true.

    Raises:
        ValueError: when `body` returns another structure than it received.

    >>> i, total = gt.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + i), (0, 0))
    >>> i.numpy(), total.numpy()
    (np.int32(4), np.int32(6))
    """
    function_of(cond, "cond", "while_loop")
    function_of(body, "body", "while_loop")
    if not isinstance(loop_vars, (list, tuple)) or not loop_vars:
        raise ValueError("while_loop: loop_vars must be a list or tuple with at least one entry")
    limit = None if maximum_iterations is None else int(maximum_iterations)  # variables count too
    shapes = None if shape_invariants is None else _invariants(shape_invariants, loop_vars)
    state: Any = tree.map_structure(_loop_value, list(loop_vars))
    done = 0
    cond, body = converted(cond), converted(body)
    while limit is None or done < limit:
        going = cond(*state)
        if is_staged(going := valued(going)):
            state = staged_while(cond, body, state, going, None if limit is None else limit - done)
            break
        if not truth(going, "while_loop"):
            break
        # a few turns run in Python first: short loops stay as they are written, and of longer ones the types have settled
        if done == FEW and shapes is None:
            rest = tried_while(cond, body, state, None if limit is None else limit - done)
            if rest is not None:
                state = rest
                break
        result = body(*state)
        if not isinstance(result, (list, tuple)):
            result = [result]
        # said for the turn in which it happens, before the next one fails with less to say
        _same(list(state), list(result), "while_loop", f"iteration {done + 1} of body")
        state = list(result)
        if shapes is not None:
            _check_invariants(shapes, state)
        done += 1
    # body may have given Python numbers: the result is tensors however many turns there were
    state = tree.map_structure(_loop_value, state)
    if not back_prop:
        state = _constants(state)
    return tree.pack_sequence_as(loop_vars, tree.flatten(state))


def _loop_value(value: object) -> Any:
    """Numbers and arrays become tensors; tensors, variables read, TensorArrays and other objects stay."""
    if isinstance(value, (IndexedSlices, TensorArray, Tensor)):
        return value
    if isinstance(value, (Readable, bool, int, float, complex, str, np.ndarray, np.generic)):
        return convert(value)
    return value


def _invariants(shape_invariants: Structure, loop_vars: Sequence[Any]) -> list[TensorShape]:
    if isinstance(shape_invariants, (TensorShape, TensorSpec)):
        shape_invariants = [shape_invariants]
    given = [s.shape if isinstance(s, TensorSpec) else TensorShape(s) for s in _shapes_in(shape_invariants)]
    wanted = len(tree.flatten(list(loop_vars)))
    if len(given) != wanted:
        raise ValueError(f"while_loop: shape_invariants has {len(given)} shapes for {wanted} loop variables")
    return given


def _shapes_in(structure: Structure) -> list[Any]:
    """The shapes of a nested structure: a TensorShape, a spec, None, or a list of ints and None."""
    if structure is None or isinstance(structure, (TensorShape, TensorSpec)):
        return [structure]
    if not tree.is_nested(structure):
        raise TypeError(
            f"while_loop: shape_invariants has {structure!r} where a shape belongs: give a TensorShape, a list of sizes "
            "(None where a size changes), or None"
        )
    children = tree.children(structure)
    # [2, None] is one shape; [[2], None] are two
    if children and all(child is None or isinstance(child, int) for child in children):
        return [structure]
    return [shape for child in children for shape in _shapes_in(child)]


def _check_invariants(shapes: list[TensorShape], state: Structure) -> None:
    for place, (shape, value) in enumerate(zip(shapes, tree.flatten(state), strict=True)):
        if isinstance(value, (Tensor, Readable)) and not shape.is_compatible_with(convert(value).shape):
            raise ValueError(
                f"while_loop: loop variable {place} has shape {tuple(convert(value).shape)}, which its shape invariant "
                f"{shape} does not allow"
            )


def _same(before: Structure, after: Structure, op: str, what: str) -> None:
    try:
        tree.assert_same_structure(before, after)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{op}: {what} returned another structure than it was given: {error}") from None


def _constants(structure: Structure) -> Any:
    return tree.map_structure(lambda v: stop_gradient(v) if isinstance(v, (Tensor, Readable)) else v, structure)


# -- over the rows of tensors ----------------------------------------------------------------------------------------


def _rows(elems: Structure, op: str) -> list[Any]:
    """The structure cut along the first axis: one structure per row."""
    flat = [convert(e) for e in tree.flatten(elems)]
    if not flat:
        raise ValueError(f"{op}: elems holds no tensors")
    if isinstance(elems, (list, tuple)) and len(flat) == len(elems) and all(t.ndim == 0 for t in flat):
        return list(promote(*flat))  # a plain list of numbers is one tensor
    if any(t.ndim == 0 for t in flat):
        raise ValueError(f"{op}: elems must have at least one axis; got a scalar")
    counts = [int(t.shape[0]) for t in flat]
    if len(set(counts)) != 1:
        raise InvalidArgumentError(f"{op}: the tensors in elems have {counts} rows: they must have as many each")
    columns = [unstack(t) for t in flat]
    return [tree.pack_sequence_as(elems, row) for row in zip(*columns, strict=True)]


def _stacked(results: list[Any]) -> Any:
    columns = zip(*(tree.flatten(r) for r in results), strict=True)
    return tree.pack_sequence_as(results[0], [stack(list(column)) for column in columns])


def map_fn(
    fn: Callable[..., Any], elems: Structure, dtype: Structure = None, parallel_iterations: int | None = None,
    back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True, name: str | None = None,
    fn_output_signature: Structure = None,
) -> Any:  # fmt: skip
    """`fn` applied to each row of `elems`; the results are stacked.

    Args:
        fn: takes one structure like `elems`, without the first axis; may return another structure.
        fn_output_signature: dtype or TensorSpec of the results (any structure); needed only when `elems` is empty.

    >>> gt.map_fn(lambda p: p[0] * p[1], (gt.constant([1.0, 2.0]), gt.constant([3.0, 4.0]))).numpy()
    array([3., 8.], dtype=float32)
    """
    function_of(fn, "fn", "map_fn")
    signature = fn_output_signature if fn_output_signature is not None else dtype
    # (a tuple around it: None says that Python is to do it, and a function may give None)
    mapped = staged_over(elems, fn, lambda: staged_map(fn, elems), may_try=signature is None)
    if mapped is not None:
        return mapped[0] if back_prop else _constants(mapped[0])
    fn = converted(fn)
    rows = _rows(elems, "map_fn")
    if not rows:
        return _empty_result(signature, fn, elems)
    results: list[Any] = []
    for place, row in enumerate(rows):
        result = tree.map_structure(convert, fn(row))
        if results:
            _same(results[0], result, "map_fn", f"fn for row {place}")
        results.append(result if signature is None else _conform(result, signature))
    out = _stacked(results)
    return out if back_prop else _constants(out)


def _empty_result(signature: Structure, fn: Callable[..., Any], elems: Structure) -> Any:
    """What the mapping of no rows gives: types from the signature, or of `fn`, traced for a row that is not there."""
    if not _is_complete(signature):
        from gradtape.functions.function import function

        row = tree.map_structure(lambda t: TensorSpec(convert(t).shape[1:], convert(t).dtype), elems)
        try:
            # traced, not run: with no rows there is nothing fn could be given
            signature = function(lambda r: tree.map_structure(convert, fn(r))).get_concrete_function(row).structured_outputs
        except (OpError, ValueError, TypeError) as error:
            raise _unknown_result() from error
        if not _is_complete(signature):
            raise _unknown_result()
    specs = tree.flatten(signature)
    return tree.pack_sequence_as(signature, [zeros((0, *s.shape), s.dtype) for s in specs])


def _is_complete(signature: Structure) -> bool:
    specs = tree.flatten(signature)
    return signature is not None and all(isinstance(s, TensorSpec) and s.shape.is_fully_defined() for s in specs)


def _unknown_result() -> InvalidArgumentError:
    return InvalidArgumentError(
        "map_fn: elems has no rows, so fn cannot run and the shape of its result is not known; "
        "give fn_output_signature=gt.TensorSpec(shape, dtype)"
    )


def _conform(result: Structure, signature: Structure) -> Any:
    _same(signature, result, "map_fn", "fn (compared with fn_output_signature)")
    return tree.map_structure(_conform_leaf, result, signature, check_types=False)


def _conform_leaf(value: Tensor, spec: TensorSpec | DTypeLike) -> Any:
    wanted = spec.dtype if isinstance(spec, TensorSpec) else spec
    if isinstance(spec, TensorSpec) and not spec.shape.is_compatible_with(value.shape):
        raise InvalidArgumentError(f"map_fn: fn returned shape {tuple(value.shape)}, the signature says {spec.shape}")
    if value.dtype != wanted:
        raise InvalidArgumentError(
            f"map_fn: fn returned dtype {value.dtype.name}, the signature says {cast(0, wanted).dtype.name}; "
            "cast the result in fn"
        )
    return value


def _fold(
    fn: Callable[..., Any], elems: Structure, initializer: Structure, op: str, backwards: bool
) -> tuple[list[Any], list[Any]]:
    """All accumulated values in the order they were made, and the structure they share."""
    function_of(fn, "fn", op)
    fn = converted(fn)
    rows = _rows(elems, op)
    if backwards:
        rows.reverse()
    if initializer is None:
        if not rows:
            raise InvalidArgumentError(f"{op}: elems has no rows and there is no initializer to return")
        start, rest, states = rows[0], rows[1:], [rows[0]]
    else:
        start, rest, states = tree.map_structure(convert, initializer), rows, []
    state = start
    for row in rest:
        result = tree.map_structure(convert, fn(state, row))
        _same(start, result, op, "fn")
        state = result
        states.append(state)
    return states, [state]


def _staged_fold(fn: Any, elems: Any, initializer: Any, backwards: bool, every: bool) -> tuple[Any] | None:
    """A fold as one loop of the program; None if Python is to run it."""
    if initializer is None:
        return None
    return staged_over(
        elems, fn, lambda: staged_fold(fn, elems, tree.map_structure(convert, initializer), backwards, every=every)
    )


def scan(
    fn: Callable[..., Any], elems: Structure, initializer: Structure = None, parallel_iterations: int = 10,
    back_prop: bool = True, swap_memory: bool = False, infer_shape: bool = True, reverse: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """All values of `a = fn(a, row)` over the rows of `elems`, stacked.

    Args:
        fn: takes the accumulated structure and one row of `elems`; returns the next accumulated structure.
        initializer: the first accumulated value; without it the first row is used, and is part of the result.
        reverse: go through the rows from the last to the first; results stand at their row's place.

    >>> gt.scan(lambda a, x: a + x, gt.constant([1, 2, 3, 4])).numpy()
    array([ 1,  3,  6, 10], dtype=int32)
    """
    if not reverse and (all_of_them := _staged_fold(fn, elems, initializer, False, every=True)) is not None:
        return all_of_them[0] if back_prop else _constants(all_of_them[0])
    # without an initializer the first row is a result of its own type, which a loop of the program cannot say
    states, last = _fold(fn, elems, initializer, "scan", reverse)
    if not states:
        return tree.map_structure(lambda v: zeros((0, *v.shape), v.dtype), last[0])
    out = _stacked(states[::-1] if reverse else states)
    return out if back_prop else _constants(out)


def _last_of(
    fn: Callable[..., Any], elems: Structure, initializer: Structure, op: str, backwards: bool, back_prop: bool
) -> Any:
    folded = _staged_fold(fn, elems, initializer, backwards, every=False)
    out = _fold(fn, elems, initializer, op, backwards)[1][0] if folded is None else folded[0]
    return out if back_prop else _constants(out)


def foldl(
    fn: Callable[..., Any], elems: Structure, initializer: Structure = None, parallel_iterations: int = 10,
    back_prop: bool = True, swap_memory: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """The last value of `a = fn(a, row)` over the rows of `elems`, from the first to the last.

    >>> gt.foldl(lambda a, x: 10 * a + x, gt.constant([1, 2, 3])).numpy()
    np.int32(123)
    """
    return _last_of(fn, elems, initializer, "foldl", False, back_prop)


def foldr(
    fn: Callable[..., Any], elems: Structure, initializer: Structure = None, parallel_iterations: int = 10,
    back_prop: bool = True, swap_memory: bool = False, name: str | None = None,
) -> Any:  # fmt: skip
    """The last value of `a = fn(a, row)` over the rows of `elems`, from the last to the first.

    >>> gt.foldr(lambda a, x: 10 * a + x, gt.constant([1, 2, 3])).numpy()
    np.int32(321)
    """
    return _last_of(fn, elems, initializer, "foldr", True, back_prop)
