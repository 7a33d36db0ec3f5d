/* A rank takes no part in a collective operation of the others, and calls MPI_Finalize: either it calls the operation with wrong arguments, or it does not call at all, or it
 * frees the communicator. The others return an error that names it, or one that has noticed before them, also if they call long after that, and all processes end.
 *
 * Arguments: the operation, what the odd rank does (refuse, skip, free; old: it skips, and has refused another call before one that all have done; held: as refuse, when it has sent
 * buffered messages that the others receive afterwards; busy: as skip, while the others have another operation in progress; ahead: as skip, and it calls the operation behind that, which
 * fails in shared memory; instead: likewise, and calls another one), which rank that is (first, last), whether the communicator was used before (used, new), who comes late
 * (odd, others). */
#include "check.h"

#include <unistd.h>

enum { LONG = 1 << 19, LATE_US = 60000 };

static char from[64 * LONG], into[64 * LONG];
static int counts[64], at[64];
static MPI_Comm comm;

static int start(MPI_Request *request) {
    int code = MPI_Start(request);
    return code == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : code;
}

static int finish(int code, MPI_Request *request) { return code == MPI_SUCCESS ? MPI_Wait(request, MPI_STATUS_IGNORE) : code; }

static int test(int code, MPI_Request *request) {
    for (int is_done = 0; code == MPI_SUCCESS && !is_done;) code = MPI_Test(request, &is_done, MPI_STATUS_IGNORE);
    return code;
}

static int kept(int code, MPI_Request *request) { return code == MPI_SUCCESS ? start(request) : code; }

/* The operation, of n bytes, whose result depends on every rank (those with a root: at rank `to`). */
static int call(int which, int n, int to) {
    MPI_Request request;
    MPI_Comm new;
    switch (which) {
    case 0: return MPI_Allreduce(from, into, n, MPI_CHAR, MPI_BOR, comm);
    case 1: return MPI_Bcast(into, n, MPI_CHAR, to, comm);
    case 2: return MPI_Reduce(from, into, n, MPI_CHAR, MPI_BOR, to, comm);
    case 3: return MPI_Alltoall(from, n, MPI_CHAR, into, n, MPI_CHAR, comm);
    case 4: return MPI_Allgather(from, n, MPI_CHAR, into, n, MPI_CHAR, comm);
    case 5: return MPI_Gather(from, n, MPI_CHAR, into, n, MPI_CHAR, to, comm);
    case 6: return MPI_Scatter(from, n, MPI_CHAR, into, n, MPI_CHAR, to, comm);
    case 7: return MPI_Scan(from, into, n, MPI_CHAR, MPI_BOR, comm);
    case 8:
        for (int i = 0; i < 64; i++) counts[i] = n, at[i] = i * LONG;
        return MPI_Allgatherv(from, n, MPI_CHAR, into, counts, at, MPI_CHAR, comm);
    case 9: return finish(MPI_Iallreduce(from, into, n, MPI_CHAR, MPI_BOR, comm, &request), &request);
    case 10: return finish(MPI_Igather(from, n, MPI_CHAR, into, n, MPI_CHAR, to, comm, &request), &request);
    case 11: return kept(MPI_Allreduce_init(from, into, n, MPI_CHAR, MPI_BOR, comm, MPI_INFO_NULL, &request), &request);
    case 12: return kept(MPI_Gather_init(from, n, MPI_CHAR, into, n, MPI_CHAR, to, comm, MPI_INFO_NULL, &request), &request);
    case 13: return MPI_Reduce_scatter_block(from, into, n, MPI_CHAR, MPI_BOR, comm);
    case 14: return test(MPI_Iallreduce(from, into, n, MPI_CHAR, MPI_BOR, comm, &request), &request);
    default: return MPI_Comm_split(comm, n < 0 ? -77 : 0, 0, &new);
    }
}

enum { OPERATIONS = 16 };

/* Whether every other rank needs the odd one. */
static int needs_all(int which) { return which == 0 || which == 3 || which == 4 || which == 8 || which == 9 || which == 11 || which == 13 || which == 14 || which == 15; }

