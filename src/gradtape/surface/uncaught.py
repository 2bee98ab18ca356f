"""What an exception that nobody catches looks like: a traceback that ends at the user's line, a hint for a foreign keyword.

Python, IPython and pytest show it, and are told here how; the first two show a copy, so that a debugger sees all frames.
"""

from __future__ import annotations

import linecache
import re
import sys
from types import FrameType, ModuleType, TracebackType
from typing import Any

from gradtape.core.float_events import below_the_user
from gradtape.core.record import INTERNAL

# names of arguments in other libraries: what they are called here, the first that a function has
_FOREIGN = """
dim axes axis: axis axes perm; keepdim keep_dims: keepdims; p: ord rate; steps: num; reps repeats: multiples; size: shape
min a_min low: clip_value_min minval; max a_max high: clip_value_max maxval; loc: mean; scale std: stddev; eps: epsilon
jit: jit_compile; requires_grad: trainable; num_classes: depth; stride: strides; decay: weight_decay
transpose_x: transpose_a; transpose_y: transpose_b; kernel_size: ksize; weight: filters weights; lr: learning_rate
"""
INSTEAD = {
    "requires_grad": "make it a gt.Variable, or call tape.watch with it", "device": "everything is on the CPU",
    "descending": "use direction='DESCENDING'", "retain_graph": "make the tape with gt.GradientTape(persistent=True)",
    "betas": "use beta_1= and beta_2=", "create_graph": "leave it out: tapes around this one record its gradients",
    **dict.fromkeys(("out", "inplace"), "operations give new tensors, t[...] = result writes into one"),
    **dict.fromkeys(("static_argnums", "static_argnames"), "Python numbers, strings and functions are static, tensors are not"),
}  # fmt: skip
# what Python says by itself of things of gradtape, a part of the line that tells, and the cure
_PYTHONS = (
    ("Tensor() takes no arguments", "", "gt.constant(value) makes a tensor, gt.Variable(value) one that changes"),
    ("'GradientTape' object is not callable", "", "tape.gradient(target, sources) asks it"),
    ("'Dataset' object is not an iterator", "", "next(iter(dataset)) is its first element"),
    (
        "'Dataset' object is not subscriptable",
        "",
        "next(iter(dataset)) is its first element, dataset.skip(n).take(1) has another",
    ),
    (
        "'type' object does not support the context manager",
        "GradientTape",
        "a tape is made first: with gt.GradientTape() as tape:",
    ),
    (
        "'TensorShape' object is not callable",
        ".shape(",
        "a shape is no method: t.shape; inside gt.function, gt.shape(t) is a tensor",
    ),
    ("'int' object is not callable", ".size(", "t.size is a number, t.shape has the sizes of the axes"),
)
_ROWS = [row.split(":") for row in re.split("[;\n]", _FOREIGN.strip())]
KEYWORDS = {name: own.split() for names, own in _ROWS for name in names.split()}
_UNEXPECTED = re.compile(r"([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'")
_CALLS = re.compile(r"([A-Za-z_][\w.]*)\s*\(")


def keyword_hint(text: str, entry: TracebackType) -> str | None:
    """What to say of a keyword that a function of gradtape does not have, or of another mistake in Python's own words."""
    import difflib
    import inspect

    if (match := _UNEXPECTED.match(text)) is None:
        line = linecache.getline(entry.tb_frame.f_code.co_filename, entry.tb_lineno)
        return next((cure for said, part, cure in _PYTHONS if text.startswith(said) and part in line), None)
    called, keyword = match.groups()
    code = entry.tb_frame.f_code
    # where there is no source (`python -c`), names that stand side by side in the code
    nearby = [".".join(code.co_names[i:end]) for i in range(len(code.co_names)) for end in range(i + 1, i + 4)]
    chains = _CALLS.findall(linecache.getline(code.co_filename, entry.tb_lineno)) or nearby
    # a method of what another call gave: by its class, unless the user has one of that name
    owner, _, method = called.rpartition(".")
    classes = [vars(module).get(owner) for name, module in sys.modules.copy().items() if name.startswith("gradtape.")]
    methods = [(method, getattr(c, method, None)) for c in classes if entry.tb_frame.f_globals.get(owner, c) is c]
    for chain, thing in [*((chain, _resolved(chain, entry.tb_frame)) for chain in chains), *methods]:
        function: Any = getattr(thing, "__init__", None) if isinstance(thing, type) else thing
        if getattr(function, "__qualname__", None) != called or not str(thing.__module__).startswith("gradtape"):
            continue  # another's function, by the same name perhaps
        known = [p for p in inspect.signature(function).parameters if p not in ("self", "args", "kwargs")]
        near = [p for p in KEYWORDS.get(keyword, ()) if p in known]
        if keyword in INSTEAD and not near:
            return f"{chain} has no argument `{keyword}`; {INSTEAD[keyword]}"
        near = near or difflib.get_close_matches(keyword, known, 1) or known[: keyword in ("input", "x", "a", "tensor")]
        return f"{chain} has no argument `{keyword}`; " + (f"use {near[0]}=" if near else f"it has {', '.join(known)}")
    return None


def _resolved(chain: str, frame: FrameType) -> Any:
    """What dotted names mean in a frame, or None. Nothing of the user's is run: of an instance, the class is asked."""
    first, *rest = chain.split(".")
    thing = frame.f_locals.get(first, frame.f_globals.get(first))
    for name in rest:
        owner = thing if isinstance(thing, (type, ModuleType)) else type(thing)
        thing = vars(owner).get(name) if isinstance(owner, ModuleType) else getattr(owner, name, None)
    return thing


def shown(error: BaseException, traceback: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of gradtape at its end; the error gets its hint, if there is one."""
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    raised = entries[-1] if isinstance(error, TypeError) and entries else None
    # (Python's own import stands between: namespaces are loaded when they are first asked for)
    while len(entries) > 1 and (below_the_user(frame := entries[-1].tb_frame) or _imports(frame)):
        entries.pop()
    for entry in reversed(entries):
        traceback = TracebackType(traceback, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    if raised is not None and (hint := keyword_hint(str(error), raised)) and hint not in getattr(error, "__notes__", ()):
        error.add_note(hint)
    return traceback


def _imports(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("importlib")


def _told(error: BaseException) -> BaseException:
    """The error with the cure: NumPy puts words of its own around those of a tensor that is stored into an array."""
    cause = error.__cause__ if str(error).startswith("setting an array element") else None
    entry = None if cause is None else cause.__traceback__
    return error if cause is None or entry is None or entry.tb_frame.f_code.co_filename not in INTERNAL else cause


def in_ipython(shell: Any) -> None:
    """Have IPython show it, in cells as in scripts that it runs (`%run`): what it formats are its own copies."""
    plain = shell.InteractiveTB.structured_traceback

    def formatted(kind: Any, error: Any, traceback: Any = None, *arguments: Any, **options: Any) -> Any:
        error = _told(error)
        return plain(type(error), error, shown(error, traceback), *arguments, **options)

    shell.InteractiveTB.structured_traceback = formatted


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
        error = _told(error)
        whole = error.__traceback__
        try:
            before(type(error), error.with_traceback(shown(error, traceback)), error.__traceback__)
        finally:
            error.__traceback__ = whole

    sys.excepthook = hook
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()) is not None:
        in_ipython(shell)


_install(sys.excepthook)
