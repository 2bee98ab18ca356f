"""Program to program: one file is one pass is one function `block -> block` that keeps the meaning and changes no input."""
