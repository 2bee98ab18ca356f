"""Loops and branches of converted code as structure of a program: what is carried, where paths join, what aliases what.

Read in this order: `places` (what can be written), `bodies` (a path, traced and undone), `joins` (phis), `branches`, `loops`,
then `aliasing/` (which objects are one), `trials` (Python loops). The files `staged_*` say what Python's
builtins, lists and functions mean on values of the program.
"""
