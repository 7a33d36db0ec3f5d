/* One process is killed while others hold or wait for its lock, its fence, its memory: their calls return errors, and none hangs. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int value = getpid(), class, len, code = MPI_SUCCESS, *base, one = 1;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Win win, second;
    MPI_Group all, dying, others;
    begin(&argc, &argv);
    CHECK(argc == 3);
    const char *what = argv[1];
    if (strcmp(argv[2], "create") == 0) {
        base = calloc(1, 64);
        OK(MPI_Win_create(base, 64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    } else {
        OK(MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    }
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    if (strcmp(what, "two") == 0) {
        OK(MPI_Win_create(base, 64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &second));
        OK(MPI_Win_set_errhandler(second, MPI_ERRORS_RETURN));
        if (rank != 1) OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win));
        if (rank != 1) OK(MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, second));
    }
    OK(MPI_Win_get_group(win, &all));
    OK(MPI_Group_incl(all, 1, &one, &dying));
    OK(MPI_Group_excl(all, 1, &one, &others));
    if (rank == 1) {
        if (strcmp(what, "exclusive") == 0) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        if (strcmp(what, "shared") == 0) OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        if (strcmp(what, "wait") == 0) OK(MPI_Win_start(others, 0, win));
    } else if (strcmp(what, "wait") == 0) {
        OK(MPI_Win_post(dying, 0, win));
    }
    if (strcmp(what, "wait") == 0 && rank == 1) raise(SIGKILL);
    /* All processes have communicated with the one that dies. */
    for (int r = 0; rank == 1 && r < size; r++)
        if (r != 1) OK(MPI_Send(&value, 1, MPI_INT, r, 0, MPI_COMM_WORLD));
    for (int r = 0; rank == 1 && r < size; r++)
        if (r != 1) OK(MPI_Recv(&value, 1, MPI_INT, r, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (rank == 1) raise(SIGKILL);
    if (strcmp(what, "wait") != 0) {
        OK(MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD));
    }
    if (strcmp(what, "fence") == 0) code = MPI_Win_fence(0, win);
    if (strcmp(what, "exclusive") == 0 || strcmp(what, "shared") == 0) code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
    if (strcmp(what, "start") == 0) code = MPI_Win_start(dying, 0, win);
    if (strcmp(what, "wait") == 0) code = MPI_Win_wait(win);
    /* Until its death this succeeds. */
    while (strcmp(what, "flush") == 0 && code == MPI_SUCCESS) {
        code = MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
        if (code == MPI_SUCCESS) code = MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
        if (code == MPI_SUCCESS) code = MPI_Win_flush(1, win);
        if (code == MPI_SUCCESS) code = MPI_Win_unlock(1, win);
    }
    if (strcmp(what, "two") == 0) {
        while (kill(value, 0) == 0) usleep(1000);
        OK(MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, second));
        OK(MPI_Put(&value, 1, MPI_INT, 1, 0, 1, MPI_INT, win));
        OK(MPI_Error_class(MPI_Win_flush(1, win), &class));
        CHECK(class == MPI_ERR_PROC_ABORTED);
        /* What one window is told does not make the other's put succeed. */
        code = MPI_Win_flush(1, second);
        CHECK(code != MPI_SUCCESS);
    }
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &len));
    printf("rank %d is told: %s\n", rank, text);
    fflush(stdout);
    CHECK(class == MPI_ERR_PROC_ABORTED);
    return 3;
}
