"""Calls of LLVM that may call `abort` without ending the process: machine code that jumps out of them.

LLVM checks itself by assertions, and one that fails ends the process, which is the user's. A guarded call is one call of
machine code: it marks its place (`__sigsetjmp`), has SIGABRT handled meanwhile, and calls. If the thread that aborts is
guarded, the handler jumps back to the mark (`siglongjmp`); any other abort is answered as if nobody were here: by what the
process did about the signal before, which is put back when the last guarded call ends. So is one of the C library, that found
its memory broken: it has it locked. What was jumped out of is half done: whoever gets `LLVMAbortError` drops all that the call
had and never frees it.

Needs the structures of signals that Linux has; elsewhere nothing is guarded. Python is never jumped over: `ctypes` gives the
GIL back before the machine code begins and takes it after it ended.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable

from gradtape.backends.llvm.writing.algebra import I32, I64, Flag, Whole
from gradtape.backends.llvm.writing.builder import FLAG, PTR, VOID, Builder, Int32, Member, Pointer, define, external
from gradtape.backends.llvm.writing.ir_text import ModuleText

THREADS = 16  # that may be guarded at the same time
ABORT = int(signal.SIGABRT)
LAST_WORDS = "__abort_msg"  # where glibc keeps what a failed assertion, or itself, said: a size, then text
NAMES = ("__sigsetjmp", "siglongjmp", "sigaction", "pthread_self", "sched_yield", "raise", "strstr")
# `struct sigaction` and `siginfo_t` of Linux
HANDLER, FLAGS, WORDS = Member(0, PTR), Member(136, I32), 20
WITH_FACTS = 4  # SA_SIGINFO
CODE, BY_THREAD = Member(8, I32), -6  # si_code: SI_TKILL, which `abort` sends and `kill` does not
JUMP_WORDS = 128  # more than the `jmp_buf` of any processor

sigaction = external("sigaction", I32, I32, PTR, PTR)
siglongjmp = external("siglongjmp", I32, PTR, I32)
pthread_self = external("pthread_self", I64)
sched_yield = external("sched_yield", I32)
raised = external("raise", I32, I32)
strstr = external("strstr", PTR, PTR, PTR)


def _shared(f: Builder, name: str) -> Pointer:
    return Pointer(f.writer, f"@{name}")


def _locked(f: Builder) -> None:
    with f.forever() as waiting:
        waiting.leave_if(_shared(f, "lock").to(I64).compare_exchange(0, 1))
        sched_yield(f)


def _last_words(f: Builder) -> Pointer:
    return f.external(LAST_WORDS).to(PTR).value if _is_known(LAST_WORDS) else f.null()


def in_source(f: Builder, before: Pointer) -> Flag:
    """Whether nothing was said before an abort, or a line of C++ was named, as assertions do and the C library does not."""
    words = _last_words(f)
    f.leave_if(words.equals(before), f.flag(True))
    for name in ("source", "header"):
        f.leave_if(~strstr(f, words.at(4), _shared(f, name)).is_null(), f.flag(True))
    return f.flag(False)


def on_abort(f: Builder, number: Int32, facts: Pointer, context: Pointer) -> None:
    """The handler of SIGABRT while a call is guarded. It runs in the thread that aborts."""
    mine = pthread_self(f)
    with f.if_(facts[CODE].equals(BY_THREAD)), f.loop(THREADS) as i:
        place = _shared(f, "places").to(PTR)[i]
        with f.if_(_shared(f, "threads").to(I64)[i].equals(mine) & ~place.is_null()):
            before = _shared(f, "words").to(PTR)[i]
            with f.if_(f.call("@in_source", FLAG, [PTR], [before])):
                siglongjmp(f, place, 1)
    # not ours: the signal comes again when this returns, and meets what would have answered it without us
    sigaction(f, ABORT, _shared(f, "before"), None)
    raised(f, ABORT)


def begin(f: Builder) -> None:
    """One more call is guarded; the first of them installs the handler."""
    action = f.array(I64, WORDS)
    _locked(f)
    count = _shared(f, "count").to(I64)
    with f.if_(count.value.equals(0)):
        action.fill(0, 8 * WORDS)
        action[HANDLER] = _shared(f, "on_abort")
        action[FLAGS] = WITH_FACTS
        sigaction(f, ABORT, action, _shared(f, "before"))
    count.value = count.value + 1
    _shared(f, "lock").to(I64).atomic = 0


def end(f: Builder) -> None:
    """One less; the last one puts back what was there, unless somebody has installed another handler meanwhile."""
    action = f.array(I64, WORDS)
    _locked(f)
    count = _shared(f, "count").to(I64)
    count.value = count.value - 1
    with f.if_(count.value.equals(0)):
        sigaction(f, ABORT, None, action)
        with f.if_(action[HANDLER].equals(_shared(f, "on_abort"))):
            sigaction(f, ABORT, _shared(f, "before"), None)
    _shared(f, "lock").to(I64).atomic = 0


def gt_guard(f: Builder, function: Pointer, arguments: Pointer, result: Pointer) -> Int32:
    """Call a function of four words; 0 if it returned, and its result is there."""
    buffer = f.array(I64, JUMP_WORDS, 16)
    mine = pthread_self(f)
    free = f.variable(I64, 0)
    with f.forever() as looking:
        looking.leave_if(_shared(f, "threads").to(I64).at(free.value).compare_exchange(0, mine))
        free.value = (free.value + 1) % THREADS
    # (all that is needed after a jump is known before the mark, so no register has changed since)
    owner, place = _shared(f, "threads").to(I64).at(free.value), _shared(f, "places").to(PTR).at(free.value)
    _shared(f, "words").to(PTR).at(free.value).value = _last_words(f)
    f.call("@begin", VOID, [], [])
    f.module.declare("__sigsetjmp", "i32 (ptr, i32) returns_twice")
    jumped: Whole = f.call("@__sigsetjmp", I32, [PTR, I32], [buffer, 1])
    with f.if_(jumped.equals(0)):
        place.value = buffer
        words = [arguments.to(I64)[i] for i in range(4)]
        result.to(I64)[0] = f.call(function.register, I64, [I64] * 4, words)
    place.value = f.null()
    owner.atomic = 0
    f.call("@end", VOID, [], [])
    return jumped


def text() -> str:
    """All of it as a module."""
    module = ModuleText()
    slots = [(name, f"[{THREADS} x {type}]") for name, type in (("threads", "i64"), ("places", "ptr"), ("words", "ptr"))]
    for name, type in (("lock", "i64"), ("count", "i64"), ("before", f"[{WORDS} x i64]"), *slots):
        module.globals.append(f"@{name} = internal global {type} zeroinitializer, align 64")
    module.globals += ['@source = internal constant [6 x i8] c".cpp:\\00"', '@header = internal constant [4 x i8] c".h:\\00"']
    for body in (in_source, on_abort, begin, end, gt_guard):
        define(module, body.__name__, body)
    return str(module)


def _is_known(name: str) -> bool:
    return hasattr(ctypes.CDLL(None), name)


def available() -> bool:
    """Whether this system has what it takes."""
    return sys.platform == "linux" and all(map(_is_known, NAMES))


class LLVMAbortError(Exception):
    """LLVM would have ended the process."""


Call = Callable[..., int]


def guarded(address: int) -> Call:
    """Calls of functions of up to four words by their addresses, by the guard that is at an address."""
    guard = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(address)

    def call(function: int, *words: int) -> int:
        arguments, result = (ctypes.c_int64 * 4)(*words), ctypes.c_int64()
        if guard(function, ctypes.byref(arguments), ctypes.byref(result)):
            raise LLVMAbortError("LLVM called abort")
        return result.value

    return call


def direct(function: int, *words: int) -> int:
    """The same with no guard."""
    call = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(words))(function)
    return int(call(*words))
