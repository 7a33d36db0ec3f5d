/* Rank 0 waits for a message of tag 7, which rank 1 never sends: it has sent one of tag 8, and is in a barrier. The others do not
 * call MPI any more. */
#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, number = 5;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        MPI_Recv(&number, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
        /* Of another tag, so that it waits. */
        MPI_Send(&number, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
        MPI_Barrier(MPI_COMM_WORLD);
    } else {
        for (;;)
            pause();
    }
    MPI_Finalize();
    return 0;
}
