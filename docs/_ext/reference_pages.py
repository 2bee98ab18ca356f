"""The reference as Markdown: chapters of entries, one file each, written before the site is built; and the index of all names.

What an entry says is in `reference.py`; here is only how it looks.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from docs._ext.reference import ROOT, Entry, entries

from gradtape.core.hinting import internal_names

# chapter → (title, words, modules whose names belong to it); top-level names go by the module that defines them
CHAPTERS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "tensors": (
        "Tensors and variables", "Values, their types and shapes, and state that changes.",
        ("core.tensor", "dtypes", "ir.types", "ops.create", "variables", "interop.protocols", "surface",
         "ops.stop", "train.module", "train.saving", "train.initial"),
    ),
    "derivatives": (
        "Derivatives", "Tapes, functional forms, custom derivatives, checks.",
        ("tape.gradient_tape", "tape.functional", "tape.custom_gradient", "tape.jacobian", "tape.tape_messages",
         "tape.graph_gradients", "tools", "ad.", "tape.accumulator"),
    ),
    "functions": (
        "Functions and control flow", "Compiled functions, loops and branches as functions, lists of tensors.",
        ("functions", "tape.control_flow", "tape.tensor_array"),
    ),
    "elementwise": (
        "Mathematics, element by element", "Arithmetic, powers, trigonometry, rounding, comparison and logic.",
        ("ops.elementwise", "ops.compare", "ops.select", "ops.composite", "ops.activations", "ops.complex"),
    ),
    "special": ("Special functions", "Gamma, error, Bessel and the like.", ("ops.special", "ops.incomplete", "ops.bessel")),
    "reductions": (
        "Reductions, scans and segments", "From many numbers to few, or running along an axis.",
        ("ops.reduce", "ops.cumulative", "ops.segment", "ops.clipping", "variables.gradient_clipping"),
    ),
    "arrays": (
        "Arrays: shape, indexing, sorting", "Reshaping, joining, slicing, gathering and scattering, order.",
        ("ops.shape", "ops.extending", "ops.index", "ops.scatter", "ops.blocks", "ops.sorting"),
    ),
    "products": ("Products", "Matrix products, contractions, norms.", ("ops.contract", "ops.matmul", "ops.matrix")),
}  # fmt: skip
SPACES = {
    "math": ("gt.math", "The mathematical functions that have no place at the top level; those that have are in both."),
    "nn": ("gt.nn", "Layers as functions: activations, convolution, pooling, normalisation, losses."),
    "linalg": ("gt.linalg", "Matrices in the last two axes, batches in front of them; derivatives to any order."),
    "image": ("gt.image", "Sizes, colours and measures of images, and random changes of them."),
    "signal": ("gt.signal", "Fourier and cosine transforms, windows, frames, spectrograms."),
    "random": ("gt.random", "Random numbers that can be repeated."),
    "bitwise": ("gt.bitwise", "Bits of integers."),
    "optimizers": ("gt.optimizers", "Steps from gradients, and learning-rate schedules."),
    "initializers": ("gt.initializers", "First values of variables."),
    "train": ("gt.train", "Checkpoints."),
    "autodiff": ("gt.autodiff", "Forward mode."),
    "debugging": ("gt.debugging", "Assertions and checks."),
    "test": ("gt.test", "For tests of gradients."),
    "nest": ("gt.nest", "Structures: lists, tuples and dicts of tensors."),
    "errors": ("gt.errors", "Exceptions; each is also the Python builtin that fits."),
    "config": ("gt.config", "Settings of the process."),
    "autograph": ("gt.autograph", "How Python functions are rewritten."),
    "scipy": ("gt.scipy", "SciPy's special functions and log densities on tensors."),
    "data": ("gt.data", "Pipelines that read, shuffle, batch and prefetch."),
    "distribute": ("gt.distribute", "Many processes."),
    "mixed_precision": ("gt.mixed_precision", "Half precision with a scaled loss."),
}
STATS = """
`gt.scipy.stats` has `norm`, `t`, `gamma`, `beta`, `poisson` and `multivariate_normal` with SciPy's `logpdf` or `logpmf`, `pdf`
and, where there is one in closed form, `cdf`; arguments and shapes are SciPy's.

