"""The house: how large the source is, how its rooms hang together, and whether its names mean one thing.

`make house` prints the table; `tests/structure/test_house.py` holds each number below the bound in `bounds.json`. It stands
with the tests, not in the package: users do not need it, and the structure tests read the source through the same `tree`.

Read `tree` (the source as data), then `graph`, `names` and `calls` (what is counted), then `measures` (the table).
It measures the gradtape that Python imports, so `PYTHONPATH=elsewhere/src python -m tests.structure.house` measures another.
"""
