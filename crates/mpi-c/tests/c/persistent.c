/* Persistent collective operations, started in any order, beside persistent messages; operations of neighbours. */
#include "check.h"

enum { TIMES = 3 };

static void started(MPI_Request *requests, int many, int round) {
    /* Processes need not start them in one order. */
    if (round % 2) {
        OK(MPI_Startall(many, requests));
    } else {
        for (int i = 0; i < many; i++) OK(MPI_Start(&requests[(i + rank) % many]));
    }
    OK(MPI_Waitall(many, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < many; i++) CHECK(requests[i] != MPI_REQUEST_NULL);
}

static void persistent(void) {
    enum { MANY = 12 };
    MPI_Request requests[MANY];
    MPI_Comm comm = MPI_COMM_WORLD;
    int word, sum, scan, before, *all = malloc(size * sizeof *all), *parts = malloc(size * sizeof *parts);
    int *from_all = malloc(size * sizeof *all), *to_all = malloc(size * sizeof *all), part, block;
    int strided[4] = {0}, *every = malloc(2 * size * sizeof *every), in, out, many = 0;
    MPI_Datatype two;
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &two));
    OK(MPI_Type_commit(&two));
    OK(MPI_Barrier_init(comm, MPI_INFO_NULL, &requests[many++]));
    OK(MPI_Bcast_init(&word, 1, MPI_INT, size - 1, comm, MPI_INFO_NULL, &requests[many++]));
    OK(MPI_Allreduce_init(&rank, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[many++]));
    OK(MPI_Scan_init(&rank, &scan, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[many++]));
    OK(MPI_Exscan_init(&rank, &before, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &requests[many++]));
    OK(MPI_Allgather_init(&rank, 1, MPI_INT, all, 1, MPI_INT, comm, MPI_INFO_NULL, &requests[many++]));
    OK(MPI_Alltoall_init(from_all, 1, MPI_INT, to_all, 1, MPI_INT, comm, MPI_INFO_NULL, &requests[many++]));
    OK(MPI_Scatter_init(parts, 1, MPI_INT, &part, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &requests[many++]));
    OK(MPI_Reduce_scatter_block_init(from_all, &block, 1, MPI_INT, MPI_MAX, comm, MPI_INFO_NULL, &requests[many++]));
    /* Data in several pieces are packed at each start. */
    OK(MPI_Gather_init(strided, 1, two, every, 2, MPI_INT, 0, comm, MPI_INFO_NULL, &requests[many++]));
    OK(MPI_Send_init(&out, 1, MPI_INT, (rank + 1) % size, 3, comm, &requests[many++]));
    OK(MPI_Recv_init(&in, 1, MPI_INT, (rank + size - 1) % size, 3, comm, &requests[many++]));
    CHECK(many == MANY);
    for (int round = 0; round < TIMES; round++) {
        word = rank == size - 1 ? 100 + round : -1;
        out = rank * 10 + round;
        strided[0] = rank + round, strided[2] = rank - round;
        for (int r = 0; r < size; r++) parts[r] = r * round, from_all[r] = rank * 100 + r + round, all[r] = -1;
        sum = scan = before = part = block = in = -1;
        started(requests, many, round);
        CHECK(word == 100 + round && sum == size * (size - 1) / 2 && scan == rank * (rank + 1) / 2);
        CHECK(rank == 0 || before == rank * (rank - 1) / 2);
        CHECK(part == rank * round && block == (size - 1) * 100 + rank + round);
        CHECK(in == (rank + size - 1) % size * 10 + round);
        for (int r = 0; r < size; r++) CHECK(all[r] == r && to_all[r] == r * 100 + rank + round);
        if (rank == 0)
            for (int r = 0; r < size; r++) CHECK(every[2 * r] == r + round && every[2 * r + 1] == r - round);
    }
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    for (int i = 0; i < many; i++) OK(MPI_Request_free(&requests[i]));
    OK(MPI_Type_free(&two));
    free(all), free(parts), free(from_all), free(to_all), free(every);
}

