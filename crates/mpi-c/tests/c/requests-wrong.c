/* Handles that are invalid among valid ones, a full table of requests, and partitioned requests that are freed without having been started: errors that leave everything else as it was. */
#include "check.h"

#include <stdint.h>

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

enum { MANY = 5, ODD = 2 };

/* Receives of messages that this process has sent to itself, the one in the middle with an invalid handle. */
static void begin_wrong(MPI_Request *all, MPI_Request *kept, int *values) {
    for (int i = 0; i < MANY; i++) {
        values[i] = -1;
        OK(MPI_Irecv(values + i, 1, MPI_INT, 0, i, MPI_COMM_SELF, all + i));
    }
    for (int i = 0; i < MANY; i++) OK(MPI_Send(&i, 1, MPI_INT, 0, i, MPI_COMM_SELF));
    *kept = all[ODD];
    all[ODD] = (MPI_Request)(intptr_t)12345678;
}

/* All requests but the odd one are still there, or are over; with the right handle, all can be waited for. */
static void end_wrong(MPI_Request *all, MPI_Request kept, int *values) {
    all[ODD] = kept;
    OK(MPI_Waitall(MANY, all, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) CHECK(values[i] == i && all[i] == MPI_REQUEST_NULL);
}

static void invalid_handles(void) {
    MPI_Request all[MANY], kept;
    int values[MANY], flag, index, count, indices[MANY];
    MPI_Status statuses[MANY];
    for (int which = 0; which < 6; which++) {
        int code;
        begin_wrong(all, &kept, values);
        switch (which) {
        case 0: code = MPI_Waitall(MANY, all, statuses); break;
        case 1: code = MPI_Testall(MANY, all, &flag, statuses); break;
        case 2: code = MPI_Waitany(MANY, all, &index, statuses); break;
        case 3: code = MPI_Testany(MANY, all, &index, &flag, statuses); break;
        case 4: code = MPI_Waitsome(MANY, all, &count, indices, statuses); break;
        default: code = MPI_Testsome(MANY, all, &count, indices, statuses);
        }
        CHECK(class_of(code) == MPI_ERR_REQUEST);
        end_wrong(all, kept, values);
    }
}

static int freed;
static int query(void *state, MPI_Status *status) {
    (void)state;
    return MPI_Status_set_elements(status, MPI_INT, 0);
}
static int release(void *state) {
    (void)state;
    freed++;
    return MPI_SUCCESS;
}
static int cancel(void *state, int complete) {
    (void)state, (void)complete;
    return MPI_SUCCESS;
}

/* A generalized request before an invalid handle is over all the same. */
static void invalid_behind_generalized(void) {
    MPI_Request all[2];
    OK(MPI_Grequest_start(query, release, cancel, NULL, all));
    OK(MPI_Grequest_complete(all[0]));
    all[1] = (MPI_Request)(intptr_t)12345678;
    CHECK(class_of(MPI_Waitall(2, all, MPI_STATUSES_IGNORE)) == MPI_ERR_REQUEST);
    CHECK(freed == 1 && all[0] == MPI_REQUEST_NULL);
}

/* With a full table, nothing is received, sent or begun, and no rank waits for one that could not begin. */
static void full_table(void) {
    size_t room = 1 << 20, many = 0;
    MPI_Request *all = malloc(room * sizeof *all), request;
    int value = 7, other = 0, flag, sum = 0, code = MPI_SUCCESS;
    CHECK(all != NULL);
    if (rank == 0) {
        while (code == MPI_SUCCESS && many < room) {
            code = MPI_Recv_init(&other, 1, MPI_INT, 0, 3, MPI_COMM_SELF, all + many);
            many += code == MPI_SUCCESS;
        }
        CHECK(class_of(code) == MPI_ERR_NO_MEM);
        CHECK(class_of(MPI_Irecv(&other, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &request)) == MPI_ERR_NO_MEM);
        CHECK(class_of(MPI_Issend(&value, 1, MPI_INT, 0, 4, MPI_COMM_SELF, &request)) == MPI_ERR_NO_MEM);
        CHECK(class_of(MPI_Precv_init(&other, 1, 1, MPI_INT, 0, 5, MPI_COMM_SELF, MPI_INFO_NULL, &request)) == MPI_ERR_NO_MEM);
        OK(MPI_Iprobe(0, 4, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        OK(MPI_Send(&value, 1, MPI_INT, 0, 3, MPI_COMM_SELF));
        CHECK(class_of(MPI_Irecv(&other, 1, MPI_INT, 0, 3, MPI_COMM_SELF, &request)) == MPI_ERR_NO_MEM);
        CHECK(other == 0);
        OK(MPI_Recv(&other, 1, MPI_INT, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE));
        CHECK(other == 7);
    }
    code = MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    if (rank == 0) CHECK(class_of(code) == MPI_ERR_NO_MEM);
    if (rank > 0) CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_NO_MEM);
    code = MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
    if (rank == 0) CHECK(class_of(code) == MPI_ERR_NO_MEM);
    if (rank > 0) {
        for (int start = 0; start < 2; start++) {
            OK(MPI_Start(&request));
            CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_NO_MEM);
        }
        OK(MPI_Request_free(&request));
    }
    MPI_Comm copy;
    for (int with_info = 0; with_info < 2; with_info++) {
        code = with_info ? MPI_Comm_idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &copy, &request) : MPI_Comm_idup(MPI_COMM_WORLD, &copy, &request);
        if (rank == 0) CHECK(class_of(code) == MPI_ERR_NO_MEM);
        if (rank > 0) CHECK(class_of(MPI_Wait(&request, MPI_STATUS_IGNORE)) == MPI_ERR_NO_MEM);
    }
    for (size_t i = 0; i < many; i++) OK(MPI_Request_free(all + i));
    free(all);
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == 7 * size);
}

