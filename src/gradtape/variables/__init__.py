"""Mutable state: variables, their locks and versions, who is asked when one is made, and gradients of few rows of one."""
