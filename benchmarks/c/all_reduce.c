/* The sum of 8 bytes over all ranks in a loop, as `benchmarks/distribute_ranks.py` has it: seconds of `count` turns. */
#include <mpi.h>

double seconds_of_sums(MPI_Comm comm, int count) {
    double x = 1.0, y, start;
    MPI_Barrier(comm);
    start = MPI_Wtime();
    for (int i = 0; i < count; i++) {
        x = x * 0.5;
        MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, comm);
        x = y;
    }
    return MPI_Wtime() - start;
}
