/* In the checking mode, calls that do not belong together are errors that name ranks and calls. */
#include "check.h"

#include <unistd.h>

static void told(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int class, len;
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &len));
    if (!strstr(text, what)) fprintf(stderr, "%s\n", text);
    CHECK(class == MPI_ERR_NOT_SAME);
    CHECK(strstr(text, what));
}

enum { BLOCKING = 14, MOST = 64 };

static int one[MOST], other[2 * MOST], ones[MOST], at[MOST];

/* One of the blocking operations, with arguments that are right. */
static int done_by(int which, MPI_Comm comm) {
    switch (which) {
    case 0: return MPI_Barrier(comm);
    case 1: return MPI_Bcast(one, 1, MPI_INT, 0, comm);
    case 2: return MPI_Reduce(one, other, 1, MPI_INT, MPI_SUM, 0, comm);
    case 3: return MPI_Allreduce(one, other, 1, MPI_INT, MPI_SUM, comm);
    case 4: return MPI_Gather(one, 1, MPI_INT, other, 1, MPI_INT, 0, comm);
    case 5: return MPI_Scatter(one, 1, MPI_INT, other, 1, MPI_INT, 0, comm);
    case 6: return MPI_Allgather(one, 1, MPI_INT, other, 1, MPI_INT, comm);
    case 7: return MPI_Alltoall(one, 1, MPI_INT, other, 1, MPI_INT, comm);
    case 8: return MPI_Reduce_scatter_block(one, other, 1, MPI_INT, MPI_SUM, comm);
    case 9: return MPI_Reduce_scatter(one, other, ones, MPI_INT, MPI_SUM, comm);
    case 10: return MPI_Scan(one, other, 1, MPI_INT, MPI_SUM, comm);
    case 11: return MPI_Exscan(one, other, 1, MPI_INT, MPI_SUM, comm);
    case 12: return MPI_Allgatherv(one, 1, MPI_INT, other, ones, at, MPI_INT, comm);
    default: return MPI_Alltoallv(one, ones, at, MPI_INT, other, ones, at, MPI_INT, comm);
    }
}

/* The last rank calls another operation than the others do. All calls return the error, and the right call behind it works. */
static void each_with_each(int is_last) {
    CHECK(size <= MOST);
    for (int i = 0; i < MOST; i++) ones[i] = 1, at[i] = i;
    for (int mine = 0; mine < BLOCKING; mine++)
        for (int theirs = 0; theirs < BLOCKING; theirs++) {
            int code = done_by(is_last ? mine : theirs, MPI_COMM_WORLD);
            if (mine == theirs || size == 1)
                CHECK(code == MPI_SUCCESS);
            else
                told(code, "rank 0 calls ");
        }
}

/* The error of a started request that the program does not need any more. */
static int started(MPI_Request *request) {
    OK(MPI_Start(request));
    int code = MPI_Wait(request, MPI_STATUS_IGNORE);
    OK(MPI_Request_free(request));
    return code;
}

