"""`gt.autograph`: what AutoGraph makes of a function, and how to keep it away from one."""

from gradtape.functions.autograph import experimental as experimental
from gradtape.functions.autograph.convert import do_not_convert as do_not_convert, to_code as to_code, to_graph as to_graph
