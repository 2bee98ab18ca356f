"""Loops and branches of converted code as structure of a program: what is carried, where paths join, what aliases what.

Read in this order: `staging`, `joins` (phis), `places`, `bodies`, then `aliases` and `alias_joins`.
"""
