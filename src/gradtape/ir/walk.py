"""Walking through programs and making new ones: the one place that knows how regions nest.

Reading: `walk`, `uses`, `values_used`, `free`, `of_unknown_rank`, `has_effect`. Writing: a pass is a function
`visit(rebuild, operation)` that copies, replaces or drops one operation; `rebuild(block, visit)` runs it over a block, and
`Rebuild.copy` over the regions and callees of whatever is copied:

    def visit(scope: Rebuild, operation: Operation) -> None:
        if operation.op is NEGATIVE and (inner := scope[operation.operands[0]].producer) and inner.op is NEGATIVE:
            scope.replace(operation, inner.operands)  # -(-x) = x
        else:
            scope.copy(operation)

    new = rebuild(old, visit)

Values of the old block are translated by `scope[value]`; values given to `copy`, `emit` and `replace` are always new ones.
The old block is never changed, and a new block shares no value with it. Nothing here knows what an operation means.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from gradtape.ir.dims import Dim, fresh_symbol, match, substitute, symbol
from gradtape.ir.graph import Block, Layout, Location, Operation, Value
from gradtape.ir.sizes import defined_sizes, sizes_of
from gradtape.ir.types import UNKNOWN, ListSpec, TensorSpec

Visit = Callable[["Rebuild", Operation], object]
Groups = dict[str, list[Value]]


# --- reading


def callee_of(operation: Operation) -> Block | None:
    """The block a call runs; None for every other operation."""
    callee = operation.attrs.get("callee")
    return callee if isinstance(callee, Block) else None


def walk(block: Block) -> Iterator[Operation]:
    """Every operation, an operation before those in its regions; callees are not entered (see `callees`)."""
    rest = [iter(block.operations)]  # of the blocks around: nesting may be as deep as the program is long
    while rest:
        for operation in rest[-1]:
            yield operation
            if operation.regions:
                rest.append(chain.from_iterable([region.operations for region in operation.regions.values()]))
                break
        else:
            rest.pop()


def blocks(block: Block) -> Iterator[Block]:
    """The block itself and all regions in it, outer before inner; callees are not entered."""
    waiting = [block]
    while waiting:
        block = waiting.pop()
        yield block
        waiting += [region for operation in reversed(block.operations) for region in reversed(operation.regions.values())]


def callees(block: Block) -> list[Block]:
    """Every block called from this one, directly or not, once each, in order of first call."""
    called: dict[Block, None] = {}
    waiting = [block]
    while waiting:
        direct = [c for operation in walk(waiting.pop()) if (c := callee_of(operation)) is not None and c not in called]
        called |= dict.fromkeys(direct)
        waiting += reversed(list(dict.fromkeys(direct)))
    return list(called)


def program(block: Block) -> Iterator[Operation]:
    """Every operation of a program: regions and, once each, callees."""
    for part in (block, *callees(block)):
        yield from walk(part)


def values_used(block: Block) -> set[Value]:
    """The values the block's own operations and its results read."""
    used = {value for operation in block.operations for value in operation.operands}
    used.update(block.results)
    return used


def uses(block: Block) -> dict[Value, list[tuple[Operation | None, int]]]:
    """Who reads each value of the block: (operation, operand index), or (None, i) for result i of the block."""
    readers: dict[Value, list[tuple[Operation | None, int]]] = {value: [] for value in block.params}
    for operation in block.operations:
        for i, value in enumerate(operation.operands):
            readers.setdefault(value, []).append((operation, i))
        for value in operation.results:
            readers.setdefault(value, [])
    for i, value in enumerate(block.results):
        readers.setdefault(value, []).append((None, i))
    return readers


def free(operations: Iterable[Operation], results: Iterable[Value] = ()) -> list[Value]:
    """What a run of operations (and results) reads but does not define, in order of first use."""
    defined: set[Value] = set()
    outside: dict[Value, None] = {}
    for operation in operations:
        # dictionaries as ordered sets: the order decides the parameters of what is made of it, and programs must be the same
        # each time
        outside |= dict.fromkeys(value for value in operation.operands if value not in defined)
        defined.update(operation.results)
    outside |= dict.fromkeys(value for value in results if value not in defined)
    return list(outside)


