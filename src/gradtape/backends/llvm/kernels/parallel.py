"""A loop whose iterations threads may share: its body as a function over ranges of iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gradtape.backends.llvm.runtime import threads
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.backends.llvm.writing.outline import Outline, UnmovableError

if TYPE_CHECKING:
    from gradtape.backends.llvm.kernels.scope import Scope

OWN = frozenset({"%captured", "%begin", "%end"})


def shared(scope: Scope, count: Index, write: Callable[[str, str], None]) -> bool:
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
    gt_parallel = threads.POOL.use(w.module, "gt_parallel")
    packed = w.cell("i64", max(len(captured), 1))
    for k, (type, operand) in enumerate(captured):
        w.store(type, operand, w.at("i64", packed, k))
    w.do(f"call void {gt_parallel}(ptr @{name}, ptr {packed}, i64 {count})")
    return True
