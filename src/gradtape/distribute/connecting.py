"""Which ranks there are: found out once, when `gt.distribute` is first used.

Started by a launcher of MPI (`mpiexec`, `srun`, `gradtape launch`) with several processes, or after the program imported mpi4py
itself, the world is that of MPI; else this process is the only rank, and nothing of MPI is loaded.
"""

from __future__ import annotations

import sys

from gradtape.config import launched_ranks, ranks_debugged
from gradtape.core.hooks import HOOKS
from gradtape.core.record import LOCAL
from gradtape.errors import FailedPreconditionError
from gradtape.ops.random_state import STATE, entropy_word


def connect() -> None:
    """Put the world of MPI in the place of one rank, where there is one."""
    ranks = launched_ranks()
    if ranks == 1 and "mpi4py.MPI" not in sys.modules:
        return
    from gradtape.distribute.mpi_world import MpiWorld

    try:
        world = MpiWorld()
    except (ImportError, RuntimeError) as error:  # no package, or no library that it can load
        why = str(error).partition("\n")[0]  # (what follows are the names under which a library was looked for)
        raise FailedPreconditionError(
            f"{ranks} processes were started together to run this program, but they cannot talk to one another: {why}. "
            'Install MPI for Python: pip install "gradtape[mpi]" mpich'
        ) from None
    if world.size == 1 < ranks:  # each would train by itself, and say that it is rank 0
        raise FailedPreconditionError(
            f"{ranks} processes were started together to run this program, but each finds itself alone: what started them is "
            "not of the MPI that mpi4py uses. Start them with the mpiexec of that MPI, or with gradtape launch; under SLURM "
            "with srun --mpi=pmi2 or --mpi=pmix (srun --mpi=list says which there are)"
        )
    HOOKS.world = world
    if world.size == 1:
        HOOKS.array_kind = None
        return
    from gradtape.distribute.failing import watch_over
    from gradtape.distribute.rank_gradients import among_ranks, rule_shares
    from gradtape.distribute.rank_kinds import kind_of, rank_kind, result_kinds
    from gradtape.distribute.strategy_variables import check_gradient

    HOOKS.array_kind = LOCAL
    HOOKS.kind_of = kind_of
    HOOKS.rank_kind = rank_kind
    HOOKS.rule_shares = rule_shares
    HOOKS.among_ranks = among_ranks
    HOOKS.check_gradient = check_gradient
    HOOKS.result_kinds = result_kinds
    STATE.share(int(world.comm.bcast(entropy_word(), 0)))  # else each would shuffle the data in an order of its own
    world.debug = ranks_debugged()
    watch_over(world)
