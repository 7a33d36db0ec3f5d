/* Rank 0 has done its part of all operations, and waits in MPI_Finalize for more than a second, so that it states that it takes no further part. The others finish these operations
 * after that, and go on without rank 0, as if nothing had been stated. With an argument, rank 0 has refused calls besides that no other rank makes. */
#include "check.h"

#include <unistd.h>

static char bytes[8], others[64];

static void refuse(MPI_Comm comm) {
    MPI_Request request;
    CHECK(MPI_Bcast(bytes, -1, MPI_CHAR, 0, MPI_COMM_WORLD) != MPI_SUCCESS);
    CHECK(MPI_Gather(bytes, -1, MPI_CHAR, others, 1, MPI_CHAR, 0, comm) != MPI_SUCCESS);
    CHECK(MPI_Gather_init(bytes, -1, MPI_CHAR, others, 1, MPI_CHAR, 0, comm, MPI_INFO_NULL, &request) != MPI_SUCCESS);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    MPI_Comm without, copy;
    MPI_Request kept;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &copy));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, rank, &without));
    for (int i = 0; i < 5; i++) OK(MPI_Barrier(copy));
    if (argc > 1 && rank == 0) refuse(copy);
    OK(MPI_Bcast_init(bytes, sizeof bytes, MPI_CHAR, 0, copy, MPI_INFO_NULL, &kept));
    if (rank != 0) sleep(2);
    OK(MPI_Bcast(bytes, sizeof bytes, MPI_CHAR, 0, MPI_COMM_WORLD));
    OK(MPI_Bcast(bytes, sizeof bytes, MPI_CHAR, 0, copy));
    OK(MPI_Start(&kept));
    OK(MPI_Wait(&kept, MPI_STATUS_IGNORE));
    OK(MPI_Request_free(&kept));
    if (rank != 0) {
        for (int i = 0; i < 20; i++) {
            int value = rank, sum = 0;
            OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, without));
            CHECK(sum == size * (size - 1) / 2);
        }
        OK(MPI_Comm_free(&without));
    }
    OK(MPI_Comm_free(&copy));
    OK(MPI_Finalize());
    return 0;
}
