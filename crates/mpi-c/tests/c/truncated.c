/* A collective operation by messages in which rank 1 has too small a buffer: all ranks return that error, and no rank is taken for dead. */
#include "check.h"

int main(int argc, char **argv) {
    static int from[1000], into[1000];
    int class, len, sum, n;
    char text[MPI_MAX_ERROR_STRING];
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    n = rank == 1 ? 1 : 1000;
    int code = MPI_Allreduce(from, into, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &len));
    if (class != MPI_ERR_TRUNCATE) fprintf(stderr, "%s\n", text);
    CHECK(class == MPI_ERR_TRUNCATE);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * (size - 1) / 2);
    OK(MPI_Finalize());
    return 0;
}
