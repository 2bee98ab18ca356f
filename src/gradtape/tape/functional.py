"""Derivatives of functions: grad, value_and_grad, elementwise_grad, jacobian, hessian, jvp, vjp and Hessian times vector.

Each takes a Python function of tensors and returns a function or its values. Given NumPy arrays they answer NumPy
arrays, so `value_and_grad` plugs into `scipy.optimize.minimize(..., jac=True)`.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from gradtape import tree
from gradtape.ad.batch import batched, next_level, unbatched
from gradtape.core.arguments import function_of, numeric
from gradtape.core.dispatch import convert
from gradtape.core.record import RecordingScope, Unwatched, current_scope, location, scope_of
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import TensorLike
from gradtape.errors import InvalidArgumentError, OpError
from gradtape.ops.create import zeros_like
from gradtape.ops.shape import reshape, transpose
from gradtape.tape import jacobian as rows
from gradtape.tape.accumulator import ForwardAccumulator
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tree import Structure
from gradtape.variables.variable import Variable

P = ParamSpec("P")
R = TypeVar("R")


def _answer_numpy(args: Structure) -> bool:
    """NumPy in, NumPy out: when some argument is NumPy and none is a tensor."""
    leaves = tree.flatten(args)
    return any(isinstance(x, (np.ndarray, np.generic)) for x in leaves) and not any(
        isinstance(x, (Tensor, Readable)) for x in leaves
    )


def _to_numpy(structure: Structure) -> Any:
    return tree.map_structure(lambda x: np.array(convert(x).numpy())[()] if isinstance(x, (Tensor, Readable)) else x, structure)


def _source(value: Structure, function: str, f: Callable[..., Any], place: int) -> Any:
    """A fresh tensor to differentiate with respect to; variables stay themselves. `function` is asked for a derivative of `f`
    with respect to the argument at `place`: what that can be is decided here."""

    def leaf(given: TensorLike) -> Any:
        # a tensor of its own: watching the caller's would make it a source of tapes that the caller has
        tensor = given if isinstance(given, Variable) else convert(given).__copy__()
        if not tensor.dtype.is_differentiable:
            raise TypeError(
                f"{function}: {_argument(f, place)} {_described(given, tensor)}, which has no derivative; give it as floating "
                "point: 2.0, np.array([1.0, 2.0]), x.astype(float), gt.cast(x, gt.float32)"
            )
        return tensor

    return leaf(value) if isinstance(value, Variable) else tree.map_structure(leaf, value)


def _argument(f: Callable[..., Any], place: int) -> str:
    """What a message calls an argument: by its name in the user's function, where that can be known."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return f"argument '{named[place]}'" if place < len(named) else f"argument {place}"


def _described(given: object, tensor: Tensor | Variable) -> str:
    if isinstance(given, (bool, int)):
        return f"is the Python {type(given).__name__} {given}"
    label = f" (variable '{given.name}')" if isinstance(given, Variable) else ""
    return f"has dtype {tensor.dtype.name}{label}"


def _places(argnums: int | tuple[int, ...], count: int) -> tuple[int, ...]:
    try:
        wanted = tuple(operator.index(place) for place in (argnums if isinstance(argnums, (list, tuple)) else (argnums,)))
    except OpError:  # it says itself why it has no value
        raise
    except TypeError:
        raise TypeError(f"argnums must be the place of an argument or several such integers, got {argnums!r}") from None
    for place in wanted:
        if not -count <= place < count:
            raise ValueError(f"argnums names argument {place} but the function was called with {count} positional arguments")
    return tuple(p % count for p in wanted)


def _with_sources(
    function: str, f: Callable[..., Any], args: tuple[Any, ...], argnums: int | tuple[int, ...]
) -> tuple[list[Any], Any]:
    """The arguments with fresh tensors at `argnums`, and those tensors arranged as the answer will be."""
    places = _places(argnums, len(args))
    fresh = list(args)
    for place in places:
        fresh[place] = _source(args[place], function, f, place)
    sources = tuple(fresh[p] for p in places) if isinstance(argnums, (list, tuple)) else fresh[places[0]]
    return fresh, sources


