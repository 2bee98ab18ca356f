"""What an exception that nobody catches looks like: a traceback that ends at the user's line, a hint for a foreign keyword.

Python and IPython show it; both are told here how. The exception itself is not changed, but for a note. Frames of gradtape that
lie between the user's are kept, as is everything while `gt.debugging.disable_traceback_filtering()` holds.
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
KEYWORDS = {
    name: own.split()
    for row in re.split("[;\n]", _FOREIGN.strip())
    for names, own in [row.split(":")]
    for name in names.split()
}
_UNEXPECTED = re.compile(r"(\w+)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")
_FILTERING = [True]


def enable_traceback_filtering() -> None:
    """Show exceptions without gradtape's own frames, the default: `gt.debugging.enable_traceback_filtering()`."""
    _FILTERING[0] = True


def disable_traceback_filtering() -> None:
    """Show all frames of exceptions, gradtape's own too: `gt.debugging.disable_traceback_filtering()`."""
    _FILTERING[0] = False


def keyword_hint(text: str) -> str | None:
    """What to say of a keyword that a function of gradtape does not have, from Python's own words."""
    import difflib
    import inspect

    from gradtape.surface.name_hints import NAMESPACES

    match = _UNEXPECTED.match(text)
    name, keyword = match.groups() if match else ("", "")
    for space in ("", *NAMESPACES):
        module = import_module(f"gradtape.{space}" if space else "gradtape")
        if name in dir(module):
            thing: Any = getattr(module, name)
            signature = inspect.signature(vars(thing).get("__init__", thing))
            known = [p for p in signature.parameters if p not in ("self", "args", "kwargs")]
            near = [p for p in KEYWORDS.get(keyword, ()) if p in known] or difflib.get_close_matches(keyword, known, 1)
            near = near or (known[:1] if keyword in ("input", "x", "a", "tensor") else [])
            label = f"gt.{space}.{name}" if space else f"gt.{name}"
            return f"{label} has no argument `{keyword}`; " + (f"use {near[0]}=" if near else f"it has {', '.join(known)}")
    return None


def shown(error: BaseException, traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of gradtape at its end; the error gets its hint, if there is one."""
    last, entry = traceback, traceback
    while entry is not None:
        last = last if below_the_user(entry.tb_frame) else entry
        entry = entry.tb_next
    if last is not None and _FILTERING[0]:
        last.tb_next = None
    if isinstance(error, TypeError) and (hint := keyword_hint(str(error))) and hint not in getattr(error, "__notes__", ()):
        error.add_note(hint)
    return traceback


def install() -> None:
    """Tell Python, and IPython if this is one, how to show what nobody catches."""
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        before(kind, error.with_traceback(shown(error, traceback)), error.__traceback__)

    def in_a_cell(shell: Any, kind: Any, error: Any, traceback: Any, tb_offset: int | None = None) -> None:
        shell.showtraceback((kind, error, shown(error, traceback)), tb_offset)

    sys.excepthook = hook
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()) is not None:
        shell.set_custom_exc((Exception,), in_a_cell)


install()
