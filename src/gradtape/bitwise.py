"""`gt.bitwise`: logic on the bits of integers, under TensorFlow's names. This file only re-exports."""

from gradtape.ops.compare import (
    bitwise_and as bitwise_and,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    invert as invert,
    left_shift as left_shift,
    right_shift as right_shift,
)
