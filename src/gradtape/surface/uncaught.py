"""What an exception that nobody catches looks like: a traceback that ends at the user's line, a hint for a foreign keyword.

Python, IPython and pytest show it, and are told here how; the first two show a copy, so that a debugger sees all frames.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from types import TracebackType
from typing import Any

from gradtape.core.float_events import below_the_user

# names of arguments in other libraries: what they are called here, the first that a function has
_FOREIGN = """
dim axes axis: axis axes perm; keepdim keep_dims: keepdims; p: ord rate; steps: num; reps repeats: multiples; size: shape
min a_min low: clip_value_min minval; max a_max high: clip_value_max maxval; loc: mean; scale std: stddev; eps: epsilon
descending: direction; requires_grad: trainable; num_classes: depth; retain_graph create_graph: persistent; stride: strides
transpose_x: transpose_a; transpose_y: transpose_b; kernel_size: ksize; weight: filters weights; lr: learning_rate
betas: beta_1; decay: weight_decay
"""
_ROWS = [row.split(":") for row in re.split("[;\n]", _FOREIGN.strip())]
KEYWORDS = {name: own.split() for names, own in _ROWS for name in names.split()}
_UNEXPECTED = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")


def keyword_hint(text: str) -> str | None:
    """What to say of a keyword that a function of gradtape does not have, from Python's own words."""
    import difflib
    import inspect

    from gradtape.surface.name_hints import NAMESPACES

    name, keyword = match.groups() if (match := _UNEXPECTED.match(text)) else ("", "")
    for space in ("", *NAMESPACES):
        module = import_module(f"gradtape.{space}" if space else "gradtape")
        if name in dir(module):
            thing: Any = getattr(module, name)
            signature = inspect.signature(vars(thing).get("__init__", thing))
            known = [p for p in signature.parameters if p not in ("self", "args", "kwargs")]
            near = [p for p in KEYWORDS.get(keyword, ()) if p in known] or difflib.get_close_matches(keyword, known, 1)
            near = near or known[: keyword in ("input", "x", "a", "tensor")]
            label = f"gt.{space}.{name}" if space else f"gt.{name}"
            return f"{label} has no argument `{keyword}`; " + (f"use {near[0]}=" if near else f"it has {', '.join(known)}")
    return None


def shown(error: BaseException, traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of gradtape at its end; the error gets its hint, if there is one."""
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    while len(entries) > 1 and below_the_user(entries[-1].tb_frame):
        entries.pop()
    for entry in reversed(entries):
        traceback = TracebackType(traceback, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    if isinstance(error, TypeError) and (hint := keyword_hint(str(error))) and hint not in getattr(error, "__notes__", ()):
        error.add_note(hint)
    return traceback


def _in_a_cell(shell: Any, kind: Any, error: Any, traceback: Any, tb_offset: int | None = None) -> None:
    shell.showtraceback((kind, error, shown(error, traceback)), tb_offset)


def hidden(raised: Any) -> bool:
    """What pytest asks of a frame of gradtape: whether to leave it out."""
    return HIDING


HIDING = True


def hide() -> None:
    """Have pytest ask, where it runs, about the modules that are loaded."""
    for name, module in sys.modules.copy().items() if "_pytest" in sys.modules else ():
        if name.startswith("gradtape."):
            vars(module)["__tracebackhide__"] = hidden


def _install(before: Any) -> None:
    def hook(kind: Any, error: BaseException, traceback: Any) -> None:
        whole = error.__traceback__
        try:
            before(kind, error.with_traceback(shown(error, traceback)), error.__traceback__)
        finally:
            error.__traceback__ = whole

    sys.excepthook = hook
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()) is not None:
        shell.set_custom_exc((Exception,), _in_a_cell)


_install(sys.excepthook)
