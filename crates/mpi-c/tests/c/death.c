/* One process is killed: every call of the others that waits returns an error that names it. */
#include "check.h"
#include <signal.h>

static MPI_Comm inter;

/* The groups are ranks 0 and 1, and the others. */
static void begin_groups(void) {
    MPI_Comm half;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank < 2, rank, &half));
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < 2 ? 2 : 0, 0, &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    OK(MPI_Comm_free(&half));
}

/* All operations fail at all processes, also at those that do not communicate with the dead one. */
static int between_groups(const char *what) {
    int out = 0, in = 0, class;
    int code = strcmp(what, "inter-allreduce") == 0 ? MPI_Allreduce(&out, &in, 1, MPI_INT, MPI_SUM, inter)
                                                    : MPI_Barrier(inter);
    OK(MPI_Error_class(code, &class));
    printf("rank %d is told: class %d\n", rank, class);
    fflush(stdout);
    CHECK(class == MPI_ERR_PROC_ABORTED);
    return 3;
}

/* Operations that all have done together, in memory that all have, before one is killed: so also the last of them. */
static int in_shared_memory(const char *what, int is_last) {
    static int many[1 << 18], results[1 << 18];
    int in = rank, out = 0;
    if (strcmp(what, "long") == 0) return MPI_Allreduce(many, results, 1 << 18, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (strcmp(what, "barrier") == 0) return MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(what, "allreduce") == 0) return MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return MPI_Bcast(&in, 1, MPI_INT, is_last ? 1 : 0, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    int value = 0, class, len;
    char text[MPI_MAX_ERROR_STRING];
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (argc > 1 && strncmp(argv[1], "inter", 5) == 0) begin_groups();
    const char *shared = argc > 1 && strncmp(argv[1], "shared-", 7) == 0 ? argv[1] + 7 : NULL;
    for (int i = 0; shared && i < 10; i++) OK(in_shared_memory(shared, 0));
    /* All processes have communicated with the one that dies. */
    if (rank == 1) {
        for (int r = 0; r < size; r++)
            if (r != 1) OK(MPI_Recv(&value, 1, MPI_INT, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        raise(SIGKILL);
    }
    OK(MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
    if (argc > 1 && strncmp(argv[1], "inter", 5) == 0) return between_groups(argv[1]);
    int source = argc > 1 && strcmp(argv[1], "any") == 0 ? MPI_ANY_SOURCE : 1;
    int code = shared ? in_shared_memory(shared, 1)
               : argc > 1 && strcmp(argv[1], "barrier") == 0
                   ? MPI_Barrier(MPI_COMM_WORLD)
                   : MPI_Recv(&value, 1, MPI_INT, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &len));
    printf("rank %d is told: %s\n", rank, text);
    fflush(stdout);
    CHECK(class == MPI_ERR_PROC_ABORTED);
    CHECK(strstr(text, "rank 1"));
    /* Each receive from any source fails again: its message may have been the dead process's. */
    if (source == MPI_ANY_SOURCE) {
        code = MPI_Recv(&value, 1, MPI_INT, source, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        OK(MPI_Error_class(code, &class));
        CHECK(class == MPI_ERR_PROC_ABORTED);
    }
    /* The memory that all share cannot be used any more. */
    if (shared) CHECK(in_shared_memory(shared, 1) != MPI_SUCCESS);
    return 3;
}
