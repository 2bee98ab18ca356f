"""Gradient functions that raise, in programs: the error comes when the gradient is asked for, not when the value is.

The gradient of a custom operation is traced with its value. What the user's gradient function raises then becomes an
operation of the backward pass, as a `raise` in a branch becomes one of the branch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.core.dispatch import convert
from gradtape.errors import InaccessibleTensorError, OperatorNotAllowedInGraphError
from gradtape.functions.building import Build
from gradtape.functions.staging.aliasing.aliases import Restart
from gradtape.functions.staging.joins import JoinError
from gradtape.ops.create import zeros_like
from gradtape.trace.tracing import current_trace

# what says that the program itself cannot be made as it is
_OWN = (Build, InaccessibleTensorError, JoinError, OperatorNotAllowedInGraphError, Restart)


def raising_when_asked(grad_fn: Callable[..., Any], inputs: Sequence[Any], variables: int) -> Callable[..., Any]:
    """The gradient function; where it raises, a gradient that raises when the program computes it."""

    def asked(*cts: Any, **kwargs: Any) -> Any:
        from gradtape.functions.autograph.raising import emit_error

        try:
            return grad_fn(*cts, **kwargs)
        except _OWN:
            raise
        except Exception as error:  # of the user's function: anything
            if len(current_trace().blocks) < 2:  # no region of its own: it is asked for now
                raise
            emit_error(error, cts[0])
        zeros = [zeros_like(convert(x)) for x in inputs]
        return (zeros, [None] * variables) if kwargs else zeros

    return asked
