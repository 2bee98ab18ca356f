"""`gt.debugging`: assertions about tensors. This file only re-exports."""

from gradtape.functions.numerics import (
    disable_check_numerics as disable_check_numerics,
    enable_check_numerics as enable_check_numerics,
)
from gradtape.surface.assertions import *
from gradtape.surface.misc import Assert as Assert
from gradtape.surface.name_hints import hint as _hint

_hint(__name__)
