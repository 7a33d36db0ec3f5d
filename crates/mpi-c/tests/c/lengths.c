/* Collective operations that one rank calls with another length, or that ranks call with arguments that do not fit together: an error that names ranks, calls and lengths at each
 * rank concerned, no byte of a buffer that is changed to what another rank has not sent, and the operations after that work. The communicator's memory for short operations exists
 * by then, or does not. */
#include "check.h"

enum { MOST = 1 << 19 };

static char from[MOST], into[MOST];
static MPI_Comm comm;
/* All operations are done by messages: lengths are not compared before. */
static int by_messages;

/* Errors that these calls may return. */
static int is_told(int code, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int class, len;
    if (code == MPI_SUCCESS) return 0;
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &len));
    if (class != MPI_ERR_TRUNCATE && class != MPI_ERR_NOT_SAME) fprintf(stderr, "rank %d, %s: %s\n", rank, what, text);
    CHECK(class == MPI_ERR_TRUNCATE || class == MPI_ERR_NOT_SAME);
    return 1;
}

static const char *const names[] = {"MPI_Bcast", "MPI_Allreduce", "MPI_Reduce", "MPI_Allgather", "MPI_Alltoall", "MPI_Reduce_scatter", "MPI_Gather", "MPI_Scatter", "MPI_Scan", "MPI_Exscan"};
/* Those behind this one accept shorter messages where they are done by messages, or do not notice longer ones that nobody waits for. */
enum { COMPARED_BY_MESSAGES = 6, CALLS = sizeof names / sizeof *names };

static int call(int which, int n, int root) {
    switch (which) {
    case 0: return MPI_Bcast(rank == root ? from : into, n, MPI_CHAR, root, comm);
    case 1: return MPI_Allreduce(from, into, n, MPI_CHAR, MPI_BOR, comm);
    case 2: return MPI_Reduce(from, into, n, MPI_CHAR, MPI_BOR, root, comm);
    case 3: return MPI_Allgather(from, n, MPI_CHAR, into, n, MPI_CHAR, comm);
    case 4: return MPI_Alltoall(from, n, MPI_CHAR, into, n, MPI_CHAR, comm);
    case 5: return MPI_Reduce_scatter_block(from, into, n, MPI_CHAR, MPI_BOR, comm);
    case 6: return MPI_Gather(from, n, MPI_CHAR, into, n, MPI_CHAR, root, comm);
    case 7: return MPI_Scatter(from, n, MPI_CHAR, into, n, MPI_CHAR, root, comm);
    case 8: return MPI_Scan(from, into, n, MPI_CHAR, MPI_BOR, comm);
    default: return MPI_Exscan(from, into, n, MPI_CHAR, MPI_BOR, comm);
    }
}

/* Whether the rank has to notice by itself that another one has called with another length: it gets data from that one. */
static int must_notice(int which, int n, int root, int odd) {
    /* Blocks of gathers and scatters that are moved by messages may be shorter than their memory. */
    if ((which == 6 && n > (size == 2 ? 4096 : 8192)) || (which == 7 && n * size > 8000)) return 0;
    if (which == 0 || which == 7) return rank == odd ? rank != root : odd == root;
    if (which == 2 || which == 6) return rank == root;
    if (which == 8 || which == 9) return rank == odd ? rank > 0 : rank > odd;
    return 1;
}

