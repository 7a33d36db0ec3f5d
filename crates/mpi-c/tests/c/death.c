/* One process is killed: the others are told, by name, whatever they wait for. */
#include "check.h"
#include <signal.h>

int main(int argc, char **argv) {
    int value = 0, class, len;
    char text[MPI_MAX_ERROR_STRING];
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    /* All have spoken with the one that dies. */
    if (rank == 1) {
        for (int r = 0; r < size; r++)
            if (r != 1) OK(MPI_Recv(&value, 1, MPI_INT, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        raise(SIGKILL);
    }
    OK(MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
    int source = argc > 1 && strcmp(argv[1], "any") == 0 ? MPI_ANY_SOURCE : 1;
    int code = argc > 1 && strcmp(argv[1], "barrier") == 0
                   ? MPI_Barrier(MPI_COMM_WORLD)
                   : MPI_Recv(&value, 1, MPI_INT, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &len));
    printf("rank %d is told: %s\n", rank, text);
    fflush(stdout);
    CHECK(class == MPI_ERR_PROC_ABORTED);
    CHECK(strstr(text, "rank 1"));
    return 3;
}
