/* What a library must bear: wrong arguments, handles that were freed, receives with too little room, and much of everything. Each
 * is an error or done; nothing crashes. */
#include "check.h"
#include <limits.h>

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

#define REFUSED(call, class)                                                                    \
    do {                                                                                        \
        int found = class_of(call);                                                             \
        if (found != (class)) fprintf(stderr, "class %d instead of %d\n", found, (class));      \
        CHECK(found == (class));                                                                \
    } while (0)

static int value[8], got[8];

static void arguments(void) {
    MPI_Comm w = MPI_COMM_WORLD, comm = MPI_COMM_NULL, bad = (MPI_Comm)(intptr_t)0x12345678;
    MPI_Request request;
    MPI_Datatype type, plain;
    MPI_Status status;
    MPI_Group group;
    MPI_Info info;
    MPI_Win win;
    MPI_File file;
    int flag;
    REFUSED(MPI_Send(value, -1, MPI_INT, 0, 0, w), MPI_ERR_COUNT);
    REFUSED(MPI_Send(value, 1, MPI_DATATYPE_NULL, 0, 0, w), MPI_ERR_TYPE);
    OK(MPI_Sendrecv(NULL, 0, MPI_DATATYPE_NULL, rank, 7, NULL, 0, MPI_DATATYPE_NULL, rank, 7, w, MPI_STATUS_IGNORE));
    REFUSED(MPI_Send(value, 1, (MPI_Datatype)(intptr_t)0x7fffffff, 0, 0, w), MPI_ERR_TYPE);
    REFUSED(MPI_Send(value, 1, MPI_INT, size, 0, w), MPI_ERR_RANK);
    REFUSED(MPI_Send(value, 1, MPI_INT, -77, 0, w), MPI_ERR_RANK);
    REFUSED(MPI_Send(value, 1, MPI_INT, MPI_ANY_SOURCE, 0, w), MPI_ERR_RANK);
    REFUSED(MPI_Send(value, 1, MPI_INT, 0, -5, w), MPI_ERR_TAG);
    REFUSED(MPI_Send(value, 1, MPI_INT, 0, MPI_ANY_TAG, w), MPI_ERR_TAG);
    REFUSED(MPI_Send(value, 1, MPI_INT, 0, 0, MPI_COMM_NULL), MPI_ERR_COMM);
    REFUSED(MPI_Send(value, 1, MPI_INT, 0, 0, bad), MPI_ERR_COMM);
    REFUSED(MPI_Send(NULL, 1, MPI_INT, 0, 0, w), MPI_ERR_BUFFER);
    REFUSED(MPI_Recv(value, 1, MPI_INT, size + 3, 0, w, &status), MPI_ERR_RANK);
    REFUSED(MPI_Recv(value, INT_MAX, MPI_INT, size, 0, w, &status), MPI_ERR_RANK);
    REFUSED(MPI_Probe(size, 0, w, &status), MPI_ERR_RANK);
    REFUSED(MPI_Bcast(value, 1, MPI_INT, size, w), MPI_ERR_ROOT);
    REFUSED(MPI_Bcast(value, 1, MPI_INT, -1, w), MPI_ERR_ROOT);
    REFUSED(MPI_Reduce(value, got, 1, MPI_INT, MPI_OP_NULL, 0, w), MPI_ERR_OP);
    REFUSED(MPI_Allreduce(value, got, 1, MPI_DOUBLE, MPI_BAND, w), MPI_ERR_OP);
    REFUSED(MPI_Allreduce(value, got, -1, MPI_INT, MPI_SUM, w), MPI_ERR_COUNT);
    REFUSED(MPI_Wait(&(MPI_Request){(MPI_Request)(intptr_t)0x4242}, &status), MPI_ERR_REQUEST);
    REFUSED(MPI_Start(&(MPI_Request){MPI_REQUEST_NULL}), MPI_ERR_REQUEST);
    REFUSED(MPI_Cart_create(w, 1, (int[]){-1}, (int[]){0}, 0, &comm), MPI_ERR_DIMS);
    REFUSED(MPI_Cart_create(w, 1, (int[]){size + 1}, (int[]){0}, 0, &comm), MPI_ERR_DIMS);
    REFUSED(MPI_Cart_coords(w, 0, 1, value), MPI_ERR_TOPOLOGY);
    REFUSED(MPI_Comm_free(&(MPI_Comm){MPI_COMM_WORLD}), MPI_ERR_COMM);
    REFUSED(MPI_Type_free(&(MPI_Datatype){MPI_INT}), MPI_ERR_TYPE);
    REFUSED(MPI_Type_contiguous(-1, MPI_INT, &type), MPI_ERR_COUNT);
    REFUSED(MPI_Win_create(value, -1, 1, MPI_INFO_NULL, w, &win), MPI_ERR_SIZE);
    REFUSED(MPI_Win_fence(0, MPI_WIN_NULL), MPI_ERR_WIN);
    REFUSED(MPI_File_open(MPI_COMM_SELF, "/nowhere/at/all", MPI_MODE_RDONLY, MPI_INFO_NULL, &file), MPI_ERR_NO_SUCH_FILE);
    REFUSED(MPI_File_close(&(MPI_File){MPI_FILE_NULL}), MPI_ERR_FILE);
    REFUSED(MPI_Info_set(MPI_INFO_NULL, "key", "value"), MPI_ERR_INFO);
    REFUSED(MPI_Info_get_nkeys(MPI_INFO_NULL, &flag), MPI_ERR_INFO);
    REFUSED(MPI_Group_incl(MPI_GROUP_EMPTY, 1, (int[]){0}, &group), MPI_ERR_RANK);
    REFUSED(MPI_Group_size(MPI_GROUP_NULL, &flag), MPI_ERR_GROUP);
    REFUSED(MPI_Win_call_errhandler(MPI_WIN_NULL, MPI_ERR_OTHER), MPI_ERR_WIN);
    REFUSED(MPI_Type_match_size(MPI_TYPECLASS_REAL, 3, &type), MPI_ERR_ARG);
    /* Not committed. */
    OK(MPI_Type_contiguous(2, MPI_INT, &plain));
    REFUSED(MPI_Send(value, 1, plain, 0, 0, w), MPI_ERR_TYPE);
    OK(MPI_Type_free(&plain));
    /* Freed handles stay invalid, also when their table entry is used again. */
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    plain = type;
    OK(MPI_Type_free(&type));
    REFUSED(MPI_Type_commit(&plain), MPI_ERR_TYPE);
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    REFUSED(MPI_Type_commit(&plain), MPI_ERR_TYPE);
    OK(MPI_Type_free(&type));
    OK(MPI_Comm_dup(w, &comm));
    bad = comm;
    OK(MPI_Comm_free(&comm));
    REFUSED(MPI_Barrier(bad), MPI_ERR_COMM);
    REFUSED(MPI_Comm_free(&bad), MPI_ERR_COMM);
    OK(MPI_Info_create(&info));
    MPI_Info gone = info;
    OK(MPI_Info_free(&info));
    REFUSED(MPI_Info_free(&gone), MPI_ERR_INFO);
    OK(MPI_Irecv(got, 1, MPI_INT, MPI_PROC_NULL, 0, w, &request));
    MPI_Request old = request;
    OK(MPI_Wait(&request, &status));
    REFUSED(MPI_Wait(&old, &status), MPI_ERR_REQUEST);
}