/* In a ring, also of one or two processes, a block sent backward arrives from the process behind. */
static void ring(void) {
    MPI_Comm grid;
    int dims[1] = {size}, periods[1] = {1}, before = (rank + size - 1) % size, behind = (rank + 1) % size;
    int out[2], in[2];
    MPI_Request request;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid));
    OK(MPI_Neighbor_alltoall_init(out, 1, MPI_INT, in, 1, MPI_INT, grid, MPI_INFO_NULL, &request));
    for (int round = 0; round < TIMES; round++) {
        out[0] = rank * 10 + round, out[1] = rank * 10 + 5 + round, in[0] = in[1] = -1;
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(in[0] == before * 10 + 5 + round && in[1] == behind * 10 + round);
    }
    OK(MPI_Request_free(&request));
    in[0] = in[1] = -1;
    OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, in, 1, MPI_INT, grid));
    CHECK(in[0] == before && in[1] == behind);
    OK(MPI_Comm_free(&grid));
    periods[0] = 0;
    OK(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid));
    in[0] = in[1] = -1;
    MPI_Aint places[2] = {0, sizeof *in}, back[2] = {sizeof *in, 0};
    int ones[2] = {1, 1};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    out[0] = rank + 1000, out[1] = rank;
    OK(MPI_Ineighbor_alltoallw(out, ones, back, types, in, ones, places, types, grid, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(in[0] == (rank > 0 ? rank - 1 + 1000 : -1) && in[1] == (rank < size - 1 ? rank + 1 : -1));
    OK(MPI_Comm_free(&grid));
}

/* Each process states the edges of the next one, which go to rank 0 and to the next but one. */
static void graph(void) {
    MPI_Comm comm;
    int source = (rank + 1) % size, degree = 2, to[2] = {0, (source + 1) % size}, weights[2] = {rank, 7};
    int into, out, weighted;
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &source, &degree, to, weights, MPI_INFO_NULL, 0, &comm));
    OK(MPI_Dist_graph_neighbors_count(comm, &into, &out, &weighted));
    CHECK(out == 2 && into == (rank == 0 ? size + 1 : 1) && weighted);
    int *values = malloc(into * sizeof *values), *sources = malloc(into * sizeof *sources), targets[2];
    int *of_sources = malloc(into * sizeof *sources), of_targets[2];
    OK(MPI_Dist_graph_neighbors(comm, into, sources, of_sources, 2, targets, of_targets));
    CHECK(targets[0] == 0 && targets[1] == (rank + 1) % size && of_targets[1] == 7);
    OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, values, 1, MPI_INT, comm));
    for (int i = 0; i < into; i++) CHECK(values[i] == sources[i]);
    int *counts = malloc(into * sizeof *counts), *places = malloc(into * sizeof *places), two[2] = {1, 1}, at[2] = {0, 1};
    int data[2] = {rank * 2, rank * 2 + 1};
    for (int i = 0; i < into; i++) counts[i] = 1, places[i] = into - 1 - i;
    OK(MPI_Neighbor_alltoallv(data, two, at, MPI_INT, values, counts, places, MPI_INT, comm));
    for (int i = 0; i < into; i++) CHECK(values[into - 1 - i] / 2 == sources[i]);
    OK(MPI_Neighbor_allgatherv(&rank, 1, MPI_INT, values, counts, places, MPI_INT, comm));
    for (int i = 0; i < into; i++) CHECK(values[into - 1 - i] == sources[i]);
    free(values), free(sources), free(of_sources), free(counts), free(places);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
    OK(MPI_Neighbor_alltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, comm));
    OK(MPI_Comm_free(&comm));
}

