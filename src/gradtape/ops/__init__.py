"""What an operation means: one object per op with its forward, type rule, derivative, batching rule and samples."""

from typing import Any

from gradtape.core.hooks import HOOKS


def op_by_name(name: str) -> Any:
    """The op of this name: where pickle finds one again, for which all of them are loaded."""
    from gradtape.ops import registry

    return registry.op_by_name(name)


HOOKS.op_by_name = op_by_name
