"""Matrix products and convolutions: BLAS, and tiles of our own."""