# ways out of a tape that keep a number; what is asked for its truth or taken as an index has no derivative anyway
_NUMERIC_EXITS = {".numpy()", ".item()", ".tolist()", "np.asarray", "float()", "complex()", "__dlpack__()"}


def _result(value: TensorLike, function: str, recorder: GradientTape | ForwardAccumulator) -> Tensor:
    """What a function returned, as a tensor; refused if it is a number that was computed from the argument outside the tape."""
    tensor = numeric(value, "what the function returns", function)
    # A constant is a fine result. A number is suspicious if values of the argument left the tape on their way to it.
    if tensor._node is not None or isinstance(value, (Tensor, Readable)):
        return tensor
    for out in (recorder.key.exits or {}).values():
        if out.how in _NUMERIC_EXITS and not all(isinstance(version, Unwatched) for version, _ in out.values):
            file, line = location(out.code, out.lasti)
            raise TypeError(
                f"{function}: the function returned a {type(value).__name__}, not a tensor, although it used its argument: the "
                f"values left the tape with {out.how} at {file}:{line}. Use gradtape and NumPy functions on the tensor itself, "
                "and return what they compute"
            )
    return tensor


def _scalar(value: TensorLike, function: str, tape: GradientTape) -> Tensor:
    tensor = _result(value, function, tape)
    if tensor.ndim:
        raise InvalidArgumentError(
            f"{function}: the function must return a scalar, got shape {tuple(tensor.shape)}; sum it, or use gt.jacobian"
        )
    return tensor


