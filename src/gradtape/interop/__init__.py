"""Other people's arrays: NumPy's and SciPy's functions on tensors, the array API standard."""
