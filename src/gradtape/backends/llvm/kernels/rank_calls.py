"""Operations between ranks as calls of MPI's own C functions: posted, then tested until they are done, without Python.

Which functions and handles, `HOOKS.world.natively` says (`distribute/native_mpi.py`); where it says nothing, and for other
dtypes, NumPy's way is called. A header goes ahead of a message, or with it if it is short, and is compared. After many tests in
vain Python waits instead (`gt_mpi_patience`): it sleeps where ranks share cores, and hears of ranks that have failed.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.backends.llvm.kernels.callback_code import call_python, home_of, is_number, write_callback
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering, always
from gradtape.backends.llvm.planning.values import Array, Lowered, Scalar
from gradtape.backends.llvm.runtime.callbacks import NumpyCall
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import bytes_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op
from gradtape.ir.graph import Block, Operation
from gradtape.ops.collective import (
    ALL_EXTREME,
    ALL_STACK,
    ALL_SUM,
    ALL_SWAP,
    FROM_ROOT,
    HALVES,
    HEADER,
    INLINE,
    POSTED,
    RECV,
    ROWS_OF_ROOT,
    SEND,
    STACK_ON_ROOT,
    SUM_SCATTER,
    SUM_TO_ROOT,
    SWAP_EDGES,
    SWAP_WITH,
)  # fmt: skip

Headers = tuple[str, str]  # of a message: where this rank's is, and the one that comes
_TESTS = 3000  # of a request before Python waits for it: some tenths of a millisecond


def begin(scope: Scope, block: Block) -> None:
    """Before anything else, the ranks compare which operations between them their programs have."""
    exchanges = scope.program.exchanges = HOOKS.world.natively.exchanges(block)
    if exchanges.text:
        _ask(scope, exchanges.first, "i64", exchanges.digest, -3 if exchanges.can_fail else -1)
    elif exchanges.message is not None:  # nothing to compare; who is killed in it has said that it began
        _ask(scope, exchanges.message, "i64", 0, -5)


def end(scope: Scope) -> None:
    """Before results are given, they compare which ones ran, if values decided that."""
    exchanges = scope.program.exchanges
    if exchanges.uncertain:
        _ask(scope, exchanges.first, "i64", 0, -2)


def _ask(scope: Scope, operation: Operation, kind: str, word: Index, number: Index, headers: Headers | None = None) -> None:
    w, calls = scope.writer, scope.program.calls
    words = w.cell("i64", 4)
    w.store(kind, word, words)
    w.store("i64", number, w.at("i64", words, 1))
    for i, header in enumerate(headers or ("null", "null"), 2):
        w.store("ptr", header, w.at("i64", words, i))
    calls.append(NumpyCall(operation, [False] * len(operation.results), [None] * len(operation.operands)))
    call_python(scope, "gt_mpi_patience", "ptr %context", f"i32 {len(calls) - 1}", f"ptr {words}")


class _Exchange:
    """The code of one operation: its operand and its result in memory, and the calls that post it."""

    def __init__(self, scope: Scope, operation: Operation) -> None:
        self.scope, self.operation, self.w = scope, operation, scope.writer
        self.op = POSTED.get(operation.op, operation.op)
        self.mpi = HOOKS.world.natively
        self.kind = self.mpi.handle  # how a handle looks: i32 (MPICH), ptr (Open MPI)
        self.home: Array = home_of(scope, operation.results[0])
        # (who receives gives nothing: its only operand stands for the other ranks)
        self.given: Array = scope.memory(operation.operands[0]) if len(operation.operands) > 1 else self.home
        self.dtype = self.handle(self.home.dtype.name)
        # Where values decide what runs, ranks may part: MPI itself ends a process that gets data of another type. These never
        # meet, so both ranks wait, which is found.
        apart = operation in scope.program.exchanges.uncertain
        self.comm = self.handle(f"comm of {self.home.dtype.name}" if apart else "comm")
        # (an exchange of edges posts four)
        self.requests = self.w.cell(self.kind, 4)
        self.posted = 0
        self.later = operation.op in POSTED  # whether somebody else waits

    def handle(self, name: str) -> str:
        """A handle, read from where `natively` keeps it: it is another one in every process."""
        table = self.scope.program.module.outside("gt_mpi_handles")
        return f"{self.kind} {self.w.load(self.kind, self.w.at('i64', table, self.mpi.places[name]))}"

    def count(self, elements: Index) -> str:
        return f"i32 {self.w.let(f'trunc i64 {elements} to i32')}"

    def call(self, name: str, *arguments: str, posts: bool = True) -> None:
        """Call a function of MPI, which posts a request, or ends when all ranks have called it."""
        if posts:
            arguments = (*arguments, f"ptr {self.w.at(self.kind, self.requests, self.posted)}")
            self.posted += 1
        types = ", ".join(argument.split(" ")[0] for argument in arguments)
        self.scope.program.module.declare(f"gt_{name}", f"i32 ({types})")
        status = self.w.let(f"call i32 @gt_{name}({', '.join(arguments)})")
        self.scope.program.fail_if(self.w.let(f"icmp ne i32 {status}, 0"), self.operation)

    def zero(self) -> None:
        """Nothing comes from nobody."""
        self.scope.clear(self.home)

    def copy(self, home: Array) -> None:
        """The operand, elsewhere."""
        self.w.copy(home.address, self.given.address, self.scope.bytes_in(self.home))

    def digest(self, start: Index, more: Sequence[Index]) -> Index:
        """A number and others behind it as one."""
        for number in more:
            start = self.w.let(f"add i64 {self.w.let(f'mul i64 {start}, {self.mpi.prime}')}, {number}")
        return start

    def count_begun(self) -> None:
        """Ranks that wait tell how far they came, and what they did until then: whether the others are with them, or will come,
        follows from that; where values decide what runs, all compare it when the program ends."""
        w = self.w
        done = self.scope.program.module.outside("gt_mpi_done")
        place, last = w.at("i64", done, 1), self.mpi.kept - 1
        before = w.load("i64", place)
        begun = w.let(f"add i64 {before}, 1")
        old, new = (w.at("i64", done, w.let(f"add i64 {w.let(f'and i64 {n}, {last}')}, 2")) for n in (before, begun))
        own = (self.scope.program.exchanges.digests[self.operation], w.product(self.given.dims))
        w.store("i64", self.digest(w.load("i64", old), own), new)
        w.store("i64", begun, place)

    def settle(self) -> None:
        """Wait for what was posted."""
        if self.posted:
            _wait(self.scope, self.operation, self.requests, self.posted)
        self.posted = 0

    def result(self) -> list[Lowered]:
        self.settle()
        self.note()
        value = self.operation.result
        return [Scalar(self.scope.load(self.home, ()), value.type.dtype) if is_number(value) else self.home]

    def note(self) -> None:
        self.scope.program.notes.append(Note("mpi", (self.operation.op.name,), self.operation.loc))


def _wait(scope: Scope, operation: Operation, requests: str, posted: Index, headers: Headers | None = None) -> None:
    """Test what was posted until it is done; Python takes over after a while."""
    w, program = scope.writer, scope.program
    program.module.declare("gt_MPI_Testall", "i32 (i32, ptr, ptr, ptr)")
    flag, tests, statuses = w.cell("i32"), w.cell("i32"), w.cell("i64", 4 * 8)
    w.store("i32", 0, tests)
    number = w.let(f"trunc i64 {posted} to i32")
    test, again, slow, done = (w.label(stem) for stem in ("test", "again", "slow", "received"))
    w.go(test)
    w.start(test)
    status = w.let(f"call i32 @gt_MPI_Testall(i32 {number}, ptr {requests}, ptr {flag}, ptr {statuses})")
    failed = w.let(f"icmp ne i32 {status}, 0")
    if headers is None:
        program.fail_if(failed, operation)
    else:  # longer data than those that are received
        with w.when(failed):
            _ask(scope, operation, "ptr", headers[1], -4)
    w.branch(w.let(f"icmp ne i32 {w.load('i32', flag)}, 0"), done, again)
    w.start(again)
    # For short waits asking again and again is quickest. After that a rank that died, or Ctrl-C, must be noticed: Python's
    # part.
    count = w.let(f"add i32 {w.load('i32', tests)}, 1")
    w.store("i32", count, tests)
    w.branch(w.let(f"icmp slt i32 {count}, {0 if HOOKS.world.natively.crowded else _TESTS}"), test, slow)
    w.start(slow)
    _ask(scope, operation, "ptr", requests, posted, headers)
    w.go(done)
    w.start(done)
    if headers is not None and operation.attrs.get("source", -1) >= 0:
        other, own = (w.load("i64", header) for header in headers)
        with w.when(w.let(f"icmp ne i64 {other}, {own}")):
            _ask(scope, operation, "ptr", headers[1], -4)


def _all_reduce(code: _Exchange) -> None:
    kind = code.operation.attrs.get("kind", "sum")
    count = code.count(code.w.product(code.home.dims))
    arguments = (*_ends(code), count, code.dtype, code.handle(kind), code.comm)
    if code.later or code.mpi.crowded or code.operation in code.scope.program.exchanges.uncertain:
        code.call("MPI_Iallreduce", *arguments)
        return
    # Inside of MPI nobody hears that another rank has left the program with an error: where that may be, which all know, Python
    # takes over after a while. Else all ranks come here, since they run the same program: nearly half the time for few numbers.
    w, (quick, heard, done) = code.w, (code.w.label(stem) for stem in ("quick", "heard", "reduced"))
    can_fail = w.load("i64", code.scope.program.module.outside("gt_mpi_done"))
    w.branch(w.let(f"icmp eq i64 {can_fail}, 0"), quick, heard)
    w.start(quick)
    code.call("MPI_Allreduce", *arguments, posts=False)
    w.go(done)
    w.start(heard)
    code.call("MPI_Iallreduce", *arguments)
    code.settle()
    w.go(done)
    w.start(done)


def _ends(code: _Exchange) -> Sequence[str]:
    in_place = code.given.address == code.home.address  # MPI must be told so
    source = f"inttoptr (i64 {code.mpi.in_place} to ptr)" if in_place else code.given.address
    return f"ptr {source}", f"ptr {code.home.address}"


def _all_stack(code: _Exchange) -> None:
    count, (source, into) = code.count(code.w.product(code.given.dims)), _ends(code)
    code.call("MPI_Iallgather", source, count, code.dtype, into, count, code.dtype, code.comm)


def _sum_scatter(code: _Exchange) -> None:
    count = code.count(code.w.product(code.home.dims))
    code.call("MPI_Ireduce_scatter_block", *_ends(code), count, code.dtype, code.handle("sum"), code.comm)


def _all_swap(code: _Exchange) -> None:
    count, (source, into) = code.count(code.w.product(code.given.dims[1:])), _ends(code)
    code.call("MPI_Ialltoall", source, count, code.dtype, into, count, code.dtype, code.comm)


def _from_root(code: _Exchange) -> None:
    code.copy(code.home)
    count = code.count(code.w.product(code.home.dims))
    code.call("MPI_Ibcast", f"ptr {code.home.address}", count, code.dtype, f"i32 {code.operation.attrs['root']}", code.comm)


def _sum_to_root(code: _Exchange) -> None:
    root, count = code.operation.attrs["root"], code.count(code.w.product(code.home.dims))
    ends = _ends(code) if HOOKS.world.rank == root else (f"ptr {code.given.address}", "ptr null")
    code.call("MPI_Ireduce", *ends, count, code.dtype, code.handle("sum"), f"i32 {root}", code.comm)
    code.settle()
    if HOOKS.world.rank != root:
        code.zero()


def _stack_on_root(code: _Exchange) -> None:
    root, count = code.operation.attrs["root"], code.count(code.w.product(code.given.dims))
    code.zero()
    ends = (f"ptr {code.given.address}", count, code.dtype, f"ptr {code.home.address}", count, code.dtype)
    code.call("MPI_Igather", *ends, f"i32 {root}", code.comm)


def _rows_of_root(code: _Exchange) -> None:
    count = code.count(code.w.product(code.home.dims))
    ends = (f"ptr {code.given.address}", count, code.dtype, f"ptr {code.home.address}", count, code.dtype)
    code.call("MPI_Iscatter", *ends, f"i32 {code.operation.attrs['root']}", code.comm)


def _message(code: _Exchange) -> None:
    """A message in one direction, or in both; from nobody come zeros. Who receives compares the header with its own, since what
    was sent may be something else: few data come with it, in one message, others behind it."""
    operation, w, module = code.operation, code.w, code.scope.program.module
    attrs, receives = operation.attrs, operation.attrs.get("source", -1) >= 0
    ends = source, dest = [f"i32 {code.mpi.peer(attrs.get(end, -1))}" for end in ("source", "dest")]
    elements = w.product(code.given.dims)
    size, count, tag = w.multiply(elements, bytes_of(code.home.dtype)), code.count(elements), f"i32 {attrs['tag']}"
    if not receives:
        code.zero()
    # (of what is waited for later, much is on its way)
    packets = code.requests if code.later else module.outside("gt_mpi_packets")
    headers = own, other = [w.at("i8", packets, place) for place in ((32, 32 + HEADER) if code.later else (0, HEADER + INLINE))]
    text = code.mpi.header(operation)
    quoted = "".join(f"\\{byte:02X}" for byte in text)
    w.copy(own, module.constant(text, f"[{HEADER} x i8]", f'c"{quoted}"'), HEADER)
    w.store("i64", code.digest(code.mpi.dtype_digest(code.home.dtype.dtype), code.given.dims), own)
    w.store("i64", 0, other)
    data = [w.at("i8", header, HEADER) for header in headers]
    few = "false" if code.later else w.let(f"icmp ule i64 {size}, {INLINE}")
    if attrs.get("dest", -1) >= 0:
        with w.when(few):
            w.copy(data[0], code.given.address, size)
    told = w.let(f"select i1 {few}, i64 {w.add(size, HEADER)}, i64 {HEADER}")
    most, byte, comm = HEADER if code.later else HEADER + INLINE, code.handle("byte"), code.handle("headers")
    code.call("MPI_Irecv", f"ptr {other}", f"i32 {most}", byte, source, tag, comm)
    code.call("MPI_Isend", f"ptr {own}", code.count(told), byte, dest, tag, comm)
    with w.when(w.let(f"xor i1 {few}, true")):
        for name, array, end in zip(("MPI_Irecv", "MPI_Isend"), (code.home, code.given), ends, strict=True):
            code.call(name, f"ptr {array.address}", count, code.dtype, end, tag, code.comm)
    if code.later:
        return
    _wait(code.scope, operation, code.requests, w.let(f"select i1 {few}, i64 2, i64 4"), (own, other))
    code.posted = 0
    if receives:
        with w.when(few):
            w.copy(code.home.address, data[1], size)


def _swap_edges(code: _Exchange) -> None:
    below, above = (code.mpi.peer(rank) for rank in HOOKS.world.neighbours(code.operation.attrs["periodic"]))
    elements = code.w.product(code.home.dims[1:])
    count, width = code.count(elements), code.w.multiply(elements, bytes_of(code.home.dtype))
    source, into = (
        [f"ptr {array.address}", f"ptr {code.w.let(f'getelementptr inbounds i8, ptr {array.address}, i64 {width}')}"]
        for array in (code.given, code.home)
    )
    if not code.operation.attrs["periodic"]:
        code.zero()
    up, down = (f"i32 {tag}" for tag in code.mpi.tags)  # two: on a ring of two ranks both edges go to the same one
    # receives first, so that what arrives finds its place and need not be kept aside
    code.call("MPI_Irecv", into[0], count, code.dtype, f"i32 {below}", up, code.comm)
    code.call("MPI_Irecv", into[1], count, code.dtype, f"i32 {above}", down, code.comm)
    code.call("MPI_Isend", source[1], count, code.dtype, f"i32 {above}", up, code.comm)
    code.call("MPI_Isend", source[0], count, code.dtype, f"i32 {below}", down, code.comm)


_WRITERS = {
    ALL_SUM: _all_reduce,
    ALL_EXTREME: _all_reduce,
    ALL_STACK: _all_stack,
    SUM_SCATTER: _sum_scatter,
    ALL_SWAP: _all_swap,
    FROM_ROOT: _from_root,
    SUM_TO_ROOT: _sum_to_root,
    STACK_ON_ROOT: _stack_on_root,
    ROWS_OF_ROOT: _rows_of_root,
    SWAP_WITH: _message,
    SEND: _message,
    RECV: _message,
    SWAP_EDGES: _swap_edges,
}


def _has_native_form(operation: Operation) -> bool:
    mpi, name = HOOKS.world.natively, operation.results[0].type.dtype.name
    # (there is no largest complex number)
    return mpi is not None and name in mpi.places and not (operation.op is ALL_EXTREME and name.startswith("complex"))


def _write(scope: Scope, operation: Operation) -> list[Lowered]:
    if not _has_native_form(operation):
        return write_callback(scope, operation)
    code = _Exchange(scope, operation)
    if operation in scope.program.exchanges.digests:  # no message
        code.count_begun()
    _WRITERS[operation.op](code)
    return code.result()


def _write_posted(scope: Scope, operation: Operation) -> list[Lowered]:
    """What is sent gets memory of its own, as long as somebody may read it: that of the operand may be used again."""
    if not _has_native_form(operation):
        return write_callback(scope, operation)
    code = _Exchange(scope, operation)
    homes = [code.home, *(home_of(scope, value) for value in operation.results[1:])]
    code.copy(homes[-2])  # a buffer of its own, or that of the result
    code.given = homes[-2]
    words = homes[-1].address
    code.requests = code.w.at("i64", words, 1)
    if operation in scope.program.exchanges.digests:
        code.count_begun()
    _WRITERS[code.op](code)
    code.w.store("i64", code.posted, words)
    code.note()
    return list(homes)


def _write_awaited(scope: Scope, operation: Operation) -> list[Lowered]:
    home, requests = scope.memory(operation.operands[0]), scope.memory(operation.operands[-1]).address
    if HOOKS.world.natively is not None:
        w = scope.writer
        headers = w.at("i64", requests, 5), w.at("i64", requests, 5 + HEADER // 8)
        message = "tag" in operation.attrs
        _wait(scope, operation, w.at("i64", requests, 1), w.load("i64", requests), headers if message else None)
    return [home]


LOWERINGS: dict[Op, Lowering] = {
    **{op: Lowering(memory=_write) for op in _WRITERS},
    **{first: Lowering(memory=_write_posted) for first, _ in HALVES.values()},
    **{last: Lowering(memory=_write_awaited, changes=always) for _, last in HALVES.values()},
}