/* The odd rank refuses a call; that all have done a later one shows that none waits for it. */
static void refuse_and_go_on(int is_odd) {
    if (is_odd) CHECK(MPI_Bcast(from, -1, MPI_CHAR, 0, comm) == MPI_ERR_COUNT);
    OK(MPI_Barrier(comm));
}

/* A message that is not received before the operation is over. */
static void hold(int is_odd, int odd) {
    static char buffer[4 * LONG];
    if (is_odd) OK(MPI_Buffer_attach(buffer, sizeof buffer));
    if (is_odd) OK(MPI_Bsend(from, LONG, MPI_CHAR, (odd + 1) % size, 5, MPI_COMM_WORLD));
}

static void release(int odd) {
    if (rank == (odd + 1) % size) OK(MPI_Recv(into, LONG, MPI_CHAR, odd, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
}

/* The operation behind, which the odd rank begins as if it were the one before. */
static void fail_behind(int is_other) {
    int code = is_other ? MPI_Bcast(into, 3, MPI_CHAR, 0, comm) : MPI_Allreduce(from, into, 4, MPI_CHAR, MPI_BOR, comm), class;
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_NOT_SAME);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 7);
    int which = atoi(argv[1]), n = atoi(argv[2]), code = MPI_SUCCESS;
    int is_old = !strcmp(argv[3], "old"), holds = !strcmp(argv[3], "held"), is_busy = !strcmp(argv[3], "busy");
    int is_instead = !strcmp(argv[3], "instead"), is_ahead = is_instead || !strcmp(argv[3], "ahead");
    int refuses = holds || !strcmp(argv[3], "refuse"), frees = !strcmp(argv[3], "free"), odd = !strcmp(argv[4], "first") ? 0 : size - 1, to = (odd + 1) % size;
    CHECK(which < OPERATIONS && n <= LONG && size <= 64);
    comm = MPI_COMM_WORLD;
    if (frees) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; !strcmp(argv[5], "used") && i < 5; i++) OK(MPI_Barrier(comm));
    if (which == 6 || which == 1) to = odd;
    if (is_old) refuse_and_go_on(rank == odd);
    if (holds) hold(rank == odd, odd);
    MPI_Request other;
    MPI_Comm without;
    if (is_busy) {
        OK(MPI_Comm_split(MPI_COMM_WORLD, rank == odd ? MPI_UNDEFINED : 1, rank, &without));
        if (rank != odd) OK(MPI_Barrier_init(without, MPI_INFO_NULL, &other));
    }
    if ((rank == odd) == !strcmp(argv[6], "odd")) usleep(LATE_US);
    if (rank != odd) {
        code = call(which, n, to);
        if (needs_all(which) || (which == 7 ? rank > odd : to == odd || rank == to)) CHECK(code != MPI_SUCCESS);
        if (code != MPI_SUCCESS) {
            char text[MPI_MAX_ERROR_STRING], expected[32];
            int len, class;
            OK(MPI_Error_class(code, &class));
            OK(MPI_Error_string(code, text, &len));
            sprintf(expected, "rank %d", odd);
            if (argv[0][0] == '+' || !strstr(text, expected)) fprintf(stderr, "%s\n", text);
            CHECK(strstr(text, expected) || strstr(text, "has given the operation up"));
            if (is_old) CHECK(class == MPI_ERR_NOT_SAME && !strstr(text, "MPI_Bcast"));
            if (refuses || frees) CHECK(class == (which == 15 ? MPI_ERR_ARG : MPI_ERR_COUNT) || class == MPI_ERR_NOT_SAME);
        }
    } else if (refuses || frees) {
        CHECK(call(which, -1, to) != MPI_SUCCESS);
    }
    if (is_ahead && (rank == odd || code == MPI_SUCCESS)) fail_behind(is_instead && rank == odd);
    if (frees) OK(MPI_Comm_free(&comm));
    if (holds) release(odd);
    if (is_busy && rank != odd) {
        OK(MPI_Start(&other));
        OK(MPI_Wait(&other, MPI_STATUS_IGNORE));
        OK(MPI_Request_free(&other));
        OK(MPI_Comm_free(&without));
    }
    OK(MPI_Finalize());
    return 0;
}
