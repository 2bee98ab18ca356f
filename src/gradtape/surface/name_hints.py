"""What to say of a name that `gt` does not have: how it is called here, in which namespace it stands, or what comes closest.

Only for messages: nothing here makes a name work. Other libraries' names for attributes of tensors are in `core/tensor.py`.
"""

from __future__ import annotations

import difflib
from importlib import import_module

NAMESPACES = ("nn", "math", "linalg", "random", "signal", "optimizers", "autodiff", "debugging", "train", "initializers")
REDUCTIONS = ("sum", "mean", "max", "min", "prod", "all", "any", "std", "logsumexp")
ELSEWHERE = {
    **{name: f"gt.reduce_{name}" for name in REDUCTIONS}, "amax": "gt.reduce_max", "amin": "gt.reduce_min",
    "tensor": "gt.constant", "array": "gt.constant", "asarray": "gt.convert_to_tensor", "as_tensor": "gt.convert_to_tensor",
    "from_numpy": "gt.convert_to_tensor", "var": "gt.math.reduce_variance", "cat": "gt.concat", "concatenate": "gt.concat",
    "permute": "gt.transpose", "dot": "a @ b or gt.tensordot", "mm": "gt.matmul", "bmm": "gt.matmul",
    "clamp": "gt.clip_by_value", "clip": "gt.clip_by_value", "arange": "gt.range",
    "power": "gt.pow", "unsqueeze": "gt.expand_dims", "flip": "gt.reverse",
    "astype": "gt.cast", "arctan2": "gt.atan2", "arcsin": "gt.asin", "arccos": "gt.acos", "arctan": "gt.atan",
    "rand": "gt.random.uniform", "randn": "gt.random.normal", "manual_seed": "gt.random.set_seed", "vmap": "gt.vectorized_map",
    "jit": "gt.function", "compile": "gt.function", "no_grad": "tape.stop_recording()", "gradient": "gt.grad",
    "value_and_gradient": "gt.value_and_grad", "jacrev": "gt.jacobian", "jacfwd": "gt.jacobian", "detach": "gt.stop_gradient",
    "checkpoint": "gt.recompute_grad", "Parameter": "gt.Variable",
    "fori_loop": "a Python loop in a gt.function, or gt.while_loop",
    **dict.fromkeys(
        ("Session", "placeholder", "global_variables_initializer", "get_variable", "compat"),
        "no TensorFlow 1 names: values are computed at once, and gt.function makes programs",
    ),
    **dict.fromkeys(
        ("strings", "ragged", "RaggedTensor", "sparse", "SparseTensor", "io", "lite", "saved_model", "tpu"),
        "not part of gradtape, whose tensors are dense arrays of numbers",
    ),
}  # fmt: skip


def missing(name: str, known: list[str]) -> str:
    """The message for `gt.name`; `known` are the names there are."""
    text = f"module 'gradtape' has no attribute {name!r}"
    if name in ELSEWHERE:
        cure = ELSEWHERE[name]
        return f"{text}; {cure}" if cure.startswith(("no ", "not ")) else f"{text}; use {cure}"
    if name.startswith("__"):
        return text
    homes = [space for space in NAMESPACES if hasattr(import_module(f"gradtape.{space}"), name)]
    if homes:
        return f"{text}; use gt.{homes[0]}.{name}"
    near = difflib.get_close_matches(name, known, 1)
    return f"{text}; did you mean gt.{near[0]}?" if near else text
