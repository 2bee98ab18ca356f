"""What every Keras layer inherits from the engine: a user's `call` is converted by AutoGraph while a function is traced.

Keras's own files run as they are (`installation.py`). A class of the user's gets its `call` back in a form that, inside a
`gt.function` or a compiled training step, stages tensor branches and loops, and does nothing else anywhere else.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from gradtape.functions.autograph import policy
from gradtape.functions.autograph.calling import conv
from gradtape.trace.effects import active


class GradtapeLayer:
    """The base of Keras's `Layer`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        call = cls.__dict__.get("call")
        if isinstance(call, FunctionType) and not policy.left_alone(call.__code__):
            cls.call = _converting(call)  # type: ignore[attr-defined]


def _converting(call: FunctionType) -> Any:
    @functools.wraps(call)
    def converting(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (call if active() is None else conv(call))(self, *args, **kwargs)

    return converting


NumpyLayer = GradtapeLayer  # what Keras calls the class that it finds in this seat