/* The same operations with elements of other types, or of other numbers, on the last rank. */
static void of_data(int is_last) {
    MPI_Comm comm = MPI_COMM_WORLD, ring, half, inter;
    MPI_Datatype type = is_last ? MPI_FLOAT : MPI_INT;
    MPI_Op op = is_last ? MPI_MAX : MPI_SUM;
    MPI_Request request;
    int counts[MOST], whole = size, cyclic = 1, last = size - 1, distances[MOST];
    char text[200];
    told(MPI_Bcast(one, 1, type, 0, comm), "rank 0 calls MPI_Bcast (root 0, 1 MPI_INT), rank");
    told(MPI_Reduce(one, other, 1, type, MPI_SUM, 0, comm), "calls MPI_Reduce (root 0, MPI_SUM, 1 MPI_FLOAT)");
    told(MPI_Reduce(one, other, 1, MPI_INT, op, 0, comm), "calls MPI_Reduce (root 0, MPI_MAX, 1 MPI_INT)");
    told(MPI_Allreduce(one, other, 2, type, MPI_SUM, comm), "calls MPI_Allreduce (MPI_SUM, 2 MPI_FLOAT)");
    told(MPI_Allreduce(one, other, 1 + is_last, MPI_INT, MPI_SUM, comm), "calls MPI_Allreduce (MPI_SUM, 2 MPI_INT)");
    told(MPI_Scan(one, other, 1, type, MPI_SUM, comm), "1 MPI_FLOAT");
    told(MPI_Exscan(one, other, 1, type, MPI_SUM, comm), "1 MPI_FLOAT");
    told(MPI_Reduce_scatter_block(one, other, 1, type, MPI_SUM, comm), "MPI_FLOAT");
    for (int i = 0; i < size; i++) counts[i] = 2, distances[i] = 2 * i;
    if (is_last) counts[0] = 3, counts[last] = 1;
    sprintf(text, "MPI_Reduce_scatter: rank %d has 3 MPI_INT for rank 0, which expects 2 MPI_INT", last);
    told(MPI_Reduce_scatter(one, other, counts, MPI_INT, MPI_SUM, comm), text);
    sprintf(text, "MPI_Gather: rank %d has 1 MPI_FLOAT for rank 0, which expects 1 MPI_INT", last);
    told(MPI_Gather(one, 1, type, other, 1, MPI_INT, 0, comm), text);
    sprintf(text, "MPI_Gather: rank %d has 1 MPI_INT for rank 0, which expects 2 MPI_INT", last);
    told(MPI_Gather(one, is_last ? 1 : 2, MPI_INT, other, 2, MPI_INT, 0, comm), text);
    sprintf(text, "MPI_Scatter: rank 0 has 1 MPI_INT for rank %d, which expects 2 MPI_INT", last);
    told(MPI_Scatter(one, 1, MPI_INT, other, 1 + is_last, MPI_INT, 0, comm), text);
    sprintf(text, "MPI_Scatterv: rank 0 has 2 MPI_INT for rank %d, which expects no elements", last);
    told(MPI_Scatterv(one, counts, distances, MPI_INT, other, is_last ? 0 : 2, MPI_INT, 0, comm), text);
    sprintf(text, "MPI_Allgather: rank %d has 1 MPI_FLOAT for rank 0, which expects 1 MPI_INT", last);
    told(MPI_Allgather(one, 1, type, other, 1, type, comm), text);
    if (is_last) counts[0] = 2;
    sprintf(text, "MPI_Alltoallv: rank %d has 1 MPI_INT for rank 0, which expects 2 MPI_INT", last);
    for (int i = 0; i < size; i++) counts[i] = is_last ? 1 : 2;
    if (size == 2) counts[rank] = 1;
    told(MPI_Alltoallv(one, is_last ? ones : counts, at, MPI_INT, other, counts, distances, MPI_INT, comm), text);
    told(MPI_Alltoall(one, 1, type, other, 1, type, comm), "for rank 0, which expects 1 MPI_INT");
    /* Bytes may be anything, if there are as many. */
    OK(MPI_Bcast(one, is_last ? 4 : 1, is_last ? MPI_BYTE : MPI_INT, 0, comm));
    OK(MPI_Allgather(one, is_last ? 4 : 1, is_last ? MPI_BYTE : MPI_INT, other, 1, MPI_INT, comm));
    /* Persistent ones, whenever they are started. */
    OK(MPI_Allreduce_init(one, other, 1, type, MPI_SUM, comm, MPI_INFO_NULL, &request));
    told(MPI_Start(&request) == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : MPI_SUCCESS, "MPI_Allreduce_init (MPI_SUM, 1 MPI_FLOAT)");
    told(started(&request), "MPI_Allreduce_init (MPI_SUM, 1 MPI_FLOAT)");
    OK(MPI_Gather_init(one, 1, type, other, 1, MPI_INT, 0, comm, MPI_INFO_NULL, &request));
    told(started(&request), "MPI_Gather_init: rank ");
    OK(MPI_Iallgather(one, 1, type, other, 1, MPI_INT, comm, &request));
    told(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Iallgather: rank ");
    /* Neighbours. */
    OK(MPI_Cart_create(comm, 1, &whole, &cyclic, 0, &ring));
    OK(MPI_Comm_set_errhandler(ring, MPI_ERRORS_RETURN));
    told(MPI_Neighbor_allgather(one, 1, type, other, 1, MPI_INT, ring), "MPI_Neighbor_allgather: rank ");
    told(MPI_Neighbor_alltoall(one, 1 + !is_last, MPI_INT, other, 2, MPI_INT, ring), "has 1 MPI_INT for rank");
    OK(MPI_Neighbor_alltoall(one, 1, MPI_INT, other, 1, MPI_INT, ring));
    OK(MPI_Comm_free(&ring));
    /* The last rank, and all others. */
    OK(MPI_Comm_split(comm, is_last, 0, &half));
    OK(MPI_Intercomm_create(half, 0, comm, is_last ? 0 : last, 0, &inter));
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    int root = is_last ? MPI_ROOT : 0;
    told(MPI_Allreduce(one, other, 1, MPI_INT, op, inter), is_last ? "rank 0 of this group calls MPI_Allreduce (MPI_MAX" : "rank 0 of the other group calls MPI_Allreduce (MPI_MAX");
    told(MPI_Allreduce(one, other, 1, type, MPI_SUM, inter), "MPI_FLOAT");
    told(MPI_Reduce(one, other, 1, type, MPI_SUM, root, inter), "root MPI_ROOT, MPI_SUM, 1 MPI_FLOAT");
    told(MPI_Bcast(one, 1, type, root, inter), "root MPI_ROOT, 1 MPI_FLOAT");
    told(MPI_Gather(one, 1, type, other, 1, type, root, inter), "of the other group has 1 MPI_INT for rank 0, which expects 1 MPI_FLOAT");
    told(MPI_Alltoall(one, 1, type, other, 1, type, inter), "of the other group has 1 MPI_");
    OK(MPI_Bcast(one, 1, MPI_INT, root, inter));
    OK(MPI_Allreduce(one, other, 1, MPI_INT, MPI_SUM, inter));
    OK(MPI_Gather(one, 1, MPI_INT, other, 1, MPI_INT, root, inter));
    OK(MPI_Barrier(inter));
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&inter));
}

