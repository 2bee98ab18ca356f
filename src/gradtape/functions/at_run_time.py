"""Library functions that look at values (print, the assert family): in a traced function they run when the program does."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradtape import tree
from gradtape.core.tensor import Readable, Tensor
from gradtape.ops import staged
from gradtape.trace.effects import active
from gradtape.trace.tracing import current_trace
from gradtape.trace.weak import WeakTensor


def at_run_time(function: Callable[..., None]) -> Callable[..., None]:
    """`function`, which returns nothing; while a function is traced, an effect of the program in its place."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> None:
        if active() is None:
            function(*args, **kwargs)
            return
        from gradtape.functions.staging.staged_builtins import StagedText, Template  # a trace has loaded it

        leaves = tree.flatten((args, kwargs))
        values = [leaf.read() if isinstance(leaf, Readable) else leaf for leaf in leaves]
        places = [i for i, leaf in enumerate(values) if isinstance(leaf, Tensor)]
        given = [v.strong() if isinstance(v, WeakTensor) else v for v in (values[i] for i in places)]
        # texts with holes are filled when the program runs, from values that are operands of this effect
        texts = Template()
        parts = {i: texts.part(leaf) for i, leaf in enumerate(values) if isinstance(leaf, StagedText)}

        def run(*tensors: Any) -> None:
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=False):
                number = values[place]
                filled[place] = number.python_type(tensor) if isinstance(number, WeakTensor) else tensor
            for place, part in parts.items():
                filled[place] = staged.text_of(part, tuple([tensor._data for tensor in tensors[len(places) :]]))
            again, keywords = tree.pack_sequence_as((args, kwargs), filled)
            function(*again, **keywords)

        trace = current_trace()
        operands = [trace.own(t) for t in (*given, *texts.values)]
        trace.emit(staged.PY_CALL, operands, {"function": run, "types": ()})

    return called
