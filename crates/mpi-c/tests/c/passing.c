/* A program that always has a request that is done learns that another one is, too (MPI 5.0 §3.7.5): rank 0 sends short messages, each of which is
 * done at once, and rank 1 sends one meanwhile. Rank 1 reports in shared memory what it has received, so that sends never wait for room. */
#include "check.h"
#include <sched.h>

enum { STOP = 5, SHORT, OVER, MOST = 128 };

/* Whether the request with index 0 of two was found by one call. */
static int finds(int way, MPI_Request *requests) {
    int count = 1, indices[2], flag = 1;
    switch (way) {
    case 0: OK(MPI_Testsome(2, requests, &count, indices, MPI_STATUSES_IGNORE)); break;
    case 1: OK(MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE)); break;
    case 2: OK(MPI_Testany(2, requests, indices, &flag, MPI_STATUS_IGNORE)); break;
    default: OK(MPI_Waitany(2, requests, indices, MPI_STATUS_IGNORE));
    }
    int is_found = 0;
    for (int i = 0; flag && i < count; i++) is_found |= indices[i] == 0;
    return is_found;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    long *received;
    MPI_Win win;
    MPI_Aint bytes;
    int unit;
    OK(MPI_Win_allocate_shared(rank == 0 ? sizeof *received : 0, sizeof *received, MPI_INFO_NULL, MPI_COMM_WORLD, &received, &win));
    OK(MPI_Win_shared_query(win, 0, &bytes, &unit, &received));
    for (int way = 0; way < 4 && size > 1; way++) {
        int value = way, got = -1;
        if (rank == 0) __atomic_store_n(received, 0, __ATOMIC_RELEASE);
        OK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 0) {
            MPI_Request requests[2];
            int is_found = 0;
            OK(MPI_Irecv(&got, 1, MPI_INT, 1, STOP, MPI_COMM_WORLD, &requests[0]));
            for (long round = 0; round < MOST && !is_found; round++) {
                while (__atomic_load_n(received, __ATOMIC_ACQUIRE) + 4 < round) sched_yield();
                OK(MPI_Isend(&value, 1, MPI_INT, 1, SHORT, MPI_COMM_WORLD, &requests[1]));
                while (requests[1] != MPI_REQUEST_NULL) is_found |= finds(way, requests);
            }
            OK(MPI_Send(&value, 1, MPI_INT, 1, OVER, MPI_COMM_WORLD));
            CHECK(is_found && got == way);
        } else if (rank == 1) {
            MPI_Status status = {0};
            for (long many = 0; status.MPI_TAG != OVER; many++) {
                OK(MPI_Recv(&got, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
                __atomic_fetch_add(received, 1, __ATOMIC_RELEASE);
                if (many == 10) OK(MPI_Send(&way, 1, MPI_INT, 0, STOP, MPI_COMM_WORLD));
            }
        }
    }
    OK(MPI_Win_free(&win));
    OK(MPI_Finalize());
    return 0;
}