def value_and_grad(f: Callable[P, R], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[P, tuple[R, Any]]:
    """A function that returns (f(...), gradient) with respect to the arguments `argnums`.

    >>> import numpy as np
    >>> value, g = gt.value_and_grad(lambda x: gt.reduce_sum(x**2))(np.array([1.0, 2.0]))
    >>> float(value), g
    (5.0, array([2., 4.]))
    """

    return _value_and_grad("value_and_grad", f, argnums, has_aux)


def _value_and_grad(
    function: str, f: Callable[..., Any], argnums: int | tuple[int, ...], has_aux: bool,
    checked: Callable[[Any, str, GradientTape], Tensor] = _scalar,
) -> Callable[..., Any]:  # fmt: skip
    """`value_and_grad`, on behalf of the public function of that name; `checked` says what the value may be."""
    function_of(f, "f", function)

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fresh, sources = _with_sources(function, f, args, argnums)
        with GradientTape(through_assignments=True) as tape:
            tape.watch(sources)
            result = f(*fresh, **kwargs)
            value, aux = result if has_aux else (result, None)
            value = checked(value, function, tape)
        gradient = tape.gradient(value, sources, unconnected_gradients="zero")
        answer = ((value, aux) if has_aux else value), gradient
        return _to_numpy(answer) if _answer_numpy(args) else answer

    return wrapped


def grad(f: Callable[P, Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """The gradient of a scalar function, as a function; nest it for higher orders.

    >>> float(gt.grad(gt.grad(lambda x: x**3))(gt.constant(2.0)))
    12.0
    """
    both = _value_and_grad("grad", f, argnums, has_aux)

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def vjp(f: Callable[..., Any], *primals: Structure) -> tuple[Any, Callable[[Any], Any]]:
    """(f(*primals), pull) where pull(cotangent) gives the cotangents of the primals, as a tuple.

    >>> y, pull = gt.vjp(lambda x: x * x, gt.constant([1.0, 3.0]))
    >>> pull([1.0, 1.0])[0].numpy()
    array([2., 6.], dtype=float32)
    """
    fresh = tuple(_source(p, "vjp", f, i) for i, p in enumerate(primals))
    # (persistent: the pull may be called any number of times, and its result differentiated)
    tape = GradientTape(persistent=True, through_assignments=True)
    with tape:
        tape.watch(fresh)
        out = tree.map_structure(lambda part: _result(part, "vjp", tape), f(*fresh))
    numpy_answer = _answer_numpy(primals)

    def pull(cotangent: Structure) -> Any:
        answer = tape.gradient(out, fresh, output_gradients=cotangent, unconnected_gradients="zero")
        return _to_numpy(answer) if numpy_answer else answer

    return (_to_numpy(out) if numpy_answer else out), pull


def jvp(f: Callable[..., Any], primals: Sequence[Structure], tangents: Sequence[Structure]) -> tuple[Any, Any]:
    """(f(*primals), its derivative along the tangents), by forward mode.

    >>> y, d = gt.jvp(lambda x: x * x, [gt.constant(3.0)], [gt.constant(1.0)])
    >>> float(y), float(d)
    (9.0, 6.0)
    """
    return _jvp("jvp", f, primals, tangents)


def _jvp(function: str, f: Callable[..., Any], primals: Sequence[Structure], tangents: Sequence[Structure]) -> tuple[Any, Any]:
    """`jvp`, on behalf of the public function of that name."""
    for argument, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"{function}: {argument} must be a list or tuple with one entry per argument of f, got {given!r}")
    fresh = [_source(p, function, function_of(f, "f", function), i) for i, p in enumerate(primals)]
    directions = [tree.map_structure(lambda p, t: convert(t, hint=p.dtype), p, t) for p, t in zip(fresh, tangents, strict=True)]
    accumulator = ForwardAccumulator(fresh, directions)
    accumulator.key.became("recording")  # so that the lines where values leave are noted
    try:
        with accumulator:
            out = tree.map_structure(lambda part: _result(part, function, accumulator), f(*fresh))
        moved = accumulator.jvp(out, unconnected_gradients="zero")
    finally:
        accumulator.key.close()
    return (_to_numpy((out, moved))) if _answer_numpy(primals) else (out, moved)


def hvp(f: Callable[..., Any], primals: Sequence[Structure], tangents: Sequence[Structure]) -> Any:
    """Hessian times vector of a scalar function, forward over reverse: (gradient, H·v), each like `primals`.

    >>> g, h = gt.hvp(lambda x: gt.reduce_sum(x**3), [gt.constant([1.0, 2.0])], [gt.constant([1.0, 0.0])])
    >>> h[0].numpy()
    array([6., 0.], dtype=float32)
    """
    return _jvp("hvp", grad(f, tuple(range(len(primals)))), primals, tangents)


def elementwise_grad(f: Callable[P, Any], argnums: int | tuple[int, ...] = 0) -> Callable[P, Any]:
    """The derivative of a function that works element by element, as a function: the gradient of the sum of its results.

    Nest it for higher orders. Of a function whose elements depend on one another it is the sum of the Jacobian's rows.

    >>> second = gt.elementwise_grad(gt.elementwise_grad(gt.sin))
    >>> second(gt.constant([0.0, 1.0])).numpy().round(4)
    array([-0.    , -0.8415], dtype=float32)
    """

    function_of(f, "f", "elementwise_grad")
    both = _value_and_grad("elementwise_grad", f, argnums, False, _result)

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return wrapped


def hessian_vector_product(f: Callable[..., Any], argnum: int = 0) -> Callable[..., Any]:
    """A function of f's arguments and, last, a vector like the argument `argnum`: the Hessian of `f` there times the vector.

    Forward over reverse, without forming the Hessian; f must return a scalar.

    >>> product = gt.hessian_vector_product(lambda x: gt.reduce_sum(x**3))
    >>> product(gt.constant([1.0, 2.0]), gt.constant([1.0, 0.5])).numpy()
    array([6., 6.], dtype=float32)
    """

    function_of(f, "f", "hessian_vector_product")

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if len(args) < 2:
            raise TypeError(f"hessian_vector_product: give the arguments of {f.__name__} and the vector last, got {len(args)}")
        *point, vector = args
        place = _places(argnum, len(point))[0]

        @functools.wraps(f)
        def along(x: object) -> Any:
            return f(*point[:place], x, *point[place + 1 :], **kwargs)

        source = _source(point[place], "hessian_vector_product", f, place)
        # Forward over reverse: one gradient and its tangent, about four times the function itself, where reverse over reverse
        # would record a whole backward pass.
        product = jvp(grad(along), [source], [vector])[1]
        return _to_numpy(product) if _answer_numpy(args) else product

    return wrapped


def jacobian(f: Callable[P, Any], argnums: int = 0) -> Callable[P, Any]:
    """The Jacobian of a function of one tensor (argument `argnums`): forward mode where outputs outnumber inputs.

    >>> gt.jacobian(lambda x: x * x)(gt.constant([1.0, 2.0])).numpy()
    array([[2., 0.],
           [0., 4.]], dtype=float32)
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fresh, source = _with_sources("jacobian", f, args, argnums)
        with GradientTape(through_assignments=True) as tape:
            tape.watch(source)
            out = _result(f(*fresh, **kwargs), "jacobian", tape)
        # Reverse mode costs a pass per output, forward mode one per input.
        if tree.is_nested(source) or out.size <= source.size:
            answer = tape.jacobian(out, source, unconnected_gradients="zero")
        else:
            # the values of the reverse pass are freed before the function runs again
            tape.close()
            answer = _forward_jacobian(
                f, _with_sources("jacobian", f, args, argnums)[0], _places(argnums, len(args))[0], kwargs, out
            )
        return _to_numpy(answer) if _answer_numpy(args) else answer

    return wrapped


def _forward_jacobian(f: Callable[..., Any], args: list[Any], place: int, kwargs: dict[str, Any], out: Tensor) -> Any:
    """Column by column, all columns in one batched run of the function."""
    source = convert(args[place])
    size = source.size
    level = next_level()
    scope = current_scope()
    # The tangents of all elements at once: a batch of unit vectors on a primal that all of them share.
    unit = rows.identity_rows(source)(0, size)
    with scope_of(RecordingScope(scope.recorders, (*scope.batches, None))):
        # The accumulator gives one tangent of the primal's own shape. Here it is a batch of them, all unit vectors: put in its
        # place after it watches.
        primal = source.__copy__()
        primal._node = source._node
        with ForwardAccumulator(primal, zeros_like(primal)) as accumulator:
            assert primal._node is not None  # the accumulator watches it
            accumulator._tangents[primal._node] = batched(unit, level)
            result = convert(f(*[*args[:place], primal, *args[place + 1 :]], **kwargs))
        moved = accumulator.jvp(result, unconnected_gradients="zero")
    columns = unbatched(moved, level, size)
    order = (*range(1, columns.ndim), 0)
    return reshape(transpose(columns, order), (*tuple(out.shape), *tuple(source.shape)))


def hessian(f: Callable[P, Any], argnums: int | tuple[int, ...] = 0) -> Callable[P, Any]:
    """Second derivatives of a scalar function.

    >>> gt.hessian(lambda x: x[0] * x[1] ** 2)(gt.constant([1.0, 3.0])).numpy()
    array([[0., 6.],
           [6., 2.]], dtype=float32)
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fresh, sources = _with_sources("hessian", f, args, argnums)
        with GradientTape(through_assignments=True) as tape:
            tape.watch(sources)
            value = _scalar(f(*fresh, **kwargs), "hessian", tape)
        answer = tape.hessian(value, sources)
        return _to_numpy(answer) if _answer_numpy(args) else answer

    return wrapped
