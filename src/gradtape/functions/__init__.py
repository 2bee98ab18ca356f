"""`@function`: from a call to a program. Signature, cache, guards, tracing, running; then `staging/` and `autograph/`.

Read in this order: `function`, `signature`, `engine`, `tracer`, `program` (with `templates` and `write_backs`), `compiled`;
then `staging/` and `autograph/`.
"""
