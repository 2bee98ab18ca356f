"""The numbers of `make house` stay below their bounds, and the measures see what they are there to see.

A bound is lowered when its number has shrunk (`python -m tests.structure.house --tighten`) and never raised.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.structure.house import graph, measures, names
from tests.structure.house.calls import small_gradient
from tests.structure.house.measures import Measure, bounds
from tests.structure.house.op_names import op_strings
from tests.structure.house.tree import Tree
from tests.structure.modules import ROOT


@pytest.fixture(scope="module")
def values() -> dict[str, float]:
    """Measured in a process of its own: what other tests loaded or left changes no way through the rooms."""
    command = [sys.executable, "-m", "tests.structure.house", "--json"]
    return json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def test_bounds(values: dict[str, float]) -> None:
    """One test, so that the source is measured once."""
    assert set(bounds()) == set(values) - {"files", "core_lines", "new_lines", "cycle_at_run_time"}
    beyond = {
        key: f"{values[key]:g}, bound {bound:g}: `python -m tests.structure.house --show {key}` lists the places"
        for key, bound in bounds().items()
        if not Measure(key, key, values[key], None, at_least=key == "comments").within(bound)
    }
    assert beyond == {}


# -- the measures themselves -------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A package with one of each fault."""
    files = {
        "__init__.py": "",
        "linalg.py": '"""Public."""\nfrom package.ops.linalg import solve as solve\n',
        "ops/__init__.py": "",
        "ops/linalg.py": "SOLVE = 'solve'\ndef solve(): ...\n",
        "ad/__init__.py": "",
        "ad/a.py": "from package.ad import b\nSLOT: list = []\nOBSERVERS = []\n\nclass Plan: ...\n",
        "ad/b.py": "def late():\n    from package.ad.c import x\n\nclass Plan: ...\nclass Other: ...\n",
        "ad/c.py": "import typing\nif typing.TYPE_CHECKING:\n    from package.ad.a import Plan\nx = ['solve', 'solved']\n",
        "ad/filler.py": (
            "from package.ad import a, again\nagain.SLOT.append(1)\n"
            "def observe():\n    a.OBSERVERS.append(2)\n    a.OBSERVERS.remove(2)\n"
        ),
        "ad/again.py": "from package.ad.a import SLOT as SLOT\n",
        "ad/words.py": (
            '"""Nothing was found here.\n# no comment\n"""\n# a comment\n'
            "from typing import Any\n"
            "def f(self, found: Any, y: int, *rest: Any) -> Any:\n"
            "    made = f'{found}'  # beside code\n    return made\n"
        ),
        "tools/__init__.py": "",
        "tools/words.py": "",
    }
    for name, text in files.items():
        path = tmp_path / "package" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Tree(tmp_path / "package")


def test_cycles_count_late_imports_and_imports_for_types(tree: Tree) -> None:
    assert graph.cycles(graph.arrows(tree)) == [["package.ad.a", "package.ad.b", "package.ad.c"]]
    assert graph.cycles(graph.arrows(tree, for_types=False)) == []


def test_cycles_are_the_strongly_connected_components() -> None:
    arrows = {1: {2}, 2: {3}, 3: {1, 4}, 4: {5}, 5: {4}, 6: {6, 1}, 7: set()}
    assert graph.cycles({str(a): {str(b) for b in targets} for a, targets in arrows.items()}) == [["1", "2", "3"], ["4", "5"]]


def test_slots_are_filled_elsewhere_and_stay_filled(tree: Tree) -> None:
    assert graph.late_slots(tree) == ["package.ad.a.SLOT, filled by package.ad.filler:2"]


NAMES_OF_OPS = """
def direct(op): return op.name == "solve"
def turned(operation): return "solve" != operation.op.name
def member(record): return record.op.name in ("other", "solve")
def variable(op):
    name = op.name
    return name == "solve"
def chosen(op, kind=""): return (op.name if op else kind) == "solve"
FAILING = frozenset({"solve"})
def table(op): return op.name not in FAILING
_COSTS = {"solve": 3, "x": "solve"}
def cost(op): return _COSTS.get(op.name) or _COSTS[op.name]
def callee(other: str): return other == "solve"
def caller(op): return callee(op.name)
def result(op): return str(op.name)
def of_result(op): return result(op).startswith("solve")
class Cut:
    reason: str
    place: str
def cut(op): return Cut("why", op.name)
def of_cut(cut): return cut.place == "solve"
def by_name(): return op_by_name("solve")
def of_op(cut): return cut.op == "solve"
def matched(op):
    match op.name:
        case "solve": return 1
def several(ops): return [name for name in [op.name for op in ops] if name == "solve"]
"""

OTHER_NAMES = """
def event(frame, event: str): return event == "solve"
def attribute(attrs): return attrs["solve"], attrs.get("solve")
def method(code, names=("solve",)): return code.append("solve")
MODES = {"solve": 1}
def mode(mode: str, op): return MODES[mode], {"name": op.name, "kind": "solve"}
def message(op): return f"{op.name} has no solve", "solve"
def identity(op): return op is SOLVE
"""


def test_strings_that_stand_for_an_op(tree: Tree) -> None:
    """One string in each function or table of the first text, none of the second, and none in the room of ops."""
    for name, text in {"ad/names.py": NAMES_OF_OPS, "ad/others.py": OTHER_NAMES, "ops/names.py": NAMES_OF_OPS}.items():
        (tree.source / name).write_text(text)
    counted = op_strings(Tree(tree.source), frozenset({"solve"}))
    expected = [n for n, line in enumerate(NAMES_OF_OPS.splitlines(), 1) if '"solve"' in line]
    assert counted == {"ad/names.py": [(line, "solve") for line in expected]}


def test_homonyms(tree: Tree) -> None:
    assert names.class_homonyms(tree) == {"Plan": ["ad/a.py:5", "ad/b.py:4"]}
    assert names.module_homonyms(tree) == {"words": ["ad/words.py", "tools/words.py"]}


def test_parameters_words_and_comments(tree: Tree) -> None:
    untyped, total = names.untyped_parameters(tree)
    assert (untyped.total(), total.total()) == (1, 2)
    assert {name: files.total() for name, files in names.vague_names(tree).items()} == {"found": 2, "made": 2}
    words = tree.by_name["package.ad.words"]
    assert (words.comments, words.lines, words.code) == (["# a comment"], 7, 7)
    (tree.source / "ad/words.py").write_text(words.text.replace("# a comment", "# a comment\n\n# another"))
    words = Tree(tree.source).by_name["package.ad.words"]
    assert (len(words.comments), words.lines, words.code) == (2, 8, 7)


def test_hops_name_both_rooms() -> None:
    crossings, calls = small_gradient()
    assert calls > len(crossings) > 0
    assert all(caller != callee for caller, callee, _ in crossings)
    assert any(callee == "rule" for _, callee, _ in crossings)


def test_bounds_only_get_closer_to_the_goal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "BOUNDS", tmp_path / "bounds.json")
    measures.BOUNDS.write_text(json.dumps({"lines": 100, "hops": 60, "any": 30.0, "comments": 1.0}))
    rows = [
        Measure("lines", "", 90, 50),
        Measure("hops", "", 70, 60),
        Measure("any", "", 21.23, 10, percent=True),
        Measure("comments", "", 2.56, 4, at_least=True, percent=True),
        Measure("files", "", 7, None),
    ]
    assert measures.tighten(rows) == {"lines": (100, 90), "any": (30.0, 21.3), "comments": (1.0, 2.5)}
    assert bounds() == {"lines": 90, "hops": 60, "any": 21.3, "comments": 2.5}
