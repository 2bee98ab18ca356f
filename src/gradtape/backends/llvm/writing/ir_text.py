"""LLVM IR as text: one function's instructions, written in order, and what a module needs around them.

An operand is a string (`%12`, `@name`, a literal) or, for integers, a Python int: index arithmetic with ints is done here,
not in the program. Loops and branches are written with memory cells (`alloca`) for what changes, which LLVM turns into
registers. Knows nothing of gradtape's programs.

One invariant: every instruction belongs to the current block, and a finished block ends with exactly one branch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager

Index = int | str  # an i64: known now, or an operand


class ModuleText:
    """Functions, declarations, constants and metadata of one module."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.globals: list[str] = []
        self._declared: dict[str, str] = {}
        self._library: dict[str, str] = {}
        self._uses: Counter[str] = Counter()
        self._constants: dict[Hashable, str] = {}
        self.constants: dict[str, bytes] = {}  # what it names of memory that the process keeps
        self.arrays: dict[int, tuple[object, str]] = {}  # arrays by their id, held here, and where they are
        self._metadata: list[str] = []
        self._kept: dict[str, None] = {}

    def keep(self, name: str) -> None:
        """Do not drop a function that nothing seems to use."""
        self._kept[name] = None

    def declare(self, name: str, signature: str) -> str:
        """A function from outside: `declare("expf", "float (float)")`; gives the name to call."""
        kind, _, rest = signature.partition(" ")
        self._declared[name] = f"declare {kind} @{name}{rest}"
        return f"@{name}"

    @property
    def declared(self) -> dict[str, str]:
        """What comes from outside: the declarations by name."""
        return dict(self._declared)

    def outside(self, name: str) -> str:
        """An object from outside, by its address."""
        self._declared[name] = f"@{name} = external global i8"
        return f"@{name}"

    def data(self, name: str, raw: bytes) -> str:
        """Constant data that is not in the text: memory of that name, whose address is known when the module is loaded."""
        self.constants[name] = raw
        self._declared[name] = f"@{name} = external constant [{len(raw)} x i8], align 64"
        return f"@{name}"

    def library(self, name: str, make: Callable[[], str]) -> str:
        """A helper function of our own, written once per module."""
        if name not in self._library:
            self._library[name] = ""  # so that a helper may use itself, and the order is callers last
            self._library[name] = make()
        return f"@{name}"

    def uses(self, name: str) -> int:
        """How often this was asked for a name, this time included."""
        self._uses[name] += 1
        return self._uses[name]

    def constant(self, key: Hashable, type: str, text: str, align: int = 64) -> str:
        """The address of constant data."""
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = f"@constant.{len(self._constants)}"
            self.globals.append(f"{name} = private unnamed_addr constant {type} {text}, align {align}")
        return name

    def metadata(self, text: str) -> str:
        """A new metadata node; `{}` in the text stands for the node itself."""
        name = f"!{len(self._metadata)}"
        self._metadata.append(f"{name} = {text.replace('{}', name)}")
        return name

    def __str__(self) -> str:
        parts = [*self.globals, *self._declared.values(), *self._library.values(), *self.functions, *self._metadata]
        if self._kept:
            names = ", ".join(f"ptr @{name}" for name in self._kept)
            parts.append(f'@llvm.compiler.used = appending global [{len(self._kept)} x ptr] [{names}], section "llvm.metadata"')
        return "\n".join(parts) + "\n"


