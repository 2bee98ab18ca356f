"""What a home or a mode may refuse although eager code runs it: the error, its whole message, where the reason is documented.

A refusal is an error that says why; anything else that eager code does not do is a failure. So the class is the very one, and
the message matches from its first word to its last: words that other errors have too would hide them. `test_homes.py` checks
that every reason is in the documentation, that a little more is no refusal, and that few of the random programs are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gradtape.errors import InvalidArgumentError, StaticDimensionNeeded

FUNCTIONS, JACOBIANS = "docs/reference/functions.md", "docs/learn/higher_derivatives.md"


@dataclass(frozen=True)
class Refusal:
    """An error, its message (… stands for names and numbers of the program), and words of the page that explains it."""

    error: type[Exception]
    message: str
    page: str
    explained: str

    def matches(self, error: BaseException) -> bool:
        pattern = ".+".join(map(re.escape, self.message.split("…")))
        return type(error) is self.error and re.fullmatch(pattern, str(error)) is not None


ITEM = (
    "…: this … is an item of a list whose items live in the program, and which of them it is, or whether it still is one, "
    "depends on what happened at run time: it cannot be changed in place. Put a copy into the list (gt.identity(t), list(l)), "
    "or write `list[i] = changed`"
)
SIZE = (
    "the dimension … is known only when the function runs, but Python needs its value now (…). Use gt.shape(x)[axis], a "
    "tensor, in its place, or give the size in input_signature."
)
COURSE = (
    "… differs between the examples of a batch (vectorized_map, or the rows of a Jacobian), which take one course: use "
    "gt.where, or map_fn, which runs example by example"
)
LIST = (
    "…: the … differs between the examples of a batch (vectorized_map, or the rows of a Jacobian), and a list of the program "
    "is changed in it, which has one length for all: use a tensor (t[i] = v), or map_fn, which runs example by example"
)
ASSIGNED = (
    "…: inside vectorized_map the value is one per example, and variable '…' holds one for all; return the values and assign "
    "what they give together (their sum, say) after the map"
)
WRITTEN = (
    "… is written with one value per example inside vectorized_map, and holds one for all; return the values, and "
    "write what they give together (their sum, say) after the map"
)
DEPTH = (
    "`…` calls itself inside branches that depend on tensors, … deep and not yet at an end: the depth of the recursion depends "
    "on values known only when the function runs. Write it as a `while` loop"
)

REFUSALS = (
    Refusal(InvalidArgumentError, ITEM, FUNCTIONS, "through a name that may or may not be an item of such a list"),
    Refusal(StaticDimensionNeeded, SIZE, FUNCTIONS, "where Python needs the number now"),
    Refusal(
        RecursionError, DEPTH, FUNCTIONS, "where Python needs the number now (`[0] * x.shape[0]`, the depth of a recursion)"
    ),
    Refusal(InvalidArgumentError, COURSE, JACOBIANS, "all examples take one course"),
    Refusal(InvalidArgumentError, LIST, JACOBIANS, "a list that a branch or loop changes for some examples only"),
    Refusal(InvalidArgumentError, ASSIGNED, JACOBIANS, "A variable holds one value for all examples"),
    Refusal(InvalidArgumentError, WRITTEN, JACOBIANS, "A variable holds one value for all examples"),
)


def refusal(error: BaseException) -> Refusal | None:
    """The documented reason of an error, if it has one."""
    return next((r for r in REFUSALS if r.matches(error)), None)
