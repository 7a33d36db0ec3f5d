/* One process is killed. A call for a lock then fails, and loses none of the locks that its caller held before, and keeps none of those that it asked for. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

static MPI_Win win;

/* A message to or from a rank. It has been sent when the other has received it. */
static void to(int other) {
    OK(MPI_Ssend(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD));
}

static void from(int other) {
    OK(MPI_Recv(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

static void is_told(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_PROC_ABORTED);
}

/* Rank 0 holds its own lock, and rank 2 that of rank 3. The others' calls for them fail because rank 1 is lost. */
static void one_lock(void) {
    int held;
    if (rank == 0) to(2), from(3);
    if (rank == 2) {
        from(0);
        is_told(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
        /* Nothing has been taken that could be released, and what was held before still excludes others. */
        OK(MPI_Error_class(MPI_Win_unlock(0, win), &held));
        CHECK(held == MPI_ERR_RMA_SYNC);
        to(3), from(3);
        OK(MPI_Win_unlock(3, win));
        to(3), from(3);
    }
    if (rank == 3) {
        from(2);
        is_told(MPI_Win_lock(MPI_LOCK_SHARED, 3, 0, win));
        is_told(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        to(2), from(2);
        /* Its own, which is free. The request that failed before does not keep it. */
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 3, 0, win));
        OK(MPI_Win_unlock(3, win));
        to(2), to(0);
    }
}

/* Rank 0 holds its own lock exclusively, so that calls for the locks of all fail. */
static void all_locks(void) {
    if (rank == 0) {
        from(2), from(3);
    } else {
        is_told(MPI_Win_lock_all(0, win));
        to(0);
    }
}

int main(int argc, char **argv) {
    int *base, class;
    begin(&argc, &argv);
    CHECK(argc == 3 && size == 4);
    if (strcmp(argv[2], "create") == 0) {
        base = calloc(1, 64);
        OK(MPI_Win_create(base, 64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    } else {
        OK(MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    }
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    if (rank == 0) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
    if (rank == 2 && strcmp(argv[1], "one") == 0) OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 3, 0, win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 1) raise(SIGKILL);
    do OK(MPI_Error_class(MPI_Recv(NULL, 0, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE), &class));
    while (class != MPI_ERR_PROC_ABORTED);
    if (strcmp(argv[1], "one") == 0)
        one_lock();
    else
        all_locks();
    if (rank == 0) {
        OK(MPI_Win_unlock(0, win));
        /* Requests that have failed are granted and released now, while the others wait for messages. */
        int code;
        while ((code = MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win)) != MPI_SUCCESS) is_told(code);
        OK(MPI_Win_unlock(0, win));
        to(2), to(3);
    } else {
        from(0);
    }
    printf("rank %d is told: all is free\n", rank);
    fflush(stdout);
    return 3;
}
