"""The page `docs/reference/op_coverage.md`: how many samples of each op every check runs on. Written by

    python -m tests.harness.coverage

from the same table the tests are generated from, so a number on the page is a number of tests.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from gradtape.core.opdef import Composite, Op
from gradtape.ops import registry
from tests.harness.cases import Case, all_cases
from tests.harness.checks import CHECKS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "op_coverage.md"
COLUMNS = tuple(dict.fromkeys(check.column for check in CHECKS))
# columns that must not be empty: for everything, for what is differentiable, and for primitives
ALWAYS = ("forward", "infer")
SLOPES = ("first", "second", "jvp")
PRIMITIVES = ("batch",)
# ops whose value does not move with the input their derivative is for: compared with another formula by a test of their own
BY_HAND = {"reparameterized_gamma": "tests/ops/test_implicit.py"}

INTRODUCTION = """# What is checked of each op

Each number counts the samples of that op on which the checks of the column run; every one is a generated test. Written by
`python -m tests.harness.coverage`; a test keeps it current.

* **forward** – repeatable, finite, NumPy scalars for 0-d, equal to each `impl` on bare arrays and to its `expand`
* **infer** – the type rule against the real shape and dtype, in double and single precision
* **first**, **second** – derivatives against finite differences (1e-6), each input alone and all together, rules on bare
  arrays against rules on tensors, nested tapes against a persistent one; samples at kinks count only their identities
* **jvp** – forward mode against reverse mode (1e-12), forward over reverse, reverse over forward
* **batch** – batch rule and `vectorized_map` (also of gradients) against a loop, each input alone and all together
* **float32** – dtype kept, values and gradients close to float64
* **edge cases** – integers, memory layouts, a repeated argument, empty arrays, lanes masked by `where`, nothing written
  to inputs, no gradient where there is none
* **errors** – promised type and text, nothing recorded
"""


def smooth(case: Case) -> bool:
    return not case.sample.kinks


def counts() -> dict[Op | Composite, Counter[str]]:
    """For each op or composite, the number of samples per column (at kinks, orders 1 and 2 do not count)."""
    table: dict[Op | Composite, Counter[str]] = {owner: Counter() for owner in (*registry.OPS, *registry.COMPOSITES)}
    for case in all_cases():
        covered = {c.column for c in CHECKS if c.applies(case) and (smooth(case) or c.column not in ("first", "second"))}
        table[case.owner].update(covered)
    return table


def holes() -> list[str]:
    """Columns that are empty and must not be, as "op: column"."""
    found = []
    for owner, row in counts().items():
        needed = [*ALWAYS, *(SLOPES if owner.differentiable else ()), *(PRIMITIVES if isinstance(owner, Op) else ())]
        skipped = ("first", "second") if owner.name in BY_HAND else ()
        found += [f"{owner.name}: {column}" for column in needed if not row[column] and column not in skipped]
    return found


def page() -> str:
    """The text of the page."""
    lines = [INTRODUCTION]
    titles = (("Primitives", Op), ("Composites", Composite))
    for title, kind in titles:
        lines += [f"## {title}", "", f"| op | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
        for owner, row in sorted(counts().items(), key=lambda item: item[0].name):
            if isinstance(owner, kind):
                cells = [str(row[column] or "–") for column in COLUMNS]
                if owner.name in BY_HAND:
                    cells = [
                        "by hand" if column in ("first", "second") else c for column, c in zip(COLUMNS, cells, strict=True)
                    ]
                if not owner.differentiable:
                    cells = ["none" if column in SLOPES else cell for column, cell in zip(COLUMNS, cells, strict=True)]
                lines.append(f"| `{owner.name}` | {' | '.join(cells)} |")
        lines.append("")
    lines.append("`none`: the op has no derivative, and says why. `by hand`: it has a test of its own.\n")
    return "\n".join(lines)


def summary() -> str:
    """One line per column for the terminal."""
    table = counts()
    parts = [f"{column} {sum(bool(row[column]) for row in table.values())}" for column in COLUMNS]
    return f"{len(registry.OPS)} primitives, {len(registry.COMPOSITES)} composites; checked: {', '.join(parts)}"


def main() -> None:
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page())
    print(f"wrote {PAGE}: {summary()}")
    for hole in holes():
        print("hole:", hole)


if __name__ == "__main__":
    main()