def of_unknown_rank(block: Block) -> bool:
    """Whether some value has a rank that only run time knows. Passes reason with shapes, so they leave such a program alone,
    which the reference backend runs."""
    for inner in blocks(block):
        for value in (*inner.params, *[value for operation in inner.operations for value in operation.results]):
            if isinstance(value.type, TensorSpec) and value.type.shape is UNKNOWN:
                return True
    return False


def has_effect(operation: Operation) -> bool:
    """True when the operation, something in its regions or something it calls has a side effect."""
    if operation.op.effect:
        return True
    if not operation.regions and "callee" not in operation.attrs:
        return False
    pending, called = [operation], set()
    while pending:
        top = pending.pop()
        if top.op.effect:
            return True
        for region in top.regions.values():
            pending += region.operations
        if (callee := callee_of(top)) is not None and callee not in called:
            called.add(callee)
            pending += callee.operations
    return False


# --- named groups as dictionaries, to edit them by name


def groups_of(values: Sequence[Value], layout: Layout) -> Groups:
    """The values by group; without a layout they are one group named ""."""
    if not layout:
        return {"": list(values)}
    groups: Groups = {}
    start = 0
    for name, count in layout.items():
        groups[name] = list(values[start : start + count])
        start += count
    return groups


def layout_of(groups: Mapping[str, Sequence[Any]]) -> dict[str, int]:
    """How many values each group has; {} for the one unnamed group."""
    return {} if set(groups) <= {""} else {name: len(values) for name, values in groups.items()}


def flat(groups: Mapping[str, Sequence[Value]]) -> list[Value]:
    """The values of all groups, one after the other."""
    return [value for values in groups.values() for value in values]


def insert_param(block: Block, group: str, type: Any, name: str | None = None) -> Value:
    """One more parameter, at the end of any group (a new group comes last)."""
    groups = groups_of(block.params, block.layout)
    value = Value(type, block, 0, name)
    groups.setdefault(group, []).append(value)
    block.params = flat(groups)
    block.layout = layout_of(groups)
    # those behind the new one have moved
    for i, param in enumerate(block.params):
        param.index = i
    return value


def _kept(values: Sequence[Value], layout: Layout, keep: Collection[Value]) -> Groups:
    return {name: [v for v in members if v in keep] for name, members in groups_of(values, layout).items()}


# --- writing


