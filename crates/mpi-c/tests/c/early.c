/* Processes that are done early: what they have sent arrives, what others do goes on without them, and one that ends without
 * MPI_Finalize is an error of those that wait for it. */
#include "check.h"
#include <unistd.h>

enum { MANY = 300000 };

static char sent[MANY], got[MANY];

/* Rank 0 is in MPI_Finalize while the others have not received yet. */
static void sends(int bytes) {
    MPI_Request request;
    for (int r = 1; rank == 0 && r < size; r++) {
        memset(sent, 5, sizeof sent);
        OK(MPI_Isend(sent, bytes, MPI_CHAR, r, 1, MPI_COMM_WORLD, &request));
        OK(MPI_Request_free(&request));
    }
    if (rank == 0) return;
    usleep(200000);
    OK(MPI_Recv(got, bytes, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < bytes; i++) CHECK(got[i] == 5);
}

static void buffered(void) {
    static char buffer[(100 + MPI_BSEND_OVERHEAD) * 64];
    if (rank == 0) {
        OK(MPI_Buffer_attach(buffer, sizeof buffer));
        for (int r = 1; r < size; r++) OK(MPI_Bsend(sent, 100, MPI_CHAR, r, 2, MPI_COMM_WORLD));
    } else {
        usleep(200000);
        OK(MPI_Recv(got, 100, MPI_CHAR, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

/* The others have a barrier and sums among themselves. */
static void others(void) {
    MPI_Comm comm;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &comm));
    if (rank == 0) return;
    for (int i = 0; i < 20; i++) {
        int sum, from = (rank + size - 2 - 1) % (size - 1), to = rank % (size - 1), value = rank, other;
        usleep(10000);
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK(sum == size * (size - 1) / 2);
        OK(MPI_Sendrecv(&value, 1, MPI_INT, to, 0, &other, 1, MPI_INT, from, 0, comm, MPI_STATUS_IGNORE));
        CHECK(other == from + 1);
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc > 1);
    if (strcmp(argv[1], "short") == 0) sends(8);
    if (strcmp(argv[1], "long") == 0) sends(MANY);
    if (strcmp(argv[1], "buffered") == 0) buffered();
    if (strcmp(argv[1], "others") == 0) others();
    if (strcmp(argv[1], "exit") == 0) {
        int code, class;
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        /* The others may still be in there when rank 1 ends. */
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 1) exit(0);
        code = MPI_Recv(got, 1, MPI_CHAR, 1, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        OK(MPI_Error_class(code, &class));
        printf("rank %d is told: class %d\n", rank, class);
        return class == MPI_ERR_PROC_ABORTED ? 3 : 4;
    }
    OK(MPI_Finalize());
    return 0;
}
