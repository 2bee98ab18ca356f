"""What looks at the library from outside: explanations, reports, gradient checks, the command line.

Nobody imports tools; the methods of `GradientTape` reach them through the table filled here, which imports a tool when it is
first used.
"""

from gradtape.core.observers import TOOLS

TOOLS.fill(
    {
        "explain": ("gradtape.tools.explain", "explain"),
        "nan_report": ("gradtape.tools.nan_report", "nan_report"),
        "note_nan": ("gradtape.tools.nan_report", "note_nan"),
        "non_finite": ("gradtape.tools.nan_words", "non_finite"),
        "float_event": ("gradtape.tools.nan_words", "float_event"),
        "observe_debug": ("gradtape.tools.operands", "observe_debug"),
        "check": ("gradtape.tools.tape_check", "check"),
        "check_function": ("gradtape.tools.function_check", "compare"),
        "profile": ("gradtape.tools.profile", "profile"),
        "observe_profile": ("gradtape.tools.profile", "observe_profile"),
        "picture": ("gradtape.tools.picture", "picture"),
        "repr_html": ("gradtape.tools.picture", "repr_html"),
    }
)
