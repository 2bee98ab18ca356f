"""`gt.debugging`: assertions about tensors. This file only re-exports."""

from gradtape.functions.numerics import (
    disable_check_numerics as disable_check_numerics,
    enable_check_numerics as enable_check_numerics,
)
from gradtape.surface.assertions import (
    assert_all_finite as assert_all_finite,
    assert_equal as assert_equal,
    assert_greater as assert_greater,
    assert_greater_equal as assert_greater_equal,
    assert_integer as assert_integer,
    assert_less as assert_less,
    assert_less_equal as assert_less_equal,
    assert_near as assert_near,
    assert_negative as assert_negative,
    assert_non_negative as assert_non_negative,
    assert_non_positive as assert_non_positive,
    assert_none_equal as assert_none_equal,
    assert_positive as assert_positive,
    assert_rank as assert_rank,
    assert_rank_at_least as assert_rank_at_least,
    assert_rank_in as assert_rank_in,
    assert_same_float_dtype as assert_same_float_dtype,
    assert_scalar as assert_scalar,
    assert_shapes as assert_shapes,
    assert_type as assert_type,
    check_numerics as check_numerics,
    disable_strict_gradients as disable_strict_gradients,
    enable_strict_gradients as enable_strict_gradients,
    is_numeric_tensor as is_numeric_tensor,
)
