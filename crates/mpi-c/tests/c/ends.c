/* A rank takes no part in a collective operation of the others, and calls MPI_Finalize: either it calls the operation with wrong arguments, or it does not call at all, or it
 * frees the communicator. The others return an error that names it, also if they call long after that, and all processes end.
 *
 * Arguments: the operation, what the odd rank does (refuse, skip, free), which rank that is (first, last), whether the communicator was used before (used, new), who comes late
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
    default: return MPI_Comm_split(comm, n < 0 ? -77 : 0, 0, &new);
    }
}

enum { OPERATIONS = 15 };

/* Whether every other rank needs the odd one. */
static int needs_all(int which) { return which == 0 || which == 3 || which == 4 || which == 8 || which == 9 || which == 11 || which == 13 || which == 14; }

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 7);
    int which = atoi(argv[1]), n = atoi(argv[2]), code;
    int refuses = !strcmp(argv[3], "refuse"), frees = !strcmp(argv[3], "free"), odd = !strcmp(argv[4], "first") ? 0 : size - 1, to = (odd + 1) % size;
    CHECK(which < OPERATIONS && n <= LONG && size <= 64);
    comm = MPI_COMM_WORLD;
    if (frees) OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; !strcmp(argv[5], "used") && i < 5; i++) OK(MPI_Barrier(comm));
    if (which == 6 || which == 1) to = odd;
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
            CHECK(strstr(text, expected));
            if (refuses || frees) CHECK(class == (which == 14 ? MPI_ERR_ARG : MPI_ERR_COUNT) || class == MPI_ERR_NOT_SAME);
        }
    } else if (refuses || frees) {
        CHECK(call(which, -1, to) != MPI_SUCCESS);
    }
    if (frees) OK(MPI_Comm_free(&comm));
    OK(MPI_Finalize());
    return 0;
}
