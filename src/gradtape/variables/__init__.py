"""Mutable state: variables, updates of parts of them, their locks and versions, and the scopes in which they are made.

Gradients of few rows of a variable are here too. Read `variable` first.
"""
