/* With CAUSEWAY_MPI_PROGRESS=thread, operations get on while the program computes: rank 0 begins some, and calls nothing until others have seen
 * their ends, which need steps of rank 0. */
#include "check.h"

int main(int argc, char **argv) {
    begin(&argc, &argv);
    long *flags;
    MPI_Win win;
    OK(MPI_Win_allocate_shared(rank == 0 ? sizeof *flags : 0, sizeof *flags, MPI_INFO_NULL, MPI_COMM_WORLD, &flags, &win));
    MPI_Aint bytes;
    int unit;
    OK(MPI_Win_shared_query(win, 0, &bytes, &unit, &flags));
    if (rank == 0) *flags = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (long round = 1; round <= 50; round++) {
        MPI_Request requests[2];
        int in = rank, out = -1, next = (rank + 1) % size;
        static char from[100000], into[100000];
        memset(from, (int)round, sizeof from);
        OK(MPI_Isend(from, sizeof from, MPI_BYTE, next, 0, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]));
        if (rank == 0) {
            /* Only a write of the other processes ends this. */
            while (__atomic_load_n(flags, __ATOMIC_ACQUIRE) != round * (size - 1)) continue;
        } else {
            OK(MPI_Wait(&requests[1], MPI_STATUS_IGNORE));
            __atomic_fetch_add(flags, 1, __ATOMIC_RELEASE);
        }
        OK(MPI_Recv(into, sizeof into, MPI_BYTE, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(out == size * (size - 1) / 2 && into[99999] == (char)round);
    }
    OK(MPI_Win_free(&win));
    OK(MPI_Finalize());
    return 0;
}
