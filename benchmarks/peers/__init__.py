"""One module per library measured. Each has:

* `version()`: the library's version, importing it (ImportError: the peer is absent);
* `set_threads(n)`: the number of threads of its kernels;
* `STEPS`: workload name, or family where it has one → function of the workload's inputs that gives a step, as an expert of
  the library writes it, eager;
* `to_numpy(value)`.
"""
