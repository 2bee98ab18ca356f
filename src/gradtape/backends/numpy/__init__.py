"""The reference backend: programs become Python functions that call each op's NumPy `impl`. Its answers are the meaning."""

from gradtape.backends.numpy.executable import Executable as Executable, compile_block as compile_block
