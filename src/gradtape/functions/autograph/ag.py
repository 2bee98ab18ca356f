"""What converted code calls: it knows this module as `ag__`. Only names; each is explained where it is defined."""

from builtins import slice as slice

from gradtape.functions.autograph.builtin_calls import is_of as is_of
from gradtape.functions.autograph.calling import (
    call as call,
    conv as conv,
    frame_locals as frame_locals,
    globals_ as globals_,
    looking as looking,
    method as method,
    super_ as super_,
    with_defaults as with_defaults,
)
from gradtape.functions.autograph.control_calls import (
    and_ as and_,
    and_test as and_test,
    assert_stmt as assert_stmt,
    binding as binding,
    compare as compare,
    for_stmt as for_stmt,
    generator as generator,
    get_nothing as get_nothing,
    gone_over as gone_over,
    if_exp as if_exp,
    if_stmt as if_stmt,
    is_ as is_,
    is_not as is_not,
    not_ as not_,
    nothing as nothing,
    or_ as or_,
    or_test as or_test,
    set_nothing as set_nothing,
    while_stmt as while_stmt,
)
from gradtape.functions.autograph.formatting import fstring as fstring, part as part
from gradtape.functions.autograph.pattern_parts import (
    attributes as attributes,
    captured as captured,
    mapping as mapping,
    sequence as sequence,
)
from gradtape.functions.autograph.raising import after_try as after_try, guarded_try as guarded_try, raising as raising
from gradtape.functions.autograph.reading import (
    add as add,
    append as append,
    attr as attr,
    before_cells as before_cells,
    before_outer as before_outer,
    class_defined as class_defined,
    del_attr as del_attr,
    del_item as del_item,
    del_outer as del_outer,
    forget_outer as forget_outer,
    grown as grown,
    in_ as in_,
    inplace as inplace,
    item as item,
    keyed as keyed,
    ld as ld,
    ld_free as ld_free,
    managed as managed,
    new_set as new_set,
    not_in as not_in,
    outer as outer,
    plus as plus,
    put as put,
    set_attr as set_attr,
    set_item as set_item,
    set_outer as set_outer,
    taken as taken,
    times as times,
    unpack as unpack,
)
from gradtape.functions.staging.staged_values import Undefined as Undefined
