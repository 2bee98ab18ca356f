"""What a record of each op saves, read off the parameter names of its rules (see `core/opdef.py`).

A `SavePlan` lists the values some rule of the op needs, in one order shared by dispatch (which saves) and binding (which
hands them to the rules). A value is kept only if a rule of a watched input asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import cache
from typing import Any, NamedTuple

from gradtape.core.opdef import Op, Rule

Saver = Callable[[Sequence[Any], Any], tuple[Any, ...]]
SPECIAL = frozenset(("ct", "t", "tangents", "needed", "buffer"))


class Like(NamedTuple):
    """Shape and dtype of a value that was not kept."""

    shape: Any
    dtype: Any

    @property
    def ndim(self) -> int:
        return len(self.shape)


def shape_of(parameter: str, inputs: Container[str]) -> str | None:
    """The input whose shape a rule's parameter means: `x` for `x_shape`; None for any other parameter."""
    base = parameter.removesuffix("_shape")
    return base if base != parameter and base in inputs else None


def parameters(rule: Rule) -> tuple[str, ...]:
    """The names of a rule's parameters."""
    code = rule.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


class SavePlan:
    """`entries[k]` = (input index, or -1 for the output; True if only its spec is kept); `needs[i]` = entries used by
    the rules of input i."""

    __slots__ = ("entries", "names", "needs", "op", "savers", "variadic")

    def __init__(self, op: Op) -> None:
        self.op = op
        inputs = {name.lstrip("*"): i for i, name in enumerate(op.args)}
        self.variadic = op.args[-1].startswith("*") if op.args else False
        self.names: dict[str, int] = {}
        self.entries: list[tuple[int, bool]] = []
        # the first entries of elementwise ops are always (x, y, out): the fast path of dispatch counts on it
        if op.kind == "elementwise":
            for name in (*inputs, "out"):
                self._entry(name, inputs)
        needs: list[frozenset[int]] = []
        # what a rule needs, its parameters say: a value that no rule of a watched input names is not kept alive by the tape
        for i in range(len(op.args)):
            rules = _rules_of(op, i)
            wanted = [p for rule in rules for p in parameters(rule)]
            entries = {self._entry(p, inputs) for p in wanted if p not in SPECIAL}
            needs.append(frozenset(e for e in entries if e is not None))
        self.needs = tuple(needs)
        self.savers = Savers(self)

    def _entry(self, name: str, inputs: dict[str, int]) -> int | None:
        """The position of a saved value, added on first sight; None for attributes."""
        spec = name.endswith("_spec")
        base = name[:-5] if spec else name
        # an attribute: the record has all of them anyway
        if base != "out" and base not in inputs:
            return None
        if name not in self.names:
            self.names[name] = len(self.entries)
            self.entries.append((-1 if base == "out" else inputs[base], spec))
        return self.names[name]

    def kept(self, watched: tuple[bool, ...]) -> tuple[bool, ...]:
        """Which entries a record keeps when these inputs are watched."""
        wanted: set[int] = set()
        for i, needs in enumerate(self.needs):
            # the last name of a variadic op stands for all further inputs
            if any(watched[i:]) if self.variadic and i == len(self.needs) - 1 else watched[i]:
                wanted |= needs
        return tuple(k in wanted for k in range(len(self.entries)))

    def keeps(self, watched: tuple[bool, ...], index: int) -> bool:
        """Whether the value itself of input `index` (-1: the output) is kept."""
        return any(keep and entry == (index, False) for keep, entry in zip(self.kept(watched), self.entries, strict=True))

    def collect(self, inputs: Sequence[Any], nodes: Sequence[Any], out: Any) -> tuple[Any, ...]:
        """The saved values of one record: None where nothing asks for them."""
        # only what the rules of *watched* inputs name is kept: x * w with a constant x keeps x and not w
        return self.savers[sum([1 << i for i, node in enumerate(nodes) if node is not None])](inputs, out)

    def saver(self, mask: int) -> Saver:
        """`collect` for one pattern of watched inputs (bit i: input i), as one expression: it runs for every record."""
        watched = tuple(bool(mask >> i & 1) for i in range(max(len(self.needs), mask.bit_length())))
        kept = zip(self.kept(watched), self.entries, strict=True)
        values = "".join(f"{self._source(*entry) if keep else None}, " for keep, entry in kept)
        return expression(f"lambda inputs, out: ({values})", {"like": like})

    def _source(self, index: int, spec: bool) -> str:
        variadic = self.variadic and index == len(self.needs) - 1
        value = "out" if index < 0 else f"tuple(inputs[{index}:])" if variadic else f"inputs[{index}]"
        return f"like({value})" if spec else value


def expression(text: str, space: dict[str, Any]) -> Any:
    """The value of an expression that the library wrote, under its own name: it is no code of the user's."""
    return eval(compile(text, "<gradtape expression>", "eval"), space)  # noqa: S307  (our own templates)


class Savers(dict[int, Saver]):
    """Pattern of watched inputs → what a record of it saves, made on first use."""

    def __init__(self, plan: SavePlan) -> None:
        super().__init__()
        self.plan = plan

    def __missing__(self, mask: int) -> Saver:
        saver = self[mask] = self.plan.saver(mask)
        return saver


def like(value: Any) -> Any:
    """The spec of a value, or of each of several."""
    return tuple([like(v) for v in value]) if value.__class__ is tuple else Like(value.shape, value.dtype)


def _rules_of(op: Op, i: int) -> list[Rule]:
    """The reverse rules that run when input i is asked for."""
    if op.vjp is not None:
        return [op.vjp]
    rules: list[Rule] = []
    for table in (op.partials, op.products, op.vjps):
        rule: Any = table[i] if table else None
        if callable(rule):
            rules.append(rule)
    return rules


save_plan = cache(SavePlan)  # the plan of an op, made on first use
