"""What a program is: types and dimensions, operations with regions, walking and rebuilding, text form, verifier."""
