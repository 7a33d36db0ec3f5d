/* Calls that a rank does not begin because of their arguments. If no other rank makes the call, all operations behind it are as if it had not been made. If the others make it, with
 * right arguments, they get an error as soon as the next call of that rank shows it, and so does that call; those behind work. Besides, failures that concern later operations only,
 * and ranks that wait for messages of one that has given up. */
#include "check.h"

#include <unistd.h>

enum { LONG = 1 << 19, INTS = 8 };

static char from[LONG], into[LONG];
static MPI_Comm comm;

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

static void fresh(int is_warm) {
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; is_warm && i < 5; i++) OK(MPI_Barrier(comm));
}

/* Waits for all ranks, without a collective operation. */
static void meet(void) {
    for (int round = 0; round < 2; round++)
        for (int other = 1; other < size; other++) {
            if (rank == (round ? other : 0)) OK(MPI_Recv(NULL, 0, MPI_INT, round ? 0 : other, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            if (rank == (round ? 0 : other)) OK(MPI_Send(NULL, 0, MPI_INT, round ? other : 0, 77, MPI_COMM_WORLD));
        }
}

enum { WRONG = 16 };

static int wrong(int which) {
    MPI_Request request;
    switch (which) {
    case 0: return MPI_Bcast(from, -1, MPI_CHAR, 0, comm);
    case 1: return MPI_Bcast(from, 4, MPI_CHAR, size, comm);
    case 2: return MPI_Bcast(from, LONG, MPI_DATATYPE_NULL, 0, comm);
    case 3: return MPI_Allreduce(from, into, -1, MPI_CHAR, MPI_BOR, comm);
    case 4: return MPI_Allreduce(from, into, 4, MPI_CHAR, MPI_OP_NULL, comm);
    case 5: return MPI_Reduce(from, into, 4, MPI_DOUBLE, MPI_BOR, 0, comm);
    case 6: return MPI_Allgather(from, 5, MPI_CHAR, into, 4, MPI_CHAR, comm);
    case 7: return MPI_Alltoall(from, 4000, MPI_CHAR, into, 5000, MPI_CHAR, comm);
    case 8: return MPI_Alltoall(from, 40000, MPI_CHAR, into, 50000, MPI_CHAR, comm);
    case 9: return MPI_Reduce_scatter_block(from, into, -1, MPI_CHAR, MPI_BOR, comm);
    case 10: return MPI_Scan(from, into, -1, MPI_CHAR, MPI_BOR, comm);
    case 11: return MPI_Gather(from, -1, MPI_CHAR, into, 4, MPI_CHAR, rank, comm);
    case 12: return MPI_Iallgather(from, -1, MPI_CHAR, into, 4, MPI_CHAR, comm, &request);
    case 13: return MPI_Ibcast(from, 4, MPI_CHAR, size, comm, &request);
    case 14: return MPI_Allgather_init(from, -1, MPI_CHAR, into, 4, MPI_CHAR, comm, MPI_INFO_NULL, &request);
    default: return MPI_Bcast_init(from, 4, MPI_CHAR, -7, comm, MPI_INFO_NULL, &request);
    }
}

/* Operations of all kinds. */
static void right(int start) {
    MPI_Request request;
    int value = rank + 1, sum, all = size * (size + 1) / 2, blocks[64];
    CHECK(size <= 64);
    for (int i = start; i < start + 6; i++) {
        sum = -1;
        switch (i % 6) {
        case 0:
            OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
            CHECK(sum == all);
            break;
        case 1:
            memset(from, rank == i % size ? 5 : 6, LONG);
            OK(MPI_Bcast(from, LONG, MPI_CHAR, i % size, comm));
            CHECK(from[0] == 5 && from[LONG - 1] == 5);
            break;
        case 2:
            OK(MPI_Scan(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
            CHECK(sum == (rank + 1) * (rank + 2) / 2);
            break;
        case 3:
            OK(MPI_Iallreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            CHECK(sum == all);
            break;
        case 4:
            OK(MPI_Allgather_init(&value, 1, MPI_INT, blocks, 1, MPI_INT, comm, MPI_INFO_NULL, &request));
            for (int start = 0; start < 2; start++) {
                OK(MPI_Start(&request));
                OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                for (int other = 0; other < size; other++) CHECK(blocks[other] == other + 1);
            }
            OK(MPI_Request_free(&request));
            break;
        default:
            OK(MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 0, comm));
            CHECK(rank != 0 || sum == all);
        }
    }
    OK(MPI_Barrier(comm));
}

/* One rank makes calls that no other rank makes. */
static void only_one(void) {
    for (int is_warm = 0; is_warm < 2; is_warm++)
        for (int which = 0; which < WRONG; which++) {
            fresh(is_warm);
            for (int round = 0; round < 3; round++) {
                for (int i = 0; i < 5 && rank == (which + round) % size; i++) CHECK(wrong(which) != MPI_SUCCESS);
                right(which + round);
            }
            OK(MPI_Comm_free(&comm));
        }
}

/* An operation behind a failed one fails, or has the right result; those that begin when all have noticed work. */
static void recovers(int must_fail) {
    int value = 1, sum = 0;
    int code = MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (code == MPI_SUCCESS) CHECK(!must_fail && sum == size);
    meet();
    for (int i = 0; i < 3; i++) right(i);
}

enum { OPERATIONS = 8 };

/* The odd rank calls with wrong arguments what the others call with right ones. */
static void others_call(int which, int odd) {
    int is_odd = rank == odd, other = (odd + 1) % size, code;
    fresh(1);
    switch (which) {
    case 0: code = MPI_Bcast(into, is_odd ? -1 : 100000, MPI_CHAR, other, comm); break;
    case 1: code = MPI_Bcast(into, is_odd ? -1 : 100000, MPI_CHAR, odd, comm); break;
    case 2: code = MPI_Reduce(from, into, is_odd ? -1 : 100000, MPI_CHAR, MPI_BOR, odd, comm); break;
    case 3: code = MPI_Reduce(from, into, is_odd ? -1 : LONG, MPI_CHAR, MPI_BOR, other, comm); break;
    case 4: code = MPI_Allreduce(from, into, is_odd ? -1 : 4, MPI_CHAR, MPI_BOR, comm); break;
    case 5: code = MPI_Bcast(into, is_odd ? -1 : 60000, MPI_CHAR, other, comm); break;
    case 6: code = MPI_Allgather(from, is_odd ? -1 : 40000, MPI_CHAR, into, 40000, MPI_CHAR, comm); break;
    default: code = MPI_Alltoall(from, is_odd ? -1 : 4, MPI_CHAR, into, 4, MPI_CHAR, comm);
    }
    if (is_odd) CHECK(class_of(code) == MPI_ERR_COUNT);
    if (!is_odd && code != MPI_SUCCESS) CHECK(class_of(code) == MPI_ERR_COUNT || class_of(code) == MPI_ERR_NOT_SAME);
    /* These need the odd rank. */
    if (!is_odd && which > 3 && which != 5) CHECK(code != MPI_SUCCESS);
    if (rank == other && which == 3) CHECK(code != MPI_SUCCESS);
    recovers(1);
    OK(MPI_Comm_free(&comm));
}

/* Two ranks name themselves the root of a long broadcast; also beside an operation of which they have only made a request. */
static void two_roots(int with_request) {
    MPI_Request request = MPI_REQUEST_NULL;
    fresh(1);
    if (with_request) OK(MPI_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    int code = MPI_Bcast(into, LONG, MPI_CHAR, rank == 1, comm);
    if (rank < 2) CHECK(class_of(code) == MPI_ERR_NOT_SAME);
    meet();
    recovers(0);
    if (with_request) OK(MPI_Request_free(&request));
    OK(MPI_Comm_free(&comm));
}

/* Rank 1 waits for messages of an operation when rank 2 gives up the one before, and calls nothing more on this communicator. */
static void waits_for_one_that_has_left(void) {
    fresh(1);
    if (rank == 2) {
        for (int i = 0; i < size - 1; i++) OK(MPI_Recv(NULL, 0, MPI_INT, MPI_ANY_SOURCE, 78, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        usleep(300000);
        CHECK(class_of(MPI_Bcast(into, 8, MPI_CHAR, 0, comm)) == MPI_ERR_TRUNCATE);
    } else {
        OK(MPI_Bcast(into, 4, MPI_CHAR, 0, comm));
        OK(MPI_Send(NULL, 0, MPI_INT, 2, 78, MPI_COMM_WORLD));
        int code = MPI_Bcast(from, LONG, MPI_CHAR, 1, comm);
        CHECK(rank != 1 || class_of(code) == MPI_ERR_TRUNCATE);
    }
    meet();
    OK(MPI_Comm_free(&comm));
}

/* Rank 2 finds a wrong call while rank 0 still waits for rank 1 in the operation before, which is right. */
static void earlier_operation(void) {
    int value = 1, sum = 0;
    fresh(1);
    if (rank == 1) usleep(300000);
    OK(MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, 0, comm));
    if (rank == 0) CHECK(sum == size);
    int code = MPI_Bcast(into, rank == 2 ? 8 : 4, MPI_CHAR, 3, comm);
    if (rank == 2) CHECK(class_of(code) == MPI_ERR_TRUNCATE);
    meet();
    recovers(0);
    OK(MPI_Comm_free(&comm));
}

/* A rank frees the communicator while the others wait for the call that it has not begun. */
static void frees(int n) {
    fresh(1);
    int code = MPI_Bcast(into, rank == 0 ? -1 : n, MPI_CHAR, 0, comm);
    CHECK(class_of(code) == MPI_ERR_COUNT);
    OK(MPI_Comm_free(&comm));
}

static void add(void *in, void *inout, int *len, MPI_Datatype *datatype) {
    int bytes;
    OK(MPI_Type_size(*datatype, &bytes));
    for (int i = 0; i < *len * (bytes / (int)sizeof(int)); i++) ((int *)inout)[i] += ((int *)in)[i];
}

/* The same parts, described as elements of different datatypes. */
static void same_parts(void) {
    int *parts = calloc((size_t)size, sizeof *parts), operands[64 * INTS], result[INTS] = {0};
    MPI_Datatype two;
    MPI_Op op;
    OK(MPI_Type_contiguous(2, MPI_INT, &two));
    OK(MPI_Type_commit(&two));
    OK(MPI_Op_create(add, 1, &op));
    for (int i = 0; i < size; i++) parts[i] = rank == 0 ? INTS : INTS / 2;
    for (int i = 0; i < size * INTS; i++) operands[i] = i;
    fresh(1);
    OK(MPI_Reduce_scatter(operands, result, parts, rank == 0 ? MPI_INT : two, op, comm));
    for (int i = 0; i < INTS; i++) CHECK(result[i] == size * (rank * INTS + i));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&two));
    free(parts);
}

/* Rank 1 calls an operation by messages before one in shared memory, the others the other way round. The communicator cannot be used any more. */
static void other_order(void) {
    int value = 1, sum;
    fresh(1);
    if (rank == 1) OK(MPI_Gather(&value, 1, MPI_INT, NULL, 1, MPI_INT, 0, comm));
    CHECK(class_of(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm)) == MPI_ERR_NOT_SAME);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    only_one();
    if (size > 1) same_parts();
    /* Calls are compared in shared memory only. */
    if (argc == 1 && size > 1) {
        for (int which = 0; which < OPERATIONS; which++)
            for (int odd = 0; odd < size; odd += size - 1) others_call(which, odd);
        two_roots(0);
        two_roots(1);
        if (size > 2) waits_for_one_that_has_left();
        if (size > 3) earlier_operation();
        frees(4);
        frees(LONG);
        other_order();
    }
    OK(MPI_Finalize());
    return 0;
}
