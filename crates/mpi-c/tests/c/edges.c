/* What lies at the edges of the standard: MPI_PROC_NULL, MPI_IN_PLACE and no elements in every call that takes them, negative and absolute
 * displacements, results that are left alone, error handlers of the program's, many requests at a time. Other libraries of the ABI
 * pass it, too. */
#include "check.h"

enum { MOST = 64, N = 5, LONG = 30000 };

static MPI_Status status;
static MPI_Comm w;

static int is_of_nobody(const MPI_Status *of) {
    int count = -1;
    OK(MPI_Get_count(of, MPI_INT, &count));
    return of->MPI_SOURCE == MPI_PROC_NULL && of->MPI_TAG == MPI_ANY_TAG && count == 0;
}

static void nobody(void) {
    int value = 7, flag = 0, other = 8, none = MPI_PROC_NULL;
    MPI_Request request;
    MPI_Message message = MPI_MESSAGE_NULL;
    OK(MPI_Send(&value, 1, MPI_INT, none, 0, w));
    OK(MPI_Ssend(&value, 1, MPI_INT, none, 0, w));
    OK(MPI_Rsend(&value, 1, MPI_INT, none, 0, w));
    /* No buffer is attached, and MPI_PROC_NULL needs none; not all libraries agree. */
    OK(MPI_Recv(&value, 1, MPI_INT, none, 3, w, &status));
    CHECK(is_of_nobody(&status));
    OK(MPI_Sendrecv(&value, 1, MPI_INT, none, 0, &other, 1, MPI_INT, none, 0, w, &status));
    CHECK(is_of_nobody(&status));
    OK(MPI_Sendrecv_replace(&value, 1, MPI_INT, none, 0, none, 0, w, &status));
    CHECK(is_of_nobody(&status));
    OK(MPI_Sendrecv(&value, 1, MPI_INT, rank, 0, &other, 1, MPI_INT, rank, 0, w, &status));
    CHECK(other == 7 && status.MPI_SOURCE == rank);
    OK(MPI_Probe(none, 5, w, &status));
    CHECK(is_of_nobody(&status));
    OK(MPI_Iprobe(none, 5, w, &flag, &status));
    CHECK(flag);
    CHECK(is_of_nobody(&status));
    OK(MPI_Mprobe(none, 5, w, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC);
    OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL);
    CHECK(is_of_nobody(&status));
    OK(MPI_Improbe(none, 5, w, &flag, &message, &status));
    CHECK(flag && message == MPI_MESSAGE_NO_PROC);
    OK(MPI_Imrecv(&value, 1, MPI_INT, &message, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(is_of_nobody(&status));
    OK(MPI_Isend(&value, 1, MPI_INT, none, 0, w, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Irecv(&value, 1, MPI_INT, none, 0, w, &request));
    OK(MPI_Test(&request, &flag, &status));
    CHECK(flag && request == MPI_REQUEST_NULL);
    CHECK(is_of_nobody(&status));
    OK(MPI_Isendrecv(&value, 1, MPI_INT, none, 0, &other, 1, MPI_INT, none, 0, w, &request));
    OK(MPI_Wait(&request, &status));
    CHECK(is_of_nobody(&status));
    OK(MPI_Recv_init(&value, 1, MPI_INT, none, 0, w, &request));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Start(&request));
        OK(MPI_Wait(&request, &status));
        CHECK(!is_ours() || is_of_nobody(&status));
        CHECK(request != MPI_REQUEST_NULL);
        /* Inactive: an empty status. */
        OK(MPI_Wait(&request, &status));
        CHECK(status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
    }
    OK(MPI_Request_free(&request));
    CHECK(value == 7 && other == 7);
}

static void nobody_by_memory(void) {
    int64_t value = 7, result = 9, zero = 0, *base;
    MPI_Win win;
    MPI_Request request;
    OK(MPI_Win_allocate(64, 8, MPI_INFO_NULL, w, &base, &win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win));
    OK(MPI_Get(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win));
    OK(MPI_Accumulate(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, MPI_SUM, win));
    OK(MPI_Get_accumulate(&value, 1, MPI_INT64_T, &result, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, MPI_SUM, win));
    OK(MPI_Fetch_and_op(&value, &result, MPI_INT64_T, MPI_PROC_NULL, 0, MPI_SUM, win));
    OK(MPI_Compare_and_swap(&value, &zero, &result, MPI_INT64_T, MPI_PROC_NULL, 0, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Rput(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Rget(&value, 1, MPI_INT64_T, MPI_PROC_NULL, 0, 1, MPI_INT64_T, win, &request));
    OK(MPI_Wait(&request, &status));
    /* Nothing at the very end of the memory, and nothing behind it. */
    OK(MPI_Put(NULL, 0, MPI_INT64_T, 0, 8, 0, MPI_INT64_T, win));
    OK(MPI_Accumulate(NULL, 0, MPI_INT64_T, 0, 0, 0, MPI_INT64_T, MPI_SUM, win));
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, MPI_PROC_NULL, 0, win));
    OK(MPI_Win_unlock(MPI_PROC_NULL, win));
    CHECK(value == 7 && result == 9);
    OK(MPI_Win_free(&win));
}

/* Every operation that knows MPI_IN_PLACE, short, and longer than what shared memory takes. */
static void in_place(int n) {
    int total = n * size, *all = calloc(total + 1, sizeof(int)), *mine = calloc(total + 1, sizeof(int));
    int counts[MOST], displacements[MOST], sum = size * (size - 1) / 2, least = rank * (rank - 1) / 2;
    MPI_Datatype types[MOST];
    MPI_Request request;
    CHECK(all && mine && size <= MOST);
    for (int r = 0; r < size; r++) {
        counts[r] = n;
        displacements[r] = r * n;
        types[r] = MPI_INT;
    }
#define FILL(value)                                                                             \
    for (int i = 0; i < total; i++) all[i] = (value)
#define ARE(many, value)                                                                        \
    for (int i = 0; i < (many); i++) CHECK(all[i] == (value))
    for (int later = 0; later < 2; later++) {
        FILL(i / n == rank ? i : -1);
        if (later) OK(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INT, w, &request));
        else OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INT, w));
        if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ARE(total, i);
        FILL(i / n == rank ? i : -1);
        if (later) OK(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, displacements, MPI_INT, w, &request));
        else OK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, counts, displacements, MPI_INT, w));
        if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ARE(total, i);
        FILL(rank * 1000 + i / n);
        if (later) OK(MPI_Ialltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INT, w, &request));
        else OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, n, MPI_INT, w));
        if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ARE(total, i / n * 1000 + rank);
        FILL(rank * 1000 + i / n);
        if (later) OK(MPI_Ialltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, all, counts, displacements, MPI_INT, w, &request));
        else OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, all, counts, displacements, MPI_INT, w));
        if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ARE(total, i / n * 1000 + rank);
        for (int r = 0; r < size; r++) displacements[r] *= sizeof(int);
        FILL(rank * 1000 + i / n);
        if (later) OK(MPI_Ialltoallw(MPI_IN_PLACE, NULL, NULL, NULL, all, counts, displacements, types, w, &request));
        else OK(MPI_Alltoallw(MPI_IN_PLACE, NULL, NULL, NULL, all, counts, displacements, types, w));
        if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ARE(total, i / n * 1000 + rank);
        for (int r = 0; r < size; r++) displacements[r] /= sizeof(int);
        FILL(rank + i);
        if (later) OK(MPI_Iallreduce(MPI_IN_PLACE, all, n, MPI_INT, MPI_SUM, w, &request));
        else OK(MPI_Allreduce(MPI_IN_PLACE, all, n, MPI_INT, MPI_SUM, w));
        if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ARE(n, sum + size * i);
        FILL(rank + i);
        if (later) OK(MPI_Iscan(MPI_IN_PLACE, all, n, MPI_INT, MPI_SUM, w, &request));
        else OK(MPI_Scan(MPI_IN_PLACE, all, n, MPI_INT, MPI_SUM, w));
        if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ARE(n, least + rank + (rank + 1) * i);
        FILL(rank + i);
        if (later) OK(MPI_Iexscan(MPI_IN_PLACE, all, n, MPI_INT, MPI_SUM, w, &request));
        else OK(MPI_Exscan(MPI_IN_PLACE, all, n, MPI_INT, MPI_SUM, w));
        if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        if (rank > 0) ARE(n, least + rank * i);
        FILL(rank + i);
        if (later) OK(MPI_Ireduce_scatter_block(MPI_IN_PLACE, all, n, MPI_INT, MPI_SUM, w, &request));
        else OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, all, n, MPI_INT, MPI_SUM, w));
        if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ARE(n, sum + size * (rank * n + i));
        FILL(rank + i);
        if (later) OK(MPI_Ireduce_scatter(MPI_IN_PLACE, all, counts, MPI_INT, MPI_SUM, w, &request));
        else OK(MPI_Reduce_scatter(MPI_IN_PLACE, all, counts, MPI_INT, MPI_SUM, w));
        if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        ARE(n, sum + size * (rank * n + i));
        /* At each root, in place there alone. */
        for (int root = 0; root < size; root++) {
            int is_root = rank == root;
            FILL(is_root && i / n != rank ? -1 : i);
            void *from = is_root ? MPI_IN_PLACE : (void *)(all + rank * n);
            if (later) OK(MPI_Igather(from, n, MPI_INT, all, n, MPI_INT, root, w, &request));
            else OK(MPI_Gather(from, n, MPI_INT, all, n, MPI_INT, root, w));
            if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            ARE(total, i);
            FILL(is_root && i / n != rank ? -1 : i);
            if (later) OK(MPI_Igatherv(from, n, MPI_INT, all, counts, displacements, MPI_INT, root, w, &request));
            else OK(MPI_Gatherv(from, n, MPI_INT, all, counts, displacements, MPI_INT, root, w));
            if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            ARE(total, i);
            FILL(is_root ? i : -1);
            void *into = is_root ? MPI_IN_PLACE : (void *)(all + rank * n);
            if (later) OK(MPI_Iscatter(all, n, MPI_INT, into, n, MPI_INT, root, w, &request));
            else OK(MPI_Scatter(all, n, MPI_INT, into, n, MPI_INT, root, w));
            if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            ARE(total, is_root || i / n == rank ? i : -1);
            FILL(is_root ? i : -1);
            if (later) OK(MPI_Iscatterv(all, counts, displacements, MPI_INT, into, n, MPI_INT, root, w, &request));
            else OK(MPI_Scatterv(all, counts, displacements, MPI_INT, into, n, MPI_INT, root, w));
            if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            ARE(total, is_root || i / n == rank ? i : -1);
            FILL(rank + i);
            void *operands = is_root ? MPI_IN_PLACE : (void *)all;
            void *result = is_root ? all : NULL;
            if (later) OK(MPI_Ireduce(operands, result, n, MPI_INT, MPI_SUM, root, w, &request));
            else OK(MPI_Reduce(operands, result, n, MPI_INT, MPI_SUM, root, w));
            if (later) OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            if (is_root) ARE(n, sum + size * i);
            else ARE(n, rank + i);
        }
    }
    free(all);
    free(mine);
}

