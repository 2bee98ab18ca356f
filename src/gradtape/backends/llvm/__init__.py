"""Native code: programs as machine code made with LLVM.

`table.py` says which op is written how. The way of a block: `plan.py` decides what gets memory and which kernels there are,
`scope.py` writes the block in order, `kernel_code.py` the loop nests, `region_code.py` loops and branches,
`written_program.py` the entry. `native_executable.py` runs what was written, or found on disk: then nothing else is loaded.
"""

from gradtape.backends.llvm.entry.native_executable import compile_block as compile_block
from gradtape.backends.llvm.runtime.unsupported import UnsupportedError as UnsupportedError