/* Communicators that are made at the same time, in another order by every second process. */
static void duplicates(void) {
    MPI_Comm first, second, a, b;
    MPI_Request requests[2];
    int sum;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &first));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &second));
    if (rank % 2) {
        OK(MPI_Comm_idup(first, &a, &requests[0]));
        OK(MPI_Comm_idup_with_info(second, MPI_INFO_NULL, &b, &requests[1]));
    } else {
        OK(MPI_Comm_idup_with_info(second, MPI_INFO_NULL, &b, &requests[1]));
        OK(MPI_Comm_idup(first, &a, &requests[0]));
    }
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    int out[2] = {1, 2}, in[2] = {0, 0};
    OK(MPI_Isend(&out[0], 1, MPI_INT, (rank + 1) % size, 0, a, &requests[0]));
    OK(MPI_Isend(&out[1], 1, MPI_INT, (rank + 1) % size, 0, b, &requests[1]));
    OK(MPI_Recv(&in[1], 1, MPI_INT, MPI_ANY_SOURCE, 0, b, MPI_STATUS_IGNORE));
    OK(MPI_Recv(&in[0], 1, MPI_INT, MPI_ANY_SOURCE, 0, a, MPI_STATUS_IGNORE));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    CHECK(in[0] == 1 && in[1] == 2);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, a));
    CHECK(sum == size * (size - 1) / 2);
    MPI_Comm_free(&a), MPI_Comm_free(&b), MPI_Comm_free(&first), MPI_Comm_free(&second);
}

/* Only those of a group make a communicator. */
static void groups(void) {
    MPI_Group world, even;
    MPI_Comm comm;
    int range[1][3] = {{0, size - 1, 2}}, many, result;
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_range_incl(world, 1, range, &even));
    if (rank % 2 == 0) {
        OK(MPI_Comm_create_group(MPI_COMM_WORLD, even, 3, &comm));
        OK(MPI_Comm_size(comm, &many));
        CHECK(many == (size + 1) / 2);
        OK(MPI_Barrier(comm));
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_Comm_create_from_group(world, "causeway://all", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Comm_compare(comm, MPI_COMM_WORLD, &result));
    CHECK(result == MPI_CONGRUENT);
    OK(MPI_Barrier(comm));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&even));
}

static void exchanges(void) {
    int out = rank, in = -1, flag = 0, index = -7, indices[2], many = 0;
    MPI_Request request, requests[2];
    MPI_Status status, statuses[2];
    OK(MPI_Isendrecv(&out, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(in == (rank + size - 1) % size && status.MPI_SOURCE == in);
    OK(MPI_Isendrecv_replace(&out, 1, MPI_INT, (rank + 1) % size, 0, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &requests[0]));
    requests[1] = MPI_REQUEST_NULL;
    while (!flag) OK(MPI_Request_get_status_all(2, requests, &flag, statuses));
    CHECK(out == in && statuses[0].MPI_SOURCE == in);
    OK(MPI_Request_get_status_any(2, requests, &index, &flag, &status));
    CHECK(flag && index == 0 && status.MPI_SOURCE == in);
    OK(MPI_Request_get_status_some(2, requests, &many, indices, statuses));
    CHECK(many == 1 && indices[0] == 0);
    CHECK(requests[0] != MPI_REQUEST_NULL);
    OK(MPI_Waitall(2, requests, statuses));
    OK(MPI_Request_get_status_some(2, requests, &many, indices, statuses));
    CHECK(many == MPI_UNDEFINED);
    OK(MPI_Request_get_status_any(2, requests, &index, &flag, &status));
    CHECK(flag && index == MPI_UNDEFINED);
    int a[3] = {1, 2, 3}, b[3] = {10, 20, 30};
    OK(MPI_Reduce_local(a, b, 3, MPI_INT, MPI_SUM));
    CHECK(b[0] == 11 && b[1] == 22 && b[2] == 33);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    persistent();
    ring();
    graph();
    duplicates();
    groups();
    exchanges();
    OK(MPI_Finalize());
    return 0;
}