class Writer:
    """One function in the making."""

    def __init__(self, module: ModuleText, name: str, params: str, result: str = "i32", attributes: str = "nounwind") -> None:
        self.module = module
        self.name, self.params = name, params
        self.head = f"define {result} @{name}({params}) {attributes} {{"
        self.cells: list[str] = []  # allocas, and addresses and numbers that never change: every block may use them
        self.seams: list[tuple[int, str]] = []  # where nothing is open: how many lines there are, and the current block
        self.lines: list[str] = ["body:"]
        self._count = 0
        self.current = "body"

    # --- instructions

    def fresh(self, stem: str = "") -> str:
        self._count += 1
        return f"%{stem}{self._count}" if stem else f"%v{self._count}"

    def mark(self) -> int:
        """The number of the newest register: those that come later have larger ones."""
        return self._count

    def do(self, text: str) -> None:
        self.lines.append("  " + text)

    def let(self, text: str) -> str:
        """An instruction with a result."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def early(self, text: str) -> str:
        """An instruction at the start of the function, for cells and addresses that do not change."""
        name = self.fresh()
        self.cells.append(f"  {name} = {text}")
        return name

    def cell(self, type: str, count: int = 1, align: int = 8) -> str:
        """A place on the stack."""
        return self.early(f"alloca {type}, i64 {count}, align {align}" if count != 1 else f"alloca {type}, align {align}")

    def load(self, type: str, address: str, extra: str = "") -> str:
        return self.let(f"load {type}, ptr {address}{extra}")

    def store(self, type: str, value: Index, address: str, extra: str = "") -> None:
        self.do(f"store {type} {value}, ptr {address}{extra}")

    def at(self, type: str, base: str, index: Index) -> str:
        """The address of element `index` of an array of `type`."""
        if index == 0:
            return base
        return self.let(f"getelementptr inbounds {type}, ptr {base}, i64 {index}")

    def copy(self, to: str, source: str, count: Index) -> None:
        """Bytes from one place to another that does not overlap it."""
        self.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {source}, i64 {count}, i1 false)")

    def clear(self, to: str, count: Index) -> None:
        """Zeros in so many bytes."""
        self.do(f"call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {count}, i1 false)")

    # --- index arithmetic

    def add(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if a == 0 or b == 0:
            return b if a == 0 else a
        return self.let(f"add nsw i64 {a}, {b}")

    def subtract(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a - b
        return a if b == 0 else self.let(f"sub nsw i64 {a}, {b}")

    def multiply(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        if a == 0 or b == 0:
            return 0
        if a == 1 or b == 1:
            return b if a == 1 else a
        return self.let(f"mul nsw i64 {a}, {b}")

    def quotient(self, a: Index, b: Index) -> Index:
        """a // b of numbers that are not negative."""
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        return a if b == 1 else self.let(f"udiv i64 {a}, {b}")

    def remainder(self, a: Index, b: Index) -> Index:
        """a % b of numbers that are not negative."""
        if isinstance(a, int) and isinstance(b, int):
            return a % b
        return 0 if b == 1 else self.let(f"urem i64 {a}, {b}")

    def smaller(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.let(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")

    def larger(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.let(f"call i64 @llvm.smax.i64(i64 {a}, i64 {b})")

    def from_end(self, index: Index, size: Index) -> Index:
        """A place of an axis, negative ones counted from its end, as in Python."""
        if isinstance(index, int):
            return index if index >= 0 else self.add(index, size)
        below = self.let(f"icmp slt i64 {index}, 0")
        return self.let(f"select i1 {below}, i64 {self.add(index, size)}, i64 {index}")

    def product(self, sizes: Iterable[Index]) -> Index:
        total: Index = 1
        for size in sizes:
            total = self.multiply(total, size)
        return total

    def settle(self, first: int) -> None:
        """Instructions from line `first` on are pure, of what never changes: they may stand at the start of the function."""
        self.cells += self.lines[first:]
        del self.lines[first:]

    # --- blocks

    def seam(self) -> None:
        """The function may be cut here (`parts.py`): between two operations of the outermost block."""
        self.seams.append((len(self.lines), self.current))

    def label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.current = label

    def go(self, label: str, extra: str = "") -> None:
        self.do(f"br label %{label}{extra}")

    def branch(self, flag: str, then: str, orelse: str, extra: str = "") -> None:
        self.do(f"br i1 {flag}, label %{then}, label %{orelse}{extra}")

    @contextmanager
    def loop(self, count: Index, step: int = 1, start: Index = 0, extra: str = "") -> Iterator[str]:
        """Runs its body for start, start + step, … below `count`; `extra` is metadata for the branch back."""
        head, body, after = self.label("head"), self.label("loop"), self.label("after")
        counter = self.fresh("i")
        following = self.fresh()
        before = self.current
        # (a branch on a constant, and not no branch: LLVM sees through it, and the loop is written in one way)
        if isinstance(start, int) and isinstance(count, int):
            self.branch("true" if start < count else "false", head, after)
        else:
            self.branch(self.let(f"icmp slt i64 {start}, {count}"), head, after)
        self.start(head)
        # the line of the phi is left free: what comes back to it is known only when the body is written
        place = len(self.lines)
        self.lines.append("")
        self.go(body)
        self.start(body)
        yield counter
        end = self.current
        self.do(f"{following} = add nuw nsw i64 {counter}, {step}")
        again = self.let(f"icmp slt i64 {following}, {count}")
        self.branch(again, head, after, extra)
        self.lines[place] = f"  {counter} = phi i64 [ {start}, %{before} ], [ {following}, %{end} ]"
        self.start(after)

    @contextmanager
    def when(self, flag: str, extra: str = "") -> Iterator[None]:
        """Runs its body if the flag is set."""
        then, after = self.label("then"), self.label("after")
        self.branch(flag, then, after, extra)
        self.start(then)
        yield
        self.go(after)
        self.start(after)

    @property
    def text(self) -> str:
        """The function as it is written so far."""
        return "\n".join([self.head, "start:", *self.cells, "  br label %body", *self.lines, "}"])

    def finish(self) -> None:
        """Give the function to the module."""
        self.module.functions.append(self.text)