static void unused(MPI_Win *window, int *code, ...) {
    (void)window;
    (void)code;
}

/* Different functions of files. */
static void of_files(int is_last) {
    char path[] = "/tmp/causeway-mismatch-XXXXXX";
    MPI_File file;
    int file_descriptor = rank == 0 ? mkstemp(path) : -1;
    if (rank == 0) CHECK(file_descriptor >= 0 && close(file_descriptor) == 0);
    OK(MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD));
    OK(MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    if (size > 1) {
        told(is_last ? MPI_File_set_size(file, 100) : MPI_File_sync(file), "rank 0 calls MPI_File_sync, rank ");
        int code = is_last ? MPI_File_write_at_all(file, 0, one, 1, MPI_INT, MPI_STATUS_IGNORE)
                           : MPI_File_read_at_all(file, 0, other, 1, MPI_INT, MPI_STATUS_IGNORE);
        told(code, "calls MPI_File_write_at_all");
    }
    OK(MPI_File_set_size(file, 100));
    OK(MPI_File_sync(file));
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    int word = 0, sum = 0;
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    int is_last = rank == size - 1;
    if (size > 1) {
        int code = is_last ? MPI_Barrier(MPI_COMM_WORLD) : MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
        told(code, "rank 0 calls MPI_Bcast (root 0, 1 MPI_INT), rank");
        told(MPI_Bcast(&word, 1, MPI_INT, is_last, MPI_COMM_WORLD), "root 1");
        told(MPI_Allreduce(&word, &sum, 1, MPI_INT, is_last ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD), "MPI_SUM");
        MPI_Request request;
        code = is_last ? MPI_Ibarrier(MPI_COMM_WORLD, &request) : MPI_Barrier(MPI_COMM_WORLD);
        told(is_last ? MPI_Wait(&request, MPI_STATUS_IGNORE) : code, "MPI_Ibarrier");
    }
    each_with_each(is_last);
    if (size > 1) of_data(is_last);
    of_files(is_last);
    if (size > 1) {
        /* Calls that make different objects, or communicators in different ways. */
        MPI_Comm made;
        int code = is_last ? MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &made) : MPI_Comm_dup(MPI_COMM_WORLD, &made);
        told(code, "rank 0 calls MPI_Comm_dup, rank");
        int whole = size, cyclic = 0;
        code = is_last ? MPI_Cart_create(MPI_COMM_WORLD, 1, &whole, &cyclic, 0, &made) : MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &made);
        told(code, "calls MPI_Cart_create");
        MPI_Win one_window;
        OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &one_window));
        OK(MPI_Win_set_errhandler(one_window, MPI_ERRORS_RETURN));
        told(is_last ? MPI_Win_free(&one_window) : MPI_Win_fence(0, one_window), "MPI_Win_f");
        if (is_last && one_window == MPI_WIN_NULL) CHECK(0);
        OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, one_window));
        OK(MPI_Win_free(&one_window));
    }
    /* What the library does in several steps, in some of which a process sends nothing. */
    int *memory;
    MPI_Win shared;
    OK(MPI_Win_allocate(64, 4, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &shared));
    OK(MPI_Win_free(&shared));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == size * (size - 1) / 2);
    /* Named at the end. */
    MPI_Comm leaked;
    MPI_Request request;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &leaked));
    OK(MPI_Comm_set_name(leaked, "forgotten"));
    OK(MPI_Send_init(&word, 1, MPI_INT, MPI_PROC_NULL, 0, leaked, &request));
    MPI_Win window;
    MPI_Errhandler handler;
    int key;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &window));
    OK(MPI_Win_set_name(window, "open"));
    OK(MPI_Win_create_errhandler(unused, &handler));
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &key, NULL));
    /* One rank's call is refused, and the others wait for that rank in MPI_Finalize: no rank waits for the refused call. */
    if (rank == 0) {
        int class;
        OK(MPI_Error_class(MPI_Bcast(&word, 1, MPI_INT, size, MPI_COMM_WORLD), &class));
        CHECK(class == MPI_ERR_ROOT);
        usleep(200000);
    }
    OK(MPI_Finalize());
    return 0;
}
