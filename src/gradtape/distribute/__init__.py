"""`gt.distribute`: many processes run one program, and derivatives go through what they exchange.

Operations between ranks, strategies under TensorFlow's names, and what a derivative means among ranks. This file only
re-exports, and finds out which ranks there are.
"""

from gradtape.distribute.connecting import connect as _connect
from gradtape.distribute.rank_checkpoints import save_checkpoint as save_checkpoint
from gradtape.distribute.strategies import (
    MirroredStrategy as MirroredStrategy,
    MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy,
    ReduceOp as ReduceOp,
    ReplicaContext as ReplicaContext,
    Strategy as Strategy,
    get_replica_context as get_replica_context,
    get_strategy as get_strategy,
    has_strategy as has_strategy,
    in_cross_replica_context as in_cross_replica_context,
)
from gradtape.distribute.strategy_variables import (
    VariableAggregation as VariableAggregation,
    VariableSynchronization as VariableSynchronization,
)
from gradtape.ops.rank_functions import (
    all_gather as all_gather,
    all_reduce as all_reduce,
    all_to_all as all_to_all,
    barrier as barrier,
    broadcast as broadcast,
    gather_to as _gather,
    halo_exchange as halo_exchange,
    rank as rank,
    recv as recv,
    reduce as reduce,
    reduce_scatter as reduce_scatter,
    replicated as replicated,
    scatter_from as _scatter,
    send as send,
    sendrecv as sendrecv,
    size as size,
)
from gradtape.surface.name_hints import hint as _hint

gather, scatter = _gather, _scatter
_hint(__name__)
_connect()
