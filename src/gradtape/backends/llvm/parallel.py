"""A loop whose iterations threads may share: its body as a function over ranges of iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.backends.llvm import threads
from gradtape.backends.llvm.outline import Outline, UnmovableError
from gradtape.backends.llvm.text import Index

OWN = frozenset({"%captured", "%begin", "%end"})


def shared(scope: Any, count: Index, write: Callable[[str, str], None]) -> bool:
    """Run `write(begin, end)`, the code for a range of chunks below `count`, on threads; False if it cannot be moved.

    What is written must depend on the chunks alone, never on how they are cut into ranges.
    """
    w = scope.writer
    values = dict(scope.values)
    with Outline(w) as outline:
        scope.enter()
        write("%begin", "%end")
        scope.leave()
    scope.values = values
    name = w.label("kernel.")
    try:
        text, captured = outline.finish(name, "i64 %begin, i64 %end", OWN)
    except UnmovableError:
        return False
    threads.pool()
    w.module.functions.append(text)
    w.module.declare("gt_parallel", "void (ptr, ptr, i64)")
    packed = w.cell("i64", max(len(captured), 1))
    for k, (type, operand) in enumerate(captured):
        w.store(type, operand, w.at("i64", packed, k))
    w.do(f"call void @gt_parallel(ptr @{name}, ptr {packed}, i64 {count})")
    return True