class Rebuild:
    """A new block in the making, from an old one: the translation of values, and the ways to add operations.

    `memory` is a dictionary for the pass's own notes on this block; each region gets its own, empty at first. A value that
    stands for another one may have other sizes in its type: what follows says them in its way, where nobody has the old ones.
    """

    __slots__ = ("_callees", "_map", "_sizes", "loc", "memory", "new", "old", "visit")

    def __init__(
        self, old: Block, visit: Visit | None = None, keep: Collection[Value] | None = None,
        callees: dict[Block, Block] | None = None,
    ) -> None:  # fmt: skip
        """`keep`: the parameters that stay (default all). `callees`: old → new callee, shared by all scopes of a pass."""
        self.old = old
        self.visit: Visit = visit or Rebuild.copy
        self.memory: dict[Any, Any] = {}
        self.loc: Location | None = None  # given to new operations: where the operation being visited came from
        self._callees: dict[Block, Block] = {} if callees is None else callees
        self._map: dict[Value, Value] = {}
        self._sizes: dict[str, Any] = {}  # symbols of the old block that no value of the new one has: what they are there
        self.new = Block(name=old.name)
        params = old.params
        self.new.layout = dict(old.layout)
        if keep is not None:
            groups = _kept(old.params, old.layout, keep)
            params, self.new.layout = flat(groups), layout_of(groups)
        for param in params:
            self._map[param] = self.new.add_param(param.type, param.name)

    def __getitem__(self, value: Value) -> Value:
        """The new value that stands for an old one."""
        return self._map[value]

    def __setitem__(self, value: Value, new: Value) -> None:
        self._map[value] = new
        # `tuple.__eq__`: asked for every value of every pass, and a shape's own comparison is slow
        if new.type is not value.type and not tuple.__eq__(new.type.shape, value.type.shape):
            self._note_sizes(value, new)

    def _note_sizes(self, old: Value, new: Value) -> None:
        if not sizes_of(old) or new.type.__class__ is not TensorSpec:
            return
        results = (value for operation in self.new.operations for value in operation.results)
        known = {name for value in (*self.new.params, *results) for name in sizes_of(value)}
        for size, other in zip(old.type.shape, new.type.shape, strict=True):
            # as long as some value of the new block has the old name, the name means something there
            if size.__class__ is Dim and size.name is not None and size.name not in known and size != other:
                self._sizes.setdefault(size.name, other)

    def __contains__(self, value: Value) -> bool:
        return value in self._map

    def operands(self, operation: Operation) -> list[Value]:
        """An old operation's operands, translated."""
        mapping = self._map
        return [mapping[value] for value in operation.operands]

    def groups(self, operation: Operation) -> Groups:
        """An old operation's operands by group, translated: change them and give them to `copy(operands=...)`."""
        return groups_of(self.operands(operation), operation.layout)

    def copy(
        self, operation: Operation, *, op: Any = None,
        operands: Mapping[str, Sequence[Value]] | Sequence[Value] | None = None, types: Iterable[Any] | None = None,
        attrs: Mapping[str, Any] | None = None, regions: Mapping[str, Block] | None = None,
        keep: Collection[Value] | None = None,
    ) -> Operation:  # fmt: skip
        """Add an old operation, changed where said; its results stand for the old ones from now on.

        Regions and callee not given in `regions` / `attrs` are rebuilt by the pass's own `visit`. `keep` names the (old)
        results that stay; `operands` may be groups, then the layout follows them.
        """
        as_it_was = op is None and types is None and attrs is None and regions is None and keep is None
        if as_it_was and not (self._sizes or operation.regions or isinstance(operands, Mapping) or "callee" in operation.attrs):
            return self._copy_plainly(operation, self.operands(operation) if operands is None else list(operands))
        layout: Layout = operation.layout
        if operands is None:
            operands = self.operands(operation)
        elif isinstance(operands, Mapping):
            layout, operands = layout_of(operands), flat(operands)
        if regions is None and operation.regions:
            regions = {name: self.block(region) for name, region in operation.regions.items()}
        if attrs is None:
            attrs = operation.attrs
            if (callee := callee_of(operation)) is not None:
                attrs = {**attrs, "callee": self.callee(callee)}
        results, result_layout = operation.results, operation.result_layout
        if keep is not None:
            kept = _kept(results, result_layout, keep)
            results, result_layout = flat(kept), layout_of(kept)
        given = types is not None
        if types is None:
            types = [value.type for value in results]
        if self._sizes:
            types, attrs, regions = self._sized(types), self._sized(attrs), self._sized_regions(regions)
        new = Operation(op or operation.op, operands, types, attrs, regions, operation.loc, layout, result_layout)
        for value, result in zip(results, new.results, strict=True):
            result.name = value.name
            self._map[value] = result
            if given:
                self._note_sizes(value, result)
        self.new.operations.append(new)
        return new

    def _copy_plainly(self, operation: Operation, operands: list[Value]) -> Operation:
        """Most copies: nothing changed but operands, nothing to look into."""
        new = operation.twin(operands)
        self._map.update(zip(operation.results, new.results, strict=True))
        self.new.operations.append(new)
        return new

    def emit(
        self, op: Any, operands: Mapping[str, Sequence[Value]] | Sequence[Value], types: Iterable[Any],
        attrs: Mapping[str, Any] | None = None, regions: Mapping[str, Block] | None = None,
        result_layout: Layout | None = None,
    ) -> Operation:  # fmt: skip
        """Add an operation that has no counterpart in the old block."""
        layout: Layout = {}
        if isinstance(operands, Mapping):
            layout, operands = layout_of(operands), flat(operands)
        if self._sizes:
            types, attrs, regions = self._sized(types), self._sized(attrs or {}), self._sized_regions(regions)
        return self.new.append(Operation(op, operands, types, attrs, regions, self.loc, layout, result_layout))

    def _sized(self, things: Any) -> Any:
        """Types or attributes in the sizes of the new block."""
        if isinstance(things, Mapping):
            return {key: thing if isinstance(thing, Block) else substitute(thing, self._sizes) for key, thing in things.items()}
        return [substitute(thing, self._sizes) for thing in things]

    def _sized_regions(self, regions: Mapping[str, Block] | None) -> Mapping[str, Block] | None:
        return regions and {name: clone(block, lambda thing: substitute(thing, self._sizes)) for name, block in regions.items()}

    def replace(self, operation: Operation, values: Sequence[Value]) -> None:
        """Leave an old operation out: from now on these new values stand for its results."""
        for old, new in zip(operation.results, values, strict=True):
            self[old] = new

    def inline(self, block: Block, arguments: Sequence[Value], types: Sequence[Any] = ()) -> list[Value]:
        """Add a whole block's operations here (through `visit`), its parameters being `arguments`; gives its results.

        `types` are those the results are known by here: the block's symbols are renamed to the ones used here.
        """
        # a block that is put here twice would define its sizes twice
        block = renamed(block, [value.type for value in arguments], types)
        self._map.update(zip(block.params, arguments, strict=True))
        self.run(block.operations)
        return [self._map[value] for value in block.results]

    def block(self, old: Block, visit: Visit | None = None, keep: Collection[Value] | None = None) -> Block:
        """A region (or other block) rebuilt by the same pass, or by `visit`."""
        inner = self.inner(old, visit, keep)
        inner.run(old.operations)
        return inner.finish()

    def inner(self, old: Block, visit: Visit | None = None, keep: Collection[Value] | None = None) -> Rebuild:
        """The scope of a region in the making, of the same pass."""
        return Rebuild(old, visit or self.visit, keep, self._callees)

    def callee(self, old: Block) -> Block:
        """A callee rebuilt by the same pass, once for all its calls."""
        # (`_Same` answers with the callee itself)
        new = self._callees.get(old)
        if new is None:
            new = self._callees[old] = self.block(old)
        return new

    def run(self, operations: Iterable[Operation]) -> None:
        """Visit old operations in order."""
        visit = self.visit
        for operation in operations:
            self.loc = operation.loc
            visit(self, operation)

    def finish(self, results: Mapping[str, Sequence[Value]] | None = None) -> Block:
        """The new block; it gives back what the old one does, or these (new) values by group."""
        if results is None:
            self.new.results = [self._map[value] for value in self.old.results]
            self.new.result_layout = dict(self.old.result_layout)
        else:
            self.new.results = flat(results)
            self.new.result_layout = layout_of(results)
        return self.new


