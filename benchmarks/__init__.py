"""Benchmarks of gradtape against its peers; `python -m benchmarks` runs them, `benchmarks/README.md` explains them."""
