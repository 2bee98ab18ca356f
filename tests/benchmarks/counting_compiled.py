"""What compiled programs consist of, counted: runs compiled workloads of `benchmarks/` in a process of its own.

`python -m tests.benchmarks.counting_compiled` prints the counts as JSON; with `--update` it stores them as the expectation.

* operations  of the program after all passes, regions included;
* kernels, products, loops, branches, numpy  pieces of native code, and calls of NumPy from it;
* saved       bytes that the forward half hands to the backward half when the tape is outside of the function.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

STORED = Path(__file__).with_name("compiled_counts.json")
NAMES = (
    "trivial", "scalar_loop", "nested_loops", "newton", "lstm_tiny", "jacobi", "triangular", "logsumexp", "least_squares",
    "gmm", "ode", "mlp", "hvp", "hessian",
)  # fmt: skip
KINDS = {"kernel": "kernels", "product": "products", "loop": "loops", "branch": "branches", "numpy": "numpy"}


def program_of(step: Any) -> Any:
    """The one program of a compiled function."""
    (traced,) = step.function._state.cache.all()
    return traced.program.compiled


def of_program(compiled: Any) -> dict[str, int]:
    from gradtape.backends.llvm.entry.native_executable import NativeExecutable
    from gradtape.ir import walk

    executable = compiled._executable
    found = {"operations": sum(1 for _ in walk.program(compiled.optimized))}
    if not isinstance(executable, NativeExecutable):
        return found | {"not native": 1}
    notes = Counter(KINDS.get(note.kind, note.kind) for note in executable.notes)
    return found | {kind: notes[kind] for kind in sorted({*KINDS.values(), *notes})}


def traced(step: Any, workload: Any) -> Any:
    """The program of a step without running it: nothing is compiled that is not counted."""
    from benchmarks.workloads.compiled.making import split

    import gradtape as gt

    watched, arrays, _ = split(workload.inputs(), workload.wrt)
    step.function.get_concrete_function(*(gt.constant(a) for a in (*watched.values(), *arrays.values())))
    return program_of(step)


def saved_bytes(workload: Any) -> int | None:
    """None where that is known only when the program runs."""
    from gradtape.functions.compiled import known_bytes

    program = traced(workload.primal(**workload.inputs()), workload)
    half, _, _ = program.halves(frozenset(range(len(workload.wrt))), (0,))
    return known_bytes(half.forward.result_group("saved"))


def counts() -> dict[str, dict[str, Any]]:
    from benchmarks.workloads import BY_NAME

    found = {}
    for name in NAMES:
        workload = BY_NAME[f"compiled_{name}"]
        step: Any = workload.gradtape(**workload.inputs())
        if workload.primal is None:  # its function does not take all inputs
            step()
            found[name] = of_program(program_of(step))
        else:
            program = traced(step, workload)
            program.prepare()
            found[name] = of_program(program) | {"saved": saved_bytes(workload)}
    return found


def main() -> None:
    # known before gradtape is loaded: native code, and one thread so that no kernel is split
    os.environ |= {"GRADTAPE_NATIVE": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    text = json.dumps(counts(), indent=1)
    if "--update" in sys.argv:
        STORED.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
