"""Transforms that differentiate: the reverse walk, forward rules, batching, custom derivatives."""
