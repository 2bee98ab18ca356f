"""What looks at the library from outside: explanations, reports, gradient checks, the command line.

Nobody imports tools; the methods of `GradientTape` reach them through the table filled here. Each entry is a function that
imports the tool when it is first used.
"""

from collections.abc import Callable
from typing import Any

from gradtape.frontend.tape_tools import TOOLS


def _explain() -> Callable[..., Any]:
    from gradtape.tools.explain import explain

    return explain


def _nan_report() -> Callable[..., Any]:
    from gradtape.tools.nan_report import nan_report

    return nan_report


def _note_nan() -> Callable[..., Any]:
    from gradtape.tools.nan_report import note_nan

    return note_nan


def _non_finite() -> Callable[..., Any]:
    from gradtape.tools.nan_words import non_finite

    return non_finite


def _observe_debug() -> Callable[..., Any]:
    from gradtape.tools.operands import observe_debug

    return observe_debug


def _picture() -> Callable[..., Any]:
    from gradtape.tools.picture import picture

    return picture


def _repr_html() -> Callable[..., Any]:
    from gradtape.tools.picture import repr_html

    return repr_html


def _check() -> Callable[..., Any]:
    from gradtape.tools.tape_check import check

    return check


def _profile() -> Callable[..., Any]:
    from gradtape.tools.profile import profile

    return profile


def _observe_profile() -> Callable[..., Any]:
    from gradtape.tools.profile import observe_profile

    return observe_profile


TOOLS.fill(
    {
        "explain": _explain,
        "nan_report": _nan_report,
        "note_nan": _note_nan,
        "non_finite": _non_finite,
        "observe_debug": _observe_debug,
        "check": _check,
        "profile": _profile,
        "observe_profile": _observe_profile,
        "picture": _picture,
        "repr_html": _repr_html,
    }
)