def rebuild(block: Block, visit: Visit, callees: dict[Block, Block] | None = None) -> Block:
    """Run a pass, given as a function of one operation, over a block, its regions and its callees."""
    scope = Rebuild(block, visit, callees=callees)
    scope.run(block.operations)
    return scope.finish()


def clone(block: Block, types: Callable[[Any], Any] | None = None) -> Block:
    """A copy with its own values and regions; callees are shared.

    `types` is applied to every type and every attribute (to rename symbols, for example).
    """
    shared = _Same()
    copied = rebuild(block, Rebuild.copy, shared)
    if types is not None:
        for part in blocks(copied):
            for param in part.params:
                param.type = types(param.type)
            for operation in part.operations:
                operation.attrs = {k: v if isinstance(v, Block) else types(v) for k, v in operation.attrs.items()}
                for value in operation.results:
                    value.type = types(value.type)
    return copied


def renamed(block: Block, params: Sequence[Any], results: Sequence[Any] = (), fresh: bool = True) -> Block:
    """The block with the sizes it defines called as in these types of its parameters and results, or (`fresh`) by new names.

    Sizes it uses without defining them are those of its surroundings, and stay.
    """
    own = defined_sizes(block)
    if not own:
        return block
    env: dict[str, Any] = {}
    for values, types in ((block.params, params), (block.results, results)):
        # Tensors first: a size can be read off them. The items of a list may be none, and their type may have kept a name that
        # belongs to a branch which was left. strict=False: the types of the results are often not given.
        for value, type in sorted(zip(values, types, strict=False), key=lambda pair: isinstance(pair[0].type, ListSpec)):
            match(value.type, type, env)
    if fresh:
        env = {name: env[name] if name in env else fresh_symbol(name) for name in sorted(own)}
    else:
        env = {name: size for name, size in env.items() if name in own and size != symbol(name)}
    return clone(block, lambda thing: substitute(thing, env)) if env else block


class _Same(dict[Block, Block]):
    """Every callee stands for itself."""

    def get(self, key: Block, default: Any = None) -> Any:
        return key


def inline_calls(block: Block, when: Callable[[Operation], bool] = lambda operation: True) -> Block:
    """The program with the calls for which `when` holds replaced by what they call."""

    def visit(scope: Rebuild, operation: Operation) -> None:
        callee = callee_of(operation)
        if callee is not None and when(operation):
            scope.replace(operation, scope.inline(callee, scope.operands(operation), [v.type for v in operation.results]))
        else:
            scope.copy(operation)

    return rebuild(block, visit)
