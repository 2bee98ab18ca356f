"""Traced tensors: operations on them become operations of a program. Their types and sizes, and Python numbers among them.

Read `tracing` first, then `sizing`; `fast_path` is a shortcut, `weak` the numbers. Nothing here differentiates.
"""