/* Waits for all ranks, without a collective operation. */
static void meet(void) {
    for (int other = 1; other < size; other++) {
        if (rank == 0) OK(MPI_Recv(NULL, 0, MPI_INT, other, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (rank == other) OK(MPI_Send(NULL, 0, MPI_INT, 0, 77, MPI_COMM_WORLD));
    }
    for (int other = 1; other < size; other++) {
        if (rank == 0) OK(MPI_Send(NULL, 0, MPI_INT, other, 78, MPI_COMM_WORLD));
        if (rank == other) OK(MPI_Recv(NULL, 0, MPI_INT, 0, 78, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
}

/* Blocks with counts for each process: the odd rank sends more, or fewer, than its receivers expect. More is an error of a receiver, and fewer are what they are. */
static void uneven(int which, int n, int others, int odd, int root) {
    int counts[64], at[64], theirs[64];
    CHECK(size <= 64);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 5; i++) OK(MPI_Barrier(comm));
    memset(from, 1, sizeof from);
    memset(into, 7, sizeof into);
    for (int r = 0; r < size; r++) {
        counts[r] = n, at[r] = r * (n + 5);
        theirs[r] = rank == odd && r != rank ? others : n;
    }
    int code, receives = 1, mine = rank == odd && rank != root ? others : n;
    if (which == 0) {
        receives = rank == root && odd != root;
        code = MPI_Gatherv(from, mine, MPI_CHAR, into, counts, at, MPI_CHAR, root, comm);
    } else if (which == 1) {
        receives = rank != root && odd == root;
        code = MPI_Scatterv(from, theirs, at, MPI_CHAR, into, n, MPI_CHAR, root, comm);
    } else {
        receives = rank != odd;
        code = MPI_Alltoallv(from, theirs, at, MPI_CHAR, into, counts, at, MPI_CHAR, comm);
    }
    int told = is_told(code, "counts");
    if (receives) CHECK(told == (others > n));
    int end = which == 1 ? n : size * (n + 5);
    for (int i = 0; i < MOST; i++) {
        int is_gap = i >= end || (which != 1 && i % (n + 5) >= n);
        CHECK(into[i] == 7 || (into[i] == 1 && !is_gap));
    }
    meet();
    meet();
    OK(MPI_Comm_free(&comm));
}

/* An operation behind fails, or has the right result; those that begin when all have noticed work. */
static void recovers(void) {
    int value = 1, sum = 0;
    meet();
    int code = MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (code == MPI_SUCCESS) CHECK(sum == size);
    meet();
    for (int i = 0; i < 3; i++) {
        OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK(sum == size);
        OK(MPI_Barrier(comm));
    }
}

/* All ranks call with n bytes, and the odd one with others. */
static void differ(int which, int n, int others, int odd, int root, int is_warm) {
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; is_warm && i < 5; i++) OK(MPI_Barrier(comm));
    memset(from, 1, sizeof from);
    memset(into, 7, sizeof into);
    int mine = rank == odd ? others : n;
    int told = is_told(call(which, mine, root), names[which]);
    if (!told && must_notice(which, n < others ? n : others, root, odd)) fprintf(stderr, "rank %d: %s of %d, and %d of rank %d, root %d, warm %d\n", rank, names[which], n, others, odd, root, is_warm);
    CHECK(told || !must_notice(which, n < others ? n : others, root, odd));
    for (int i = 0; i < MOST; i++) CHECK(into[i] == 7 || into[i] == 1);
    recovers();
    OK(MPI_Comm_free(&comm));
}

/* A communicator that has memory for short operations. */
static void fresh(void) {
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 5; i++) OK(MPI_Barrier(comm));
}

/* The class of an error that every rank gets. */
static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

/* Calls that all ranks refuse, and calls that differ in other things than lengths. */
static void others(void) {
    int *parts = calloc((size_t)size, sizeof *parts), is_odd = rank == 1;
    /* All ranks refuse: the operations behind work. */
    fresh();
    for (int i = 0; i < 40; i++) {
        int sum = 0, value = 1;
        CHECK(class_of(MPI_Bcast(from, 4, MPI_CHAR, size, comm)) == MPI_ERR_ROOT);
        if (i % 8 < 3) CHECK(class_of(MPI_Allreduce(from, into, -1, MPI_CHAR, MPI_BOR, comm)) == MPI_ERR_COUNT);
        OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK(sum == size);
    }
    OK(MPI_Comm_free(&comm));
    /* Other parts, of the same sum; another operation, also one of the program's. */
    fresh();
    parts[rank == 1] = 1000, parts[rank != 1] = 3000;
    int code = MPI_Reduce_scatter(from, into, parts, MPI_CHAR, MPI_BOR, comm);
    if (!by_messages) CHECK(class_of(code) == MPI_ERR_NOT_SAME);
    recovers();
    OK(MPI_Comm_free(&comm));
    fresh();
    if (!by_messages) CHECK(class_of(MPI_Allreduce(from, into, 4, MPI_CHAR, is_odd ? MPI_BAND : MPI_BOR, comm)) == MPI_ERR_NOT_SAME);
    recovers();
    OK(MPI_Comm_free(&comm));
    free(parts);
}

int main(int argc, char **argv) {
    static const int lengths[][2] = {{4, 8}, {8, 4}, {40, 60}, {8192, 12288}, {8000, 9000}, {12288, 100}, {100, 20000}, {6000, 60000}, {60000, 6000}, {40000, 60000}};
    begin(&argc, &argv);
    by_messages = argc > 1;
    if (size == 1) {
        OK(MPI_Finalize());
        return 0;
    }
    /* Roots are ahead of the others by some operations. */
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    for (int i = 0; i < 5; i++) OK(MPI_Barrier(comm));
    int failed = 0;
    for (int i = 0; i < 6; i++) failed += is_told(call(0, rank == size - 1 && i == 2 ? 8 : 4, 0), "ahead");
    if (rank == size - 1 && !by_messages) CHECK(failed >= 1);
    recovers();
    OK(MPI_Comm_free(&comm));
    for (int which = 0; which < 3; which++)
        for (unsigned i = 1; i < sizeof lengths / sizeof *lengths && !by_messages; i += 2)
            for (int odd = 0; odd < size; odd += size - 1)
                for (int root = 0; root < 2; root++) uneven(which, lengths[i][0], lengths[i][1], odd, root);
    for (int which = 0; which < (by_messages ? COMPARED_BY_MESSAGES : CALLS); which++)
        for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i += which < COMPARED_BY_MESSAGES ? 1 : 2)
            for (int odd = 0; odd < size; odd += size - 1)
                for (int root = 0; root < (which == 0 || which == 2 || which == 6 || which == 7 ? 2 : 1); root++)
                    for (int is_warm = which >= COMPARED_BY_MESSAGES; is_warm < 2 - by_messages; is_warm++) differ(which, lengths[i][0], lengths[i][1], odd, root, is_warm);
    others();
    OK(MPI_Finalize());
    return 0;
}
