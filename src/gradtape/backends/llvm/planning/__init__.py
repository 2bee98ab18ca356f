"""What is computed where: values with memory and values recomputed per element, kernels, loops, bounds."""
