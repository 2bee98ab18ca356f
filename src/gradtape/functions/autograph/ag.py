"""What converted code calls: it knows this module as `ag__`. Only names; each is explained where it is defined."""

from builtins import slice as slice

from gradtape.functions.autograph.builtin_calls import is_of as is_of
from gradtape.functions.autograph.calling import *
from gradtape.functions.autograph.control_calls import *
from gradtape.functions.autograph.formatting import fstring as fstring, part as part
from gradtape.functions.autograph.pattern_parts import *
from gradtape.functions.autograph.raising import after_try as after_try, guarded_try as guarded_try, raising as raising
from gradtape.functions.autograph.reading import *
from gradtape.functions.staging.staged_values import Undefined as Undefined