static long pages(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &resident) == 2);
    fclose(file);
    return resident;
}

/* Partitioned messages that were never started belong together as others do, and leave nothing behind. */
static void partitioned(void) {
    MPI_Request send, receive;
    int from[4] = {1, 2, 3, 4}, into[4] = {0}, other = (rank + 1) % size, source = (rank + size - 1) % size;
    OK(MPI_Precv_init(into, 1, 4, MPI_INT, source, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    OK(MPI_Request_free(&receive));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Psend_init(from, 4, 1, MPI_INT, other, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Request_free(&send));
    OK(MPI_Psend_init(from, 2, 1, MPI_INT, other, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    OK(MPI_Precv_init(into, 1, 2, MPI_INT, source, 9, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    OK(MPI_Start(&send));
    OK(MPI_Start(&receive));
    OK(MPI_Pready(0, send));
    OK(MPI_Pready(1, send));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
    CHECK(into[0] == 1 && into[1] == 2 && into[2] == 0);
    OK(MPI_Request_free(&send));
    OK(MPI_Request_free(&receive));
    long before = 0;
    int flag;
    for (int i = 0; i < 60000; i++) {
        if (i == 20000) before = pages();
        OK(MPI_Precv_init(into, 1, 4, MPI_INT, 0, 9, MPI_COMM_SELF, MPI_INFO_NULL, &receive));
        OK(MPI_Psend_init(from, 4, 1, MPI_INT, 0, 9, MPI_COMM_SELF, MPI_INFO_NULL, &send));
        OK(MPI_Request_free(&receive));
        OK(MPI_Request_free(&send));
        if (i % 16 == 0) OK(MPI_Iprobe(0, 1, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE));
    }
    if (pages() - before >= 512) fprintf(stderr, "%ld pages\n", pages() - before);
    CHECK(pages() - before < 512);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    invalid_handles();
    invalid_behind_generalized();
    full_table();
    partitioned();
    OK(MPI_Finalize());
    return 0;
}
