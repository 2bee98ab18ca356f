"""What converted code calls when something it was given is staged: loops and branches, builtins, containers, texts."""

from gradtape.functions.staging.branches import (
    State as State,
    is_staged as is_staged,
    stage_and as stage_and,
    stage_if as stage_if,
    stage_if_exp as stage_if_exp,
    stage_or as stage_or,
    truth as truth,
)
from gradtape.functions.staging.loops import stage_for as stage_for, stage_while as stage_while
from gradtape.functions.staging.staged_builtins import (
    assert_ as assert_,
    call_builtin as call_builtin,
    container_call as container_call,
    contains as contains,
    del_item as del_item,
    fstring as fstring,
    inplace as inplace,
    item as item,
    joined as joined,
    list_method as list_method,
    method as method,
    print_ as print_,
    repeated as repeated,
    set_item as set_item,
    unpack as unpack,
)
from gradtape.functions.staging.staged_values import Maybe as Maybe
