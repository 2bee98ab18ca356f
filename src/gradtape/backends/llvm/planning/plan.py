"""What is computed where: which values of a block get memory, which are recomputed per element, which kernels there are.

Every operation is one of: `element` (its elements can be computed one by one, on demand), `reduce` (a fold over elements),
`alias` (other dims for the same memory), `memory` (works on whole arrays in memory: products, loops, branches, lists,
calls of NumPy), `scalar` (an element operation of rank 0: computed at once, in a register).

Element values without memory are recipes: evaluated inside whatever kernel needs them, so chains of them, through broadcasts,
transpositions and slices, become one loop nest. A value gets memory if something needs it there, if it would be computed
again and again at some cost, or if the memory it reads changes before its last use. A kernel computes one or more
roots over one iteration space. Whose memory a value has is the business of `sharing.py`.

One invariant: a kernel runs at the place of its first root, and all it reads is there by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from gradtape.backends.llvm.planning.grouping import Grouping, Kernel
from gradtape.backends.llvm.planning.lowering import Lowering, Lowerings, count_of
from gradtape.backends.llvm.planning.sharing import Sharing, has_memory
from gradtape.backends.llvm.planning.static_arrays import is_static
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.sizes import sizes_of
from gradtape.ir.types import TensorSpec
from gradtape.ops.structured import COND, SCAN, WHILE

CHEAP = 6  # the cost per element up to which computing again beats memory
DEEP = 100  # recipes larger than this get memory: code size
LONG = 200  # element operations of a block from which on it is cut
STRETCH = 100  # element operations between two cuts
UNKNOWN = 1 << 10  # what a size counts that only run time knows
TURNS = 12  # recipes whose elements are found through more changes of the index get memory: each is a call in the writer


@dataclass(frozen=True, slots=True)
class Special:
    """Another way to write an operation, which does the work of some operations before it, used by nobody else, too."""

    write: Callable[..., Any]  # (scope, operation) → results
    absorbed: tuple[Operation, ...] = ()
    target: int | None = None  # the operand whose memory it changes and gives back


Patterns = Callable[[Block, dict[Value, list[Operation]]], dict[Operation, Special]]  # (block, users) → other ways to write


class BlockPlan:
    """The decisions for one block.

    `nested` gives the plans of regions, `callee` those of functions that are called; `fixed` are the symbols that are bound by
    the parameters of the whole function, `known` those that are known around the block.
    """

    def __init__(
        self, block: Block, table: Lowerings, patterns: Patterns, nested: Callable[[Block, frozenset[str]], BlockPlan],
        callee: Callable[[Block], BlockPlan], fixed: frozenset[str], known: frozenset[str],
    ) -> None:  # fmt: skip
        self.block = block
        self.table = table
        self.callee = callee
        self.fixed = fixed
        self._nested = nested
        self.at = {operation: i for i, operation in enumerate(block.operations)}
        self.kinds = {operation: table.kind(operation) for operation in block.operations}
        self.unsized: set[Operation] = set()  # whose results have sizes that only the op itself knows: NumPy runs it
        self._known: dict[Block, frozenset[str]] = {}  # around the regions
        self._find_sizes(known)
        self.roots: set[Operation] = set()
        self.kernels: dict[int, Kernel] = {}  # by position
        self._home: dict[Operation, Kernel] = {}
        self._users: dict[Value, list[Operation]] = {}
        for operation in block.operations:
            # x * x is one user of x, not two: what is read by one operation is computed once
            for value in dict.fromkeys(operation.operands):
                self._users.setdefault(value, []).append(operation)
        # operations that are done by the product they use (an addition, a sum over its batch): the product is absorbed
        self.special = patterns(block, self._users)
        self._absorbed: dict[Operation, Operation] = {}  # by which operation
        for operation, special in self.special.items():
            self.kinds[operation] = "memory"
            for part in special.absorbed:
                self.kinds[part], self._absorbed[part] = "absorbed", operation
        self._outputs = set(block.results)
        self._parts: dict[Value, set[Operation]] = {}  # of recipes: the operations that they are made of
        self._reads: dict[Value, set[Value]] = {}  # of recipes: the values that these read from memory
        self._work: dict[Value, int] = {}  # of recipes: what computing an element costs without what it reads
        self._turns: dict[Value, int] = {}  # of recipes: how often the index changes on the longest way down
        self._paths: dict[Operation, list[tuple[Value, int, bool]]] = {}
        self._latest: dict[Operation, int] = {}
        self._results_in: dict[Value, list[int]] | None = None  # buffer → positions; asked for when all is decided
        self.sharing = Sharing(self)
        self._choose()
        self.last = self._lifetimes()
        self.private = self._private()

    def _find_sizes(self, known: frozenset[str]) -> None:
        names = set(known).union(*map(sizes_of, self.block.params))
        for operation in self.block.operations:
            for region in operation.regions.values():
                self._known[region] = frozenset(names)
            symbols = symbols_in([value.type for value in operation.results if isinstance(value.type, TensorSpec)])
            # the number of elements a mask picks: no loop can be written before it is known
            if not symbols <= names and not operation.regions and not self.lowering(operation).finds_sizes:
                self.kinds[operation] = "memory"
                self.unsized.add(operation)
            # in order: a size is known from the operation on whose result tells it
            names.update(name for value in operation.results for name in sizes_of(value))

    # --- questions

    def lowering(self, operation: Operation) -> Lowering:
        """How an operation of the block is written."""
        return self.table[operation.op]

    def nested(self, block: Block) -> BlockPlan:
        """The plan of a region."""
        return self._nested(block, self._known[block])

    def paths(self, operation: Operation) -> list[tuple[Value, int, bool]]:
        """The operands of an element operation: how many leading axes keep their index, and whether all do."""
        known = self._paths.get(operation)
        if known is None:
            pointwise, shape = self.lowering(operation).pointwise(operation), tuple(operation.result.type.shape)
            known = self._paths[operation] = [
                (value, self.table.kept_axes(operation, k), pointwise and tuple(value.type.shape) == shape)
                for k, value in enumerate(operation.operands)
                if isinstance(value.type, TensorSpec)
            ]
        return known

    def is_lazy(self, value: Value) -> bool:
        operation = value.producer
        return operation is not None and self.kinds.get(operation) == "element" and operation not in self.roots

    def is_lazy_operation(self, operation: Operation) -> bool:
        return self.kinds[operation] == "element" and operation not in self.roots

    def beside(self, operation: Operation) -> list[Value]:
        """The operands of which an element operation reads the element at its own index."""
        if not self.lowering(operation).pointwise(operation):
            return []
        shape = tuple(operation.result.type.shape)
        return [value for value in operation.operands if tuple(value.type.shape) == shape]

    def buffers(self, value: Value) -> frozenset[Value]:
        """The values of the block whose memory a value may have: of those that first had it."""
        return self.sharing.buffers(value)

    def results_in(self, buffer: Value) -> list[int]:
        """The results of the block, by position, that may have a buffer."""
        if self._results_in is None:
            self._results_in = {}
            for k, value in enumerate(self.block.results):
                for one in self.buffers(value):
                    self._results_in.setdefault(one, []).append(k)
        return self._results_in.get(buffer, [])

    def changed(self, operation: Operation) -> Value | None:
        """The operand that an operation without regions changes in place."""
        special = self.special.get(operation)
        if special is not None:
            return None if special.target is None else operation.operands[special.target]
        return operation.operands[0] if self.lowering(operation).changes(operation) else None

    def users(self, value: Value) -> list[Operation]:
        return self._users.get(value, [])

    def is_output(self, value: Value) -> bool:
        return value in self._outputs

    def leaves(self, operation: Operation) -> Iterator[Value]:
        """The values with memory or in registers that evaluating an operation reads."""
        special = self.special.get(operation)
        inner = () if special is None else special.absorbed
        # (through recipes, which have no memory: what counts is what they read in the end)
        stack, seen = [value for part in (operation, *inner) for value in part.operands], set()
        while stack:
            value = stack.pop()
            if value in seen or value.producer in inner:
                continue
            seen.add(value)
            if self.is_lazy(value):
                stack += value.producer.operands  # type: ignore[union-attr]
            else:
                yield value

    def when(self, operation: Operation) -> int:
        """The position at which an operation runs."""
        kernel = self._home.get(operation)
        # an operation that joined a kernel runs where the kernel starts, which may be before or after its own place
        return self.at[self._absorbed.get(operation, operation)] if kernel is None else kernel.start

    def wants_memory(self, value: Value) -> bool:
        """Whether something in the block needs a value in memory."""
        return value in self._outputs or any(self._in_memory(value, user) for user in self.users(value))

    # --- decisions

    def _choose(self) -> None:
        self._weigh()
        for operation, kind in self.kinds.items():
            if kind == "reduce":
                self.roots.add(operation)
            elif kind == "element" and self._gets_memory(operation):
                # First what needs memory whatever is fused, then what is computed too often: the second choice depends on the
                # first, so costs are weighed anew between.
                self._give_memory(operation)
        self._weigh()
        for operation, kind in self.kinds.items():
            if kind == "element" and operation not in self.roots and self._repeated(operation):
                self.roots.add(operation)
        # before kernels are grouped: each attempt below goes through the whole block
        self._cut()
        self.sharing = Sharing(self)
        for attempt in range(8):
            self._weigh()
            self._group()
            # What two kernels would both compute, and recipes whose operand would be overwritten before they are read: memory
            # for these makes other groups possible, so all is grouped again.
            again = self._shared(only_tops=attempt < 2) | self._endangered()
            if not again:
                break
            # more memory in each attempt and never less: it ends. After eight attempts everything gets memory, which is slow
            # but right
            self.roots |= again
        else:
            self.roots |= {operation for operation, kind in self.kinds.items() if kind == "element"}
            self._weigh()
            self._group()

    def _cut(self) -> None:
        """A long block is cut into stretches: what a costly recipe of one gives to another gets memory. So kernels are found in
        few attempts, however long the block is."""
        elements = [operation for operation, kind in self.kinds.items() if kind in ("element", "reduce")]
        if len(elements) <= LONG:
            return
        stretch = {operation: k // STRETCH for k, operation in enumerate(elements)}
        for operation in elements:
            if self.kinds[operation] == "element" and operation not in self.roots and self.cost(operation.result)[0] > CHEAP:
                here = stretch[operation]
                # cheap recipes may cross: computed again they cost less than what is written and read
                if any(stretch.get(user, here) != here for user in self.users(operation.result)):
                    self.roots.add(operation)

    def _give_memory(self, operation: Operation) -> None:
        """The result of an element operation gets memory: its operand's where the elements are the same, else its own."""
        # a reshape of a recipe: the recipe gets the memory, and the reshape is another view of it
        while self.lowering(operation).alias:
            below = operation.operands[0].producer
            lazy = below is not None and self.is_lazy_operation(below) and not self.lowering(below).free
            if not lazy and not self._has_memory(operation.operands[0]):
                break
            self.kinds[operation] = "alias"
            if not lazy:
                return
            assert below is not None
            operation = below
        self.roots.add(operation)

    def _gets_memory(self, operation: Operation) -> bool:
        value = operation.result
        # a constant is in memory before the program runs; only what is given to the caller must be the caller's own
        if is_static(operation):
            return value in self._outputs
        # (a transpose or slice of it may be multiplied as it lies: then it has to lie somewhere)
        return self.wants_memory(value) or (not self._is_map(value) and self._viewed(value))

    def _has_memory(self, value: Value) -> bool:
        producer = value.producer
        computed = producer is None or self.kinds[producer] in ("memory", "alias", "reduce") or producer in self.roots
        return computed and has_memory(value.type)

    def _in_memory(self, value: Value, user: Operation) -> bool:
        """Whether an operation needs an operand in memory, and not only what an index map leads to."""
        kind = self.kinds[user]
        if kind == "alias":
            return True
        if kind not in ("memory", "absorbed"):
            return False
        if user.regions:
            return any(operand is value and self._region_wants(value, user, k) for k, operand in enumerate(user.operands))
        how = self.table.reads(user, value)
        # a map needs no memory of its own: the product reads through it what it is a map of
        return how == "memory" or (how == "view" and not self._is_map(value))

    def _viewed(self, value: Value) -> bool:
        """Whether an operation on memory reads a value through index maps."""
        stack, seen = [value], {value}
        while stack:
            value = stack.pop()
            for user in self.users(value):
                if self.kinds[user] in ("memory", "absorbed") and not user.regions and self.table.reads(user, value) == "view":
                    return True
                if self.kinds[user] == "element" and self.lowering(user).strided(user) and user.result not in seen:
                    seen.add(user.result)
                    stack.append(user.result)
        return False

    def _is_map(self, value: Value) -> bool:
        producer = value.producer
        return producer is not None and self.kinds.get(producer) == "element" and self.lowering(producer).strided(producer)

    def _region_wants(self, value: Value, user: Operation, k: int) -> bool:
        """Whether the regions of an operation need its operand k in memory; a cheap recipe is evaluated in there."""
        params = region_params(user, k)
        if params is None or any(self.nested(block).wants_memory(param) for block, param in params):
            return True
        producer = value.producer
        if producer is None or self.kinds[producer] != "element" or self.lowering(producer).free:
            return False
        # in a branch it is evaluated once at the most, in a loop in each turn
        if self.cost(value)[0] > (CHEAP if user.op is COND else 1):
            return True
        changed = self.sharing.changed_by(user)
        # evaluated in there, it would see what the loop has changed in place
        return any(not changed.isdisjoint(self.buffers(leaf)) for leaf in self.leaves(producer))

    def cost(self, value: Value) -> tuple[int, int]:
        """What computing an element costs, and how many operations that is."""
        parts = self._parts.get(value)
        # one read; a number is in a register
        if parts is None or not self.is_lazy(value):
            return (1 if len(value.type.shape) else 0), 1
        return len(self._reads[value]) + self._work[value], len(parts)

    def _weigh(self) -> None:
        """The operations that each recipe is made of, and what they cost; very large recipes get memory."""
        for known in (self._parts, self._reads, self._work, self._turns):
            known.clear()
        for operation, kind in self.kinds.items():
            if kind != "element" or operation in self.roots:
                continue
            value = operation.result
            recipes = [v for v in dict.fromkeys(operation.operands) if v in self._parts]
            # the largest recipe below is most of this one: what the others add to it is little, so weighing is linear
            largest = max(recipes, key=lambda v: len(self._parts[v]), default=None)
            mine = self._parts[largest] if largest is not None else set[Operation]()
            added = {operation}.union(*(self._parts[v] for v in recipes if v is not largest)) - mine
            turns = max((self._turns.get(v, -1) + (v not in self.beside(operation)) for v in operation.operands), default=0)
            # the code for an element is written once per kernel that uses it: a very large recipe would be most of the program
            if len(mine) + len(added) > DEEP or turns > TURNS:
                self.roots.add(operation)
                continue
            # a set: what a recipe reads twice is loaded once
            reads = {v for v in operation.operands if v not in self._parts and len(v.type.shape)}
            self._reads[value] = reads.union(*(self._reads[v] for v in recipes))
            self._work[value] = (self._work[largest] if largest is not None else 0) + sum(map(self.table.cost, added))
            self._parts[value], self._turns[value] = mine | added, max(turns, 0)

    def only_user(self, operation: Operation) -> Operation:
        (user,) = self._users[operation.result]
        return user

    def parts(self, operation: Operation) -> set[Operation]:
        """The operations that computing a root takes."""
        return {operation}.union(*(self._parts.get(value, ()) for value in operation.operands))

    def work(self, operation: Operation) -> int:
        """What computing an element of a root costs."""
        return self.table.cost(operation) + sum(self.cost(value)[0] for value in dict.fromkeys(operation.operands))

    def _repeated(self, operation: Operation) -> bool:
        """Whether some user would compute an element of it several times, at a price."""
        # computing it again costs less than writing and reading memory
        if self.cost(operation.result)[0] <= CHEAP:
            return False
        shape = tuple(operation.result.type.shape)
        for user in self.users(operation.result):
            if self.kinds[user] != "element":
                continue
            lowering, result = self.lowering(user), tuple(user.result.type.shape)
            # a pointwise user of another shape broadcasts it; of others it matters only if they have more elements
            if lowering.repeats(user) or (result != shape if lowering.pointwise(user) else _larger(result, shape)):
                return True
        return False

    def _group(self) -> None:
        self.grouping = Grouping(self)
        self._home = self.grouping.home
        self._latest.clear()
        self.kernels = {kernel.start: kernel for kernel in self.grouping.kernels}

    def _shared(self, only_tops: bool) -> set[Operation]:
        """Costly recipes that several kernels, or phases of one, would compute; or of these only the largest."""
        evaluators: dict[Operation, set[Any]] = {}
        phase = self.grouping.phase
        for operation in self.block.operations:
            if self.is_lazy_operation(operation):
                continue
            # phases run one after the other, so a recipe in two of them is computed twice
            key: Any = (self._home[operation], phase[operation]) if operation in self._home else operation
            stack, seen = list(operation.operands), set()
            while stack:
                value = stack.pop()
                if value in seen or not self.is_lazy(value):
                    continue
                seen.add(value)
                producer: Operation = value.producer  # type: ignore[assignment]
                evaluators.setdefault(producer, set()).add(key)
                stack += producer.operands
        return {
            producer for producer, keys in evaluators.items()
            if len(keys) > 1 and self.cost(producer.result)[0] > CHEAP
            and (not only_tops or self._is_top(producer, evaluators))
        }  # fmt: skip

    def _is_top(self, producer: Operation, evaluators: dict[Operation, set[Any]]) -> bool:
        """Whether no recipe above it is shared by the same kernels: then that one gets memory first."""
        mine = evaluators[producer]
        # memory for the upper one takes the lower one with it: giving it to both at once would be one array too many
        return not any(
            self.is_lazy_operation(user) and evaluators.get(user, set()) >= mine for user in self.users(producer.result)
        )

    def _endangered(self) -> set[Operation]:
        """Recipes that read memory which is changed before their last evaluation, or while they are evaluated."""
        endangered: set[Operation] = set()
        # most blocks change nothing in place
        if not any(map(self.sharing.changed_by, self.block.operations)):
            return endangered
        reads: dict[Value, frozenset[Value]] = {}  # of recipes so far: the buffers that they read
        readers: dict[Value, list[Operation]] = {}  # buffer → recipes so far that read it and are not past their last use
        for place, operation in enumerate(self.block.operations):
            for buffer in self.sharing.changed_by(operation):
                # popped: those that are dead by now, and those that get memory, need not be asked again
                alive = [one for one in readers.pop(buffer, ()) if self._last_use(one) >= place]
                endangered |= self._kept(alive, buffer, place)
            if self.is_lazy_operation(operation):
                # who asks for the shape alone is not hurt by another content
                read = () if self.lowering(operation).shape_only else operation.operands
                below = [reads[v] if v in reads else self.buffers(v) for v in read]
                reads[operation.result] = mine = frozenset().union(*below)
                for buffer in mine:
                    readers.setdefault(buffer, []).append(operation)
        return endangered

    def _kept(self, alive: list[Operation], buffer: Value, place: int) -> set[Operation]:
        """Of recipes, in order, that read a buffer and are evaluated after it changes: those whose memory serves all of them.

        What stands between the buffer and such a value needs none. Where a recipe is larger than the values it is made of (an
        outer product), or as large and cheap, it is these that are kept.
        """
        kept: dict[Operation, set[Operation]] = {}
        for one in alive:
            below = set[Operation]().union(*(kept.get(value.producer, ()) for value in one.operands))  # type: ignore[arg-type]
            size = count_of(one.result.type.shape, UNKNOWN)
            beneath = sum(count_of(operation.result.type.shape, UNKNOWN) for operation in below)
            direct = any(buffer in self.buffers(value) for value in one.operands if not self.is_lazy(value))
            smaller = beneath < size or (beneath == size and self.cost(one.result)[0] <= CHEAP)
            kept[one] = below if below and smaller and not direct else {one}
        late = (one for one in alive if any(self._reads_late(user, place) for user in self.users(one.result)))
        return set[Operation]().union(*(kept[one] for one in late))

    def _reads_late(self, user: Operation, place: int) -> bool:
        """Whether an operation that is no recipe before a position reads elements there or behind it."""
        when = self.at[user] if self.is_lazy_operation(user) else self.when(user)
        return when >= place and not self.lowering(user).shape_only

    def _last_use(self, operation: Operation) -> int:
        """The latest position at which an operation, or a recipe above it, is evaluated."""
        if not self._latest:  # users stand behind what they use
            for one in reversed(self.block.operations):
                if self.is_lazy_operation(one):
                    users = (user for user in self.users(one.result) if not self.lowering(user).shape_only)
                    self._latest[one] = max(map(self._last_use, users), default=-1)
                else:
                    self._latest[one] = self.when(one)
        return self._latest[operation]

    def _lifetimes(self) -> dict[Value, int]:
        """For each buffer, the position of its last use."""
        last: dict[Value, int] = {}
        end = len(self.block.operations)
        for operation in self.block.operations:
            if self.is_lazy_operation(operation):
                continue
            place = max(self.when(operation), self.at[operation] if self.kinds[operation] in ("alias", "memory") else 0)
            for value in operation.results:
                for buffer in self.buffers(value):
                    # what nobody reads lives as long as it is written
                    last[buffer] = max(last.get(buffer, -1), self.at[operation])
            for leaf in self.leaves(operation):
                for buffer in self.buffers(leaf):
                    last[buffer] = max(last.get(buffer, -1), place)
        for value in self.block.results:
            for buffer in self.buffers(value):
                # results are the caller's: no slot for others
                last[buffer] = end
        return last

    def _private(self) -> dict[Operation, Kernel]:
        """Roots that only the kernel which computes them reads: memory for one iteration of its outer loops is enough."""
        readers: dict[Operation, set[Any]] = {}
        for operation in self.block.operations:
            if self.is_lazy_operation(operation):
                continue
            key: Any = self._home.get(operation, operation)
            for leaf in self.leaves(operation):
                if leaf.producer is not None:
                    readers.setdefault(leaf.producer, set()).add(key)
        return {
            root: kernel for kernel in self.grouping.kernels for root in kernel.roots
            # then it stays in the cache: a row, where it would have been an array
            if readers.get(root) == {kernel} and root.result not in self._outputs
        }  # fmt: skip


def fixed_sizes(block: Block) -> frozenset[str]:
    """The symbols whose sizes the tensors given to a function tell."""
    return frozenset(name for value in block.params for name in sizes_of(value))


def region_params(operation: Operation, k: int) -> list[tuple[Block, Value]] | None:
    """The parameters of regions that operand k of a structured operation is; None where it is something else too."""
    if operation.op is COND:
        if k == 0:
            return []
        return [(block, block.params[k - 1]) for block in operation.regions.values()]
    if operation.op not in (WHILE, SCAN):
        return None
    place = k
    for group, count in operation.layout.items():
        if place < count:
            if group == "length":
                return []
            if group != "consts":
                return None
            return [(block, block.group("consts")[place]) for block in operation.regions.values()]
        place -= count
    raise AssertionError("an operand in no group")


def _larger(a: Any, b: Any) -> bool:
    """Whether there are more indices into shape a than into b, as far as known."""
    known = all(isinstance(size, int) for size in (*a, *b))
    return tuple(a) != tuple(b) and not (known and count_of(a, 1) <= count_of(b, 1))
