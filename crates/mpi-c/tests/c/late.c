/* A process that computes for long before it is in MPI for the first time since the start is waited for. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv) {
    int sum;
    begin(&argc, &argv);
    if (rank == 0) sleep(argc > 1 ? atoi(argv[1]) : 7);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * (size - 1) / 2);
    OK(MPI_Finalize());
    return 0;
}
