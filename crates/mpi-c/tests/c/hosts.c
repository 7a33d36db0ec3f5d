/* hosts SHARING: messages between all pairs, some of which may be on other hosts; as many processes as SHARING share memory with
 * each. */
#include "check.h"

enum { MOST = 300000 };

static int from[MOST], into[MOST];

static void pair(int other, int count) {
    MPI_Request requests[2];
    for (int i = 0; i < count; i++)
        from[i] = rank * 1000 + other + i;
    OK(MPI_Irecv(into, count, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Issend(from, count, MPI_INT, other, 1, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < count; i++)
        CHECK(into[i] == other * 1000 + rank + i);
}

static void from_any(void) {
    int sum = 0, value;
    for (int to = 0; to < size; to++)
        OK(MPI_Send(&rank, 1, MPI_INT, to, 2, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++) {
        MPI_Status status;
        OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status));
        CHECK(value == status.MPI_SOURCE);
        sum += value;
    }
    CHECK(sum == size * (size - 1) / 2);
}

int main(int argc, char **argv) {
    int sharing, sum;
    MPI_Comm host;
    begin(&argc, &argv);
    CHECK(argc == 2);
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    OK(MPI_Comm_size(host, &sharing));
    CHECK(sharing == atoi(argv[1]));
    for (int distance = 0; distance < size; distance++) {
        int counts[] = {0, 1, 5000, MOST};
        for (int i = 0; i < 4; i++)
            pair((2 * size - rank + distance) % size, counts[i]);
    }
    from_any();
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * (size - 1) / 2);
    OK(MPI_Comm_free(&host));
    OK(MPI_Finalize());
    return 0;
}
