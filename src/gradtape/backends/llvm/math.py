"""Mathematical functions on registers: the name to call for a function of a type."""

from __future__ import annotations

from gradtape.backends.llvm.text import Module

INTRINSICS = {"exp", "log", "sin", "cos", "pow", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "atan2"}
BINARY = {"pow", "atan2"}


def function(module: Module, name: str, suffix: str) -> str:
    """The function to call: an intrinsic, or one of the C library."""
    kind = {"f32": "float", "f64": "double"}[suffix]
    arguments = f"({kind}, {kind})" if name in BINARY else f"({kind})"
    return module.declare(name + ("f" if suffix == "f32" else ""), f"{kind} {arguments}")