/* A receive with too little room is an error of the receiver, and the next message comes as it was sent. */
static void truncated(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int count = 2; count <= 1 << 18; count *= 512) {
        MPI_Request request;
        MPI_Status status;
        int *many = calloc(count, sizeof(int)), *room = calloc(count, sizeof(int)), last = rank;
        CHECK(many && room);
        OK(MPI_Isend(many, count, MPI_INT, to, 1, MPI_COMM_WORLD, &request));
        REFUSED(MPI_Recv(room, count - 1, MPI_INT, from, 1, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        OK(MPI_Irecv(room, count - 1, MPI_INT, from, 2, MPI_COMM_WORLD, &request));
        OK(MPI_Send(many, count, MPI_INT, to, 2, MPI_COMM_WORLD));
        REFUSED(MPI_Wait(&request, &status), MPI_ERR_TRUNCATE);
        OK(MPI_Sendrecv(&last, 1, MPI_INT, to, 1, room, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &status));
        CHECK(room[0] == from);
        free(many);
        free(room);
    }
}

static void many(int communicators, int requests) {
    MPI_Comm *all = calloc(communicators, sizeof *all);
    MPI_Request *open = calloc(2 * requests, sizeof *open);
    int *numbers = calloc(2 * requests, sizeof(int)), sum, to = (rank + 1) % size, from = (rank + size - 1) % size;
    CHECK(all && open && numbers);
    for (int i = 0; i < communicators; i++) OK(MPI_Comm_dup(i ? all[i - 1] : MPI_COMM_WORLD, &all[i]));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all[communicators - 1]));
    CHECK(sum == size * (size - 1) / 2);
    for (int i = 0; i < communicators; i++) OK(MPI_Comm_free(&all[i]));
    for (int i = 0; i < requests; i++) OK(MPI_Irecv(&numbers[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &open[i]));
    /* The other way round: each message finds its receive among all. */
    for (int i = requests - 1; i >= 0; i--) {
        numbers[requests + i] = i * 3 + rank;
        OK(MPI_Isend(&numbers[requests + i], 1, MPI_INT, to, i, MPI_COMM_WORLD, &open[requests + i]));
    }
    OK(MPI_Waitall(2 * requests, open, MPI_STATUSES_IGNORE));
    for (int i = 0; i < requests; i++) CHECK(numbers[i] == i * 3 + from);
    /* Before their receives. */
    for (int i = 0; i < requests; i++)
        OK(MPI_Isend(&numbers[requests + i], 1, MPI_INT, to, i, MPI_COMM_WORLD, &open[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = requests - 1; i >= 0; i--) {
        OK(MPI_Recv(&numbers[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(numbers[i] == i * 3 + from);
    }
    OK(MPI_Waitall(requests, open, MPI_STATUSES_IGNORE));
    /* The same, and then all receives at once. */
    memset(numbers, 255, requests * sizeof(int));
    for (int i = 0; i < requests; i++)
        OK(MPI_Isend(&numbers[requests + i], 1, MPI_INT, to, i, MPI_COMM_WORLD, &open[i]));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = requests - 1; i >= 0; i--)
        OK(MPI_Irecv(&numbers[i], 1, MPI_INT, from, i, MPI_COMM_WORLD, &open[requests + i]));
    OK(MPI_Waitall(2 * requests, open, MPI_STATUSES_IGNORE));
    for (int i = 0; i < requests; i++) CHECK(numbers[i] == i * 3 + from);
    free(all);
    free(open);
    free(numbers);
}

/* To oneself: complete as soon as both sides are posted, without another process. */
static void oneself(void) {
    for (int count = 0; count <= 100000; count = count * 10 + 1) {
        int *from = calloc(count + 1, sizeof(int)), *to = calloc(count + 1, sizeof(int)), flag, done;
        MPI_Request send, receive, parts[2];
        MPI_Message message;
        CHECK(from && to);
        from[count > 0 ? count - 1 : 0] = count;
        OK(MPI_Issend(from, count, MPI_INT, rank, 5, MPI_COMM_WORLD, &send));
        OK(MPI_Test(&send, &flag, MPI_STATUS_IGNORE));
        CHECK(!flag);
        OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE));
        OK(MPI_Imrecv(to, count, MPI_INT, &message, &receive));
        OK(MPI_Test(&receive, &flag, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&receive, MPI_STATUS_IGNORE));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        CHECK(count == 0 || to[count - 1] == count);
        /* A short one needs one test. */
        CHECK(flag || count > 1000);
        OK(MPI_Sendrecv(from, count, MPI_INT, rank, 6, to, count, MPI_INT, rank, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        OK(MPI_Isend(from, count, MPI_INT, rank, 7, MPI_COMM_WORLD, &parts[0]));
        OK(MPI_Irecv(to, count, MPI_INT, rank, 7, MPI_COMM_WORLD, &parts[1]));
        do OK(MPI_Testall(2, parts, &done, MPI_STATUSES_IGNORE));
        while (!done);
        free(from);
        free(to);
    }
}

/* No elements and many, by every kind of collective operation. */
static void counts(void) {
    for (int count = 0; count <= 100000; count = count ? count * 10 : 1) {
        int *from = calloc(count + 1, sizeof(int)), *to = calloc(count + 1, sizeof(int));
        int *all = calloc((size_t)count * size + 1, sizeof(int)), *mine = calloc((size_t)count * size + 1, sizeof(int));
        MPI_Win win;
        CHECK(from && to && all && mine);
        for (int i = 0; i < count; i++) from[i] = rank + i;
        OK(MPI_Bcast(to, count, MPI_INT, size - 1, MPI_COMM_WORLD));
        OK(MPI_Allreduce(from, to, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < count; i += 997) CHECK(to[i] == size * (size - 1) / 2 + size * i);
        OK(MPI_Allgather(from, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD));
        for (int r = 0; r < size && count > 0; r++) CHECK(all[(size_t)count * r] == r);
        OK(MPI_Alltoall(all, count, MPI_INT, mine, count, MPI_INT, MPI_COMM_WORLD));
        for (int r = 0; r < size && count > 0; r++) CHECK(mine[(size_t)count * r] == rank);
        OK(MPI_Reduce_scatter_block(all, to, count, MPI_INT, MPI_MAX, MPI_COMM_WORLD));
        OK(MPI_Scan(from, to, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        OK(MPI_Win_create(to, count * sizeof(int), 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        OK(MPI_Win_fence(0, win));
        OK(MPI_Put(from, count, MPI_INT, (rank + 1) % size, 0, count, MPI_INT, win));
        OK(MPI_Win_fence(0, win));
        CHECK(count == 0 || to[count - 1] == (rank + size - 1) % size + count - 1);
        OK(MPI_Win_free(&win));
        free(from);
        free(to);
        free(all);
        free(mine);
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    int communicators = argc > 1 ? atoi(argv[1]) : 100, requests = argc > 2 ? atoi(argv[2]) : 1000;
    arguments();
    truncated();
    oneself();
    counts();
    many(communicators, requests);
    OK(MPI_Finalize());
    return 0;
}
