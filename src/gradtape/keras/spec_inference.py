"""Shapes and dtypes of what a function of tensors would return, by tracing it: nothing is computed.

The function is traced on stand-ins without values. Where a size is unknown (None) it is traced twice, with two different sizes;
sizes of the result that differ are unknown too. Python code of layers therefore sees plain integers as sizes. Where a user's
`call` asks a tensor which way to go, it is traced once more as a `gt.function` is, with its branches and loops staged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src import tree
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.stateless_scope import StatelessScope
from keras.src.backend.common.symbolic_scope import SymbolicScope

from gradtape.core.tensor import Tensor
from gradtape.dtypes import as_dtype
from gradtape.errors import OperatorNotAllowedInGraphError
from gradtape.functions.function import function
from gradtape.ir.graph import Block
from gradtape.ir.types import TensorSpec
from gradtape.keras.core_ops import known_dtype
from gradtape.trace.effects import TRACER
from gradtape.trace.tracing import Trace, TracedTensor, traced, tracing

_STAND_INS = (83, 89)  # for an unknown size: primes, so that no arithmetic of layers makes one of the other


def compute_output_spec(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The structure that `fn` returns, with a `KerasTensor` for each tensor."""
    unknown = any(isinstance(x, KerasTensor) and None in x.shape for x in tree.flatten((args, kwargs)))
    first = _traced_specs(fn, args, kwargs, _STAND_INS[0])
    return tree.map_structure(_common, first, _traced_specs(fn, args, kwargs, _STAND_INS[1])) if unknown else first


def _common(a: Any, b: Any) -> Any:
    if not isinstance(a, KerasTensor):
        return a
    sizes = [size if size == other else None for size, other in zip(a.shape, b.shape, strict=True)]
    return KerasTensor(sizes, a.dtype)


def _traced_specs(fn: Callable[..., Any], args: Any, kwargs: Any, size: int) -> Any:
    block = Block([], [], "a shape that is asked for")

    def stand_in(x: Any) -> Any:
        if isinstance(x, TracedTensor):  # of the program around this one, whose values are not in this block
            return traced(block.add_param(x._data.type, "x"))
        if not isinstance(x, KerasTensor):
            return x
        if x.dtype == "string" or x.dtype.startswith("float8"):
            known_dtype(x.dtype)
        sizes = tuple(size if n is None else n for n in x.shape)
        return traced(block.add_param(TensorSpec(sizes, as_dtype(x.dtype)), x.name))

    given, named = tree.map_structure(stand_in, (args, kwargs))
    token = TRACER.set(None)  # a function that is being traced meanwhile has nothing to do with this
    try:
        with StatelessScope(), SymbolicScope(), tracing(Trace(block)):
            results = fn(*given, **named)
    except OperatorNotAllowedInGraphError:
        results = _staged_specs(fn, given, named)
    finally:
        TRACER.reset(token)
    kinds = (Tensor, TensorSpec)
    return tree.map_structure(lambda x: KerasTensor(x.shape, x.dtype.name) if isinstance(x, kinds) else x, results)


def _staged_specs(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What `fn` returns, with a spec for each tensor: layers convert their `call` in a function (`layer_base.py`)."""
    leaves = tree.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, TracedTensor)]

    def called(*tensors: Any) -> Any:
        for place, tensor in zip(places, tensors, strict=True):
            leaves[place] = tensor
        given, named = tree.pack_sequence_as((args, kwargs), leaves)
        with StatelessScope(), SymbolicScope():
            return fn(*given, **named)

    return function(called).get_concrete_function(*[leaves[i]._data.type for i in places]).structured_outputs
