"""What runs programs: each backend is a folder with `compile_block(block) -> Executable`; adding one touches nothing else."""