/* No elements: no memory is touched, for any buffer address. */
static void nothing(void) {
    int counts[MOST] = {0}, displacements[MOST] = {0};
    MPI_Request request;
    MPI_Datatype empty;
    /* Some libraries take two times NULL for one buffer that is used twice. */
    char one, other;
    void *here = is_ours() ? NULL : &one, *there = is_ours() ? NULL : &other;
    OK(MPI_Type_contiguous(0, MPI_INT, &empty));
    OK(MPI_Type_commit(&empty));
    OK(MPI_Barrier(w));
    OK(MPI_Bcast(here, 0, MPI_INT, 0, w));
    OK(MPI_Bcast(here, 5, empty, 0, w));
    OK(MPI_Gather(here, 0, MPI_INT, there, 0, MPI_INT, 0, w));
    OK(MPI_Gatherv(here, 0, MPI_INT, there, counts, displacements, MPI_INT, 0, w));
    OK(MPI_Scatter(here, 0, MPI_INT, there, 0, MPI_INT, 0, w));
    OK(MPI_Scatterv(here, counts, displacements, MPI_INT, there, 0, MPI_INT, 0, w));
    OK(MPI_Allgather(here, 0, MPI_INT, there, 0, MPI_INT, w));
    OK(MPI_Allgatherv(here, 0, MPI_INT, there, counts, displacements, MPI_INT, w));
    OK(MPI_Alltoall(here, 0, MPI_INT, there, 0, MPI_INT, w));
    OK(MPI_Alltoallv(here, counts, displacements, MPI_INT, there, counts, displacements, MPI_INT, w));
    OK(MPI_Reduce(here, there, 0, MPI_INT, MPI_SUM, 0, w));
    OK(MPI_Allreduce(here, there, 0, MPI_INT, MPI_SUM, w));
    OK(MPI_Reduce_scatter(here, there, counts, MPI_INT, MPI_SUM, w));
    OK(MPI_Reduce_scatter_block(here, there, 0, MPI_INT, MPI_SUM, w));
    OK(MPI_Scan(here, there, 0, MPI_INT, MPI_SUM, w));
    OK(MPI_Exscan(here, there, 0, MPI_INT, MPI_SUM, w));
    OK(MPI_Iallreduce(here, there, 0, MPI_INT, MPI_SUM, w, &request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Sendrecv(NULL, 0, MPI_INT, (rank + 1) % size, 1, NULL, 0, MPI_INT, (rank + size - 1) % size, 1, w, &status));
    CHECK(status.MPI_SOURCE == (rank + size - 1) % size);
    OK(MPI_Sendrecv(NULL, 3, empty, rank, 1, NULL, 4, empty, rank, 1, w, &status));
    int many = -1;
    OK(MPI_Get_count(&status, empty, &many));
    CHECK(many == 0);
    OK(MPI_Waitall(0, NULL, MPI_STATUSES_IGNORE));
    int index = 0, flag = 0;
    MPI_Request none[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    OK(MPI_Waitany(2, none, &index, &status));
    CHECK(index == MPI_UNDEFINED);
    OK(MPI_Testany(2, none, &index, &flag, &status));
    CHECK(flag && index == MPI_UNDEFINED);
    int indices[2];
    OK(MPI_Waitsome(2, none, &many, indices, MPI_STATUSES_IGNORE));
    CHECK(many == MPI_UNDEFINED);
    OK(MPI_Testsome(2, none, &many, indices, MPI_STATUSES_IGNORE));
    CHECK(many == MPI_UNDEFINED);
    OK(MPI_Testall(2, none, &flag, MPI_STATUSES_IGNORE));
    CHECK(flag);
    OK(MPI_Type_free(&empty));
}

/* Elements before the address that is given, backwards, and at addresses of their own. */
static void displacements(void) {
    int values[N * 2], got[N * 2], lengths[2] = {1, 2};
    MPI_Aint steps[2] = {0, -4 * (MPI_Aint)sizeof(int)}, addresses[2], low, extent;
    MPI_Datatype backwards, indexed, absolute;
    for (int i = 0; i < 2 * N; i++) values[i] = rank * 100 + i;
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    /* values[9], [7], [5], [3], [1] */
    OK(MPI_Type_create_hvector(N, 1, -2 * (MPI_Aint)sizeof(int), MPI_INT, &backwards));
    OK(MPI_Type_commit(&backwards));
    OK(MPI_Type_get_extent(backwards, &low, &extent));
    CHECK(low == -8 * (MPI_Aint)sizeof(int) && extent == 9 * (MPI_Aint)sizeof(int));
    memset(got, 255, sizeof got);
    OK(MPI_Sendrecv(values + 9, 1, backwards, next, 2, got, N, MPI_INT, last, 2, w, &status));
    for (int i = 0; i < N; i++) CHECK(got[i] == last * 100 + 9 - 2 * i);
    memset(got, 255, sizeof got);
    OK(MPI_Sendrecv(values, N, MPI_INT, next, 2, got + 9, 1, backwards, last, 2, w, &status));
    for (int i = 0; i < N; i++) CHECK(got[9 - 2 * i] == last * 100 + i && got[8 - 2 * i] == -1);
    /* values[6], then [2] and [3] */
    OK(MPI_Type_create_hindexed(2, lengths, steps, MPI_INT, &indexed));
    OK(MPI_Type_commit(&indexed));
    OK(MPI_Sendrecv(values + 6, 1, indexed, next, 3, got, 3, MPI_INT, last, 3, w, &status));
    CHECK(got[0] == last * 100 + 6 && got[1] == last * 100 + 2 && got[2] == last * 100 + 3);
    OK(MPI_Get_address(&values[8], &addresses[0]));
    OK(MPI_Get_address(&values[1], &addresses[1]));
    OK(MPI_Type_create_hindexed(2, lengths, addresses, MPI_INT, &absolute));
    OK(MPI_Type_commit(&absolute));
    OK(MPI_Sendrecv(MPI_BOTTOM, 1, absolute, next, 4, got, 3, MPI_INT, last, 4, w, &status));
    CHECK(got[0] == last * 100 + 8 && got[1] == last * 100 + 1 && got[2] == last * 100 + 2);
    /* By collective operations, short and among all. */
    memset(got, 255, sizeof got);
    if (rank == 0)
        for (int i = 0; i < N; i++) got[9 - 2 * i] = i;
    for (int i = 0; i < 4; i++) OK(MPI_Bcast(got + 9, 1, backwards, 0, w));
    for (int i = 0; i < N; i++) CHECK(got[9 - 2 * i] == i && got[8 - 2 * i] == -1);
    int *all = calloc(N * size, sizeof(int));
    for (int i = 0; i < 4; i++) OK(MPI_Allgather(values + 9, 1, backwards, all, N, MPI_INT, w));
    for (int i = 0; i < N * size; i++) CHECK(all[i] == i / N * 100 + 9 - 2 * (i % N));
    free(all);
    /* Beyond the memory in front, but inside the window. */
    MPI_Win win;
    int *base;
    OK(MPI_Win_allocate(sizeof values, sizeof(int), MPI_INFO_NULL, w, &base, &win));
    memset(base, 255, sizeof values);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(values, N, MPI_INT, next, 9, 1, backwards, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < N; i++) CHECK(base[9 - 2 * i] == last * 100 + i && base[8 - 2 * i] == -1);
    OK(MPI_Win_free(&win));
    OK(MPI_Type_free(&backwards));
    OK(MPI_Type_free(&indexed));
    OK(MPI_Type_free(&absolute));
}

static int called, last_code;
static MPI_Comm last_comm;

static void note(MPI_Comm *comm, int *code, ...) {
    called++;
    last_code = *code;
    last_comm = *comm;
}

/* The handler of the communicator is called once for an error, and the call returns its code. */
static void handlers(void) {
    int value = 0, code, class;
    MPI_Comm copy;
    MPI_Errhandler own, got;
    MPI_Request requests[2];
    MPI_Status both[2];
    OK(MPI_Comm_create_errhandler(note, &own));
    OK(MPI_Comm_dup(w, &copy));
    OK(MPI_Comm_set_errhandler(copy, own));
    OK(MPI_Comm_get_errhandler(copy, &got));
    CHECK(got == own);
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Errhandler_free(&own));
    CHECK(own == MPI_ERRHANDLER_NULL);
    code = MPI_Send(&value, 1, MPI_INT, size, 0, copy);
    CHECK(called == 1 && last_code == code && last_comm == copy);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_RANK);
    OK(MPI_Comm_call_errhandler(copy, MPI_ERR_OTHER));
    CHECK(called == 2 && last_code == MPI_ERR_OTHER);
    /* A copy has it, too; the communicator it was copied from has not. */
    MPI_Comm second;
    OK(MPI_Comm_dup(copy, &second));
    code = MPI_Bcast(&value, 1, MPI_INT, size, second);
    CHECK(called == 3 && last_comm == second);
    code = MPI_Bcast(&value, 1, MPI_INT, size, w);
    CHECK(called == 3 && code != MPI_SUCCESS);
    /* One of several requests fails: the statuses show which. */
    int many[4] = {0}, room[4];
    OK(MPI_Irecv(room, 1, MPI_INT, rank, 1, copy, &requests[0]));
    OK(MPI_Irecv(room + 1, 1, MPI_INT, rank, 2, copy, &requests[1]));
    OK(MPI_Send(many, 3, MPI_INT, rank, 1, copy));
    OK(MPI_Send(many, 1, MPI_INT, rank, 2, copy));
    both[0].MPI_ERROR = both[1].MPI_ERROR = -1;
    code = MPI_Waitall(2, requests, both);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_IN_STATUS && called == 4);
    OK(MPI_Error_class(both[0].MPI_ERROR, &class));
    CHECK(class == MPI_ERR_TRUNCATE && both[1].MPI_ERROR == MPI_SUCCESS);
    CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
    OK(MPI_Comm_free(&second));
    OK(MPI_Comm_free(&copy));
}