```python
>>> float(gt.grad(lambda scale: gt.scipy.stats.norm.logpdf(2.0, 0.0, scale))(1.0))
3.0
```
"""


def chapter_of(entry: Entry) -> str:
    """The chapter that lists a name."""
    parts = entry.name.split(".")
    if len(parts) > 2:
        return parts[1]
    module = entry.value.__module__.removeprefix("gradtape.")
    homes = [(len(m), key) for key, (_, _, modules) in CHAPTERS.items() for m in modules if module.startswith(m)]
    return max(homes)[1] if homes else "tensors"


def chapters() -> dict[str, list[Entry]]:
    """Entries by chapter, in the order of the reference."""
    found: dict[str, list[Entry]] = {key: [] for key in (*CHAPTERS, *SPACES)}
    for entry in entries().values():
        found[chapter_of(entry)].append(entry)
    return {key: sorted(listed, key=lambda e: e.name.lower()) for key, listed in found.items() if listed}


def _title(key: str) -> tuple[str, str]:
    return CHAPTERS[key][:2] if key in CHAPTERS else SPACES[key]


def entry_text(entry: Entry) -> str:
    """One name, as Markdown."""
    kind = (
        "exception" if entry.is_class and issubclass(entry.value, BaseException) else "class" if entry.is_class else "function"
    )
    shown = entry.signature if kind != "exception" else entry.name
    lines = [f"````{{py:{kind}}} {shown}", ":no-index-entry:" if kind == "exception" else "", entry.summary, ""]
    lines += [entry.prose, ""] if entry.prose and "Arguments:" not in entry.prose and "Args:" not in entry.prose else []
    if entry.prose and ("Arguments:" in entry.prose or "Args:" in entry.prose):
        lines += ["```text", entry.prose, "```", ""]
    elif entry.arguments:
        lines += [":::{rubric} Arguments", ":class: facts", ":::", ""]
        lines += [
            f"- `{name}`" + (f" ({_code(kind)})" if kind else "") + f": {words}" for name, kind, words in entry.arguments
        ] + [""]
    if entry.is_class and kind == "class":
        lines += _methods(entry)
    facts = []
    if entry.shapes:
        facts.append("* **Shapes:** " + "; ".join(f"`{s}`" for s in entry.shapes))
    if entry.gradient:
        facts.append(f"* **Gradient:** {entry.gradient}")
    facts += [f"* **Raises** `{kind}`: {_code(message)}" for kind, message in entry.raises[:4]]
    if entry.aliases:
        facts.append("* **Also:** " + ", ".join(f"`{a}`" for a in entry.aliases))
    lines += [*facts, ""] if facts else []
    if entry.example:
        lines += ["```python", entry.example, "```", ""]
    if entry.source:
        path, line = entry.source
        inside = path.relative_to(ROOT).as_posix()
        lines += [f"[Source: {inside}:{line}](../../../{inside}#L{line})", ""]
    return "\n".join([*lines, "````", ""])


def _code(text: str) -> str:
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def _methods(entry: Entry) -> list[str]:
    """Methods and properties that say what they do, with their arguments."""
    rows = []
    for name in sorted({*dir(entry.value)} - internal_names(entry.value)):
        if name.startswith("_"):
            continue
        member = inspect.getattr_static(entry.value, name)
        home = next((c for c in entry.value.__mro__ if name in vars(c)), None)
        if home is None or not home.__module__.startswith("gradtape") or not hasattr(entry.value, name):
            continue  # (a name that is there only to say what to use instead is not there)
        value = getattr(entry.value, name)
        words = (inspect.getdoc(value) or "").partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        try:
            arguments = [
                str(p).partition(":")[0].partition("=")[0].strip() for p in inspect.signature(value).parameters.values()
            ]
            bound = isinstance(member, classmethod | staticmethod)
            shown = f"{name}({', '.join(arguments if bound else arguments[1:])})"
        except (TypeError, ValueError):
            shown = name
        if words and not isinstance(member, int | float | str) and (callable(value) or isinstance(member, property)):
            rows.append(f"| `{shown}` | {words} |")
    return ["| has | |", "|---|---|", *rows, ""] if rows else []


def write(folder: Path) -> list[str]:
    """Write one page per chapter; the names of the pages, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    for key, listed in chapters().items():
        title, words = _title(key)
        parts = [f"# {title}\n", words + "\n", "`import gradtape as gt` stands before every example.\n"]
        if key == "scipy":
            parts.append(STATS)
        for entry in listed:
            parts += [
                f"({entry.name})=\n## {entry.name.removeprefix('gt.') if key in SPACES else entry.name}\n",
                entry_text(entry),
            ]
        text = "\n".join(parts)
        path = folder / f"{key}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # pages that did not change are not built again
            path.write_text(text, encoding="utf-8")
        pages.append(key)
    for stale in folder.glob("*.md"):
        if stale.stem not in pages:
            stale.unlink()
    return pages
