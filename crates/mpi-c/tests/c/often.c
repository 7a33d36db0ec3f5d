/* The last rank refuses calls on many communicators that it frees then, more than may be stated at a time; those that wait for it in the last one still learn that. */
#include "check.h"

enum { MANY = 1200 };

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (int i = 0; i <= MANY && size > 1; i++) {
        MPI_Comm comm;
        int value = rank, all[64], code, class;
        CHECK(size <= 64);
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
        if (rank == size - 1) CHECK(MPI_Gather(&value, -1, MPI_INT, all, 1, MPI_INT, 0, comm) != MPI_SUCCESS);
        if (rank == 0 && i == MANY) {
            code = MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, 0, comm);
            OK(MPI_Error_class(code, &class));
            CHECK(class == MPI_ERR_COUNT);
        }
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_Finalize());
    return 0;
}
