"""AutoGraph: Python functions rewritten, on the standard `ast`, so that loops and branches can be staged.

One notion per file. The order of the passes is in `transform.py`: source, names, desugar, jumps, scopes, liveness, emission
(`emitter.py` and its neighbours). `ag.py` is what converted code calls. Converted code keeps Python's meaning on
plain values exactly; what happens on traced values is decided in `functions/staging/branches.py`, never here.
"""

from gradtape.functions.autograph.convert import convert as convert, do_not_convert as do_not_convert, to_code as to_code
