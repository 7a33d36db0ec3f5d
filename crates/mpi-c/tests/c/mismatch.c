/* In the checking mode, calls that do not belong together are errors that name ranks and calls. */
#include "check.h"

static void told(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int class, len;
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &len));
    if (!strstr(text, what)) fprintf(stderr, "%s\n", text);
    CHECK(class == MPI_ERR_NOT_SAME);
    CHECK(strstr(text, what));
}

int main(int argc, char **argv) {
    int word = 0, sum = 0;
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int is_last = rank == size - 1;
    if (size > 1) {
        int code = is_last ? MPI_Barrier(MPI_COMM_WORLD) : MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
        told(code, "rank 0 calls MPI_Bcast (root 0, 4 bytes), rank");
        told(MPI_Bcast(&word, 1, MPI_INT, is_last, MPI_COMM_WORLD), "root 1");
        told(MPI_Allreduce(&word, &sum, 1, MPI_INT, is_last ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD), "operation");
        MPI_Request request;
        code = is_last ? MPI_Ibarrier(MPI_COMM_WORLD, &request) : MPI_Barrier(MPI_COMM_WORLD);
        told(is_last ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code, "MPI_Ibarrier");
    }
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * (size - 1) / 2);
    /* Named at the end. */
    MPI_Comm leaked;
    MPI_Request request;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &leaked));
    OK(MPI_Comm_set_name(leaked, "forgotten"));
    OK(MPI_Send_init(&word, 1, MPI_INT, MPI_PROC_NULL, 0, leaked, &request));
    OK(MPI_Finalize());
    return 0;
}
