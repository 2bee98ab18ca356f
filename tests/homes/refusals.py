"""What a home or a mode may refuse although eager code runs it: the words of the error, and where the reason is documented.

A refusal is an error that says why; anything else that eager code does not do is a failure. `test_homes.py` checks that every
reason here is in the documentation, and that few of the random programs are refused.
"""

from __future__ import annotations

from dataclasses import dataclass

from gradtape import errors


@dataclass(frozen=True)
class Refusal:
    """An error, words of its message, and words of the page that explains it."""

    error: type[Exception]
    words: str
    page: str
    explained: str


REFUSALS = (
    Refusal(
        errors.InvalidArgumentError,
        "is an item of a list whose items live in the program",
        "docs/functions.md",
        "through a name that may or may not be an item of such a list",
    ),
    Refusal(
        errors.InvalidArgumentError,
        "give both branches the same shape",
        "docs/functions.md",
        "two shapes for one name after a branch",
    ),
    Refusal(
        errors.StaticDimensionNeeded, "Python needs its value now", "docs/functions.md", "where Python needs the number now"
    ),
    Refusal(RecursionError, "the depth of the recursion depends on values", "docs/functions.md", "the depth of a recursion"),
    Refusal(errors.InvalidArgumentError, "which take one course", "docs/jacobians.md", "all examples take one course"),
    Refusal(
        errors.InvalidArgumentError,
        "and a list of the program is changed in it",
        "docs/jacobians.md",
        "a list that a branch or loop changes for some examples only",
    ),
    Refusal(
        errors.InvalidArgumentError, "all shapes must be the same", "docs/jacobians.md", "a size that differs between them"
    ),
    Refusal(
        errors.InvalidArgumentError, "holds one for all", "docs/jacobians.md", "A variable holds one value for all examples"
    ),
)


def refusal(error: BaseException) -> Refusal | None:
    """The documented reason of an error, if it has one."""
    return next((r for r in REFUSALS if isinstance(error, r.error) and r.words in str(error)), None)