/* Objects that are freed while they are in use live until they are not. */
static void freed(void) {
    int next = (rank + 1) % size, last = (rank + size - 1) % size, many[2 * N], got[2 * N];
    MPI_Request receive, send;
    MPI_Datatype type;
    MPI_Comm copy;
    MPI_Group group;
    for (int i = 0; i < 2 * N; i++) many[i] = rank + i;
    memset(got, 255, sizeof got);
    OK(MPI_Type_vector(N, 1, 2, MPI_INT, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Comm_dup(w, &copy));
    OK(MPI_Comm_group(copy, &group));
    OK(MPI_Irecv(got, 1, type, last, 0, copy, &receive));
    OK(MPI_Isend(many, 1, type, next, 0, copy, &send));
    OK(MPI_Type_free(&type));
    OK(MPI_Comm_free(&copy));
    OK(MPI_Group_free(&group));
    CHECK(type == MPI_DATATYPE_NULL && copy == MPI_COMM_NULL && group == MPI_GROUP_NULL);
    OK(MPI_Wait(&receive, &status));
    CHECK(status.MPI_SOURCE == last);
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    for (int i = 0; i < N; i++) CHECK(got[2 * i] == last + 2 * i && (i == N - 1 || got[2 * i + 1] == -1));
    /* A send whose request is freed arrives. */
    OK(MPI_Isend(many, 1, MPI_INT, next, 9, w, &send));
    OK(MPI_Request_free(&send));
    CHECK(send == MPI_REQUEST_NULL);
    OK(MPI_Recv(got, 1, MPI_INT, last, 9, w, MPI_STATUS_IGNORE));
    CHECK(got[0] == last);
    OK(MPI_Barrier(w));
}

/* Many requests, completed one by one, some by some, and all at once. */
static void many_requests(int many) {
    int *values = calloc(2 * many, sizeof(int)), *indices = calloc(many, sizeof(int)), index, some, flag, done;
    MPI_Request *requests = calloc(2 * many, sizeof *requests);
    MPI_Status *statuses = calloc(many, sizeof *statuses);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    CHECK(values && indices && requests && statuses);
    for (int way = 0; way < 6; way++) {
        /* One by one, each looks at all: fewer. */
        int n = way == 0 || way == 3 ? (many > 2000 ? 2000 : many) : many;
        for (int i = 0; i < n; i++) {
            values[i] = -1;
            values[n + i] = rank + i;
            OK(MPI_Irecv(&values[i], 1, MPI_INT, last, i & 1023, w, &requests[i]));
        }
        for (int i = 0; i < n; i++) OK(MPI_Isend(&values[n + i], 1, MPI_INT, next, i & 1023, w, &requests[n + i]));
        for (done = 0; done < n;) {
            some = 0;
            if (way == 0) {
                OK(MPI_Waitany(n, requests, &index, &status));
                CHECK(index >= 0 && index < n && status.MPI_TAG == (index & 1023) && requests[index] == MPI_REQUEST_NULL);
                some = 1;
            } else if (way == 1 || way == 4) {
                if (way == 1) OK(MPI_Waitsome(n, requests, &some, indices, statuses));
                else OK(MPI_Testsome(n, requests, &some, indices, statuses));
                CHECK(way == 4 || some > 0);
                for (int i = 0; i < some; i++) CHECK(statuses[i].MPI_TAG == (indices[i] & 1023));
            } else if (way == 3) {
                OK(MPI_Testany(n, requests, &index, &flag, &status));
                CHECK(!flag || status.MPI_TAG == (index & 1023));
                some = flag;
            } else {
                flag = 1;
                if (way == 2) OK(MPI_Waitall(n, requests, statuses));
                else OK(MPI_Testall(n, requests, &flag, statuses));
                for (int i = 0; flag && i < n; i++) CHECK(statuses[i].MPI_TAG == (i & 1023) && statuses[i].MPI_SOURCE == last);
                some = flag ? n : 0;
            }
            done += some;
        }
        CHECK(done == n);
        OK(MPI_Waitall(n, requests + n, MPI_STATUSES_IGNORE));
        for (int i = 0; i < n; i++) CHECK(values[i] == last + i && requests[i] == MPI_REQUEST_NULL);
        OK(MPI_Barrier(w));
    }
    free(values);
    free(indices);
    free(requests);
    free(statuses);
}

/* More elements than an int counts, and more bytes than 32 bits do. */
static void huge(void) {
    MPI_Count count = ((MPI_Count)1 << 31) + 17, got = 0;
    char *bytes = malloc(count), *into = rank == 1 || size == 1 ? malloc(count) : NULL;
    MPI_Request request;
    MPI_Datatype type;
    CHECK(bytes && (into || (rank != 1 && size > 1)));
    memset(bytes, rank + 1, count);
    bytes[count - 1] = 77;
    if (rank < 2 && size > 1) {
        if (rank == 0) OK(MPI_Send_c(bytes, count, MPI_BYTE, 1, 0, w));
        else OK(MPI_Recv_c(into, count, MPI_BYTE, 0, 0, w, &status));
    } else if (size == 1) {
        OK(MPI_Irecv_c(into, count, MPI_BYTE, 0, 0, w, &request));
        OK(MPI_Send_c(bytes, count, MPI_BYTE, 0, 0, w));
        OK(MPI_Wait(&request, &status));
    }
    if (into) {
        int small = 0;
        OK(MPI_Get_count_c(&status, MPI_BYTE, &got));
        CHECK(got == count && into[count - 1] == 77 && into[count - 2] == 1 && into[0] == 1);
        OK(MPI_Get_count(&status, MPI_BYTE, &small));
        CHECK(small == MPI_UNDEFINED);
        memset(into, 0, count);
    }
    /* The same as one element. */
    OK(MPI_Type_contiguous_c(count, MPI_BYTE, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_size_c(type, &got));
    CHECK(got == count);
    if (rank < 2 && size > 1) {
        if (rank == 0) OK(MPI_Send(bytes, 1, type, 1, 0, w));
        else OK(MPI_Recv(into, 1, type, 0, 0, w, &status));
        if (into) CHECK(into[count - 1] == 77 && into[count - 2] == 1 && into[0] == 1);
    }
    OK(MPI_Type_free(&type));
    OK(MPI_Bcast_c(bytes, count, MPI_BYTE, 0, w));
    CHECK(bytes[count - 1] == 77 && bytes[count - 2] == 1 && bytes[0] == 1);
    free(bytes);
    free(into);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &w));
    OK(MPI_Comm_set_errhandler(w, MPI_ERRORS_RETURN));
    int requests = argc > 1 ? atoi(argv[1]) : 1000;
    nobody();
    nobody_by_memory();
    /* Often enough for the memory that all share. */
    for (int i = 0; i < 4; i++) in_place(N);
    in_place(LONG);
    for (int i = 0; i < 4; i++) nothing();
    displacements();
    if (is_ours()) handlers();
    freed();
    many_requests(requests);
    if (argc > 2) huge();
    OK(MPI_Comm_free(&w));
    OK(MPI_Finalize());
    return 0;
}
