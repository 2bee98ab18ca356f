/* What `benchmarks/distribute_ranks.py` does with 8 bytes in loops: seconds of `count` turns. */
#include <mpi.h>

/* The sum over all ranks. */
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

/* A message to the other one of two ranks, and one from there. */
double seconds_of_messages(MPI_Comm comm, int count) {
    double x = 1.0, y, start;
    int rank;
    MPI_Comm_rank(comm, &rank);
    MPI_Barrier(comm);
    start = MPI_Wtime();
    for (int i = 0; i < count; i++) {
        MPI_Request requests[2];
        int done = 0;
        x = x * 0.5;
        MPI_Irecv(&y, 1, MPI_DOUBLE, 1 - rank, 0, comm, &requests[0]);
        MPI_Isend(&x, 1, MPI_DOUBLE, 1 - rank, 0, comm, &requests[1]);
        while (!done) MPI_Testall(2, requests, &done, MPI_STATUSES_IGNORE);
        x = y;
    }
    return MPI_Wtime() - start;
}
