/* Messages whose datatypes have gaps: every kind of memory on either side, all sizes, however they are sent, received, probed and
 * cancelled; and one side that dies in the middle. */
#include "check.h"
#include <signal.h>

enum { KINDS = 5, PIECES = 5, MOST = 3 << 20, TAG = 17 };
static const int piece_lens[PIECES] = {1, 1000, 33, 5000, 12};

static int partner(void) { return rank % 2 == 0 ? (rank + 1 < size ? rank + 1 : rank) : rank - 1; }

/* Where byte `at` of `bytes` lies: in one piece, in short and very short ones at regular distances, in pieces of odd lengths, in
 * pages that come in the opposite order. */
static size_t place(int kind, size_t at, size_t bytes) {
    enum { PAGE = 4096 };
    if (kind == 1) return at / 64 * 128 + at % 64;
    if (kind == 2) return at / 8 * 24 + at % 8;
    if (kind == 3) {
        size_t turn, piece = 0, whole = 0;
        for (int i = 0; i < PIECES; i++) whole += (size_t)piece_lens[i];
        turn = at / whole * PIECES;
        for (at %= whole; at >= (size_t)piece_lens[piece]; piece++) at -= (size_t)piece_lens[piece];
        return (turn + piece) * 5007 + at;
    }
    if (kind == 4) return (bytes / PAGE - at / PAGE) * (PAGE + 8) + at % PAGE;
    return at;
}

static size_t room(int kind, size_t bytes) {
    static const size_t far[KINDS] = {1, 2, 3, 5, 2};
    return bytes * far[kind] + 65536;
}

/* The datatype of which one element is that memory. */
static MPI_Datatype type_of(int kind, size_t bytes) {
    MPI_Datatype type;
    if (kind == 0 || bytes == 0) {
        OK(MPI_Type_contiguous((int)bytes, MPI_BYTE, &type));
    } else if (kind == 1) {
        OK(MPI_Type_vector((int)bytes / 64, 64, 128, MPI_BYTE, &type));
    } else if (kind == 2) {
        OK(MPI_Type_vector((int)bytes / 8, 1, 3, MPI_DOUBLE, &type));
    } else {
        int many = 0, *lens = malloc((bytes / 8 + 16) * sizeof *lens);
        MPI_Aint *places = malloc((bytes / 8 + 16) * sizeof *places);
        for (size_t at = 0; at < bytes; at += (size_t)lens[many++]) {
            size_t len = kind == 3 ? (size_t)piece_lens[many % PIECES] : 4096;
            lens[many] = (int)(len < bytes - at ? len : bytes - at);
            places[many] = (MPI_Aint)place(kind, at, bytes);
        }
        OK(MPI_Type_create_hindexed(many, lens, places, MPI_BYTE, &type));
        free(lens);
        free(places);
    }
    OK(MPI_Type_commit(&type));
    return type;
}

static char value(size_t at, int seed) { return (char)(at * 31 + at / 257 + (size_t)seed); }

static char *filled(int kind, size_t bytes, int seed) {
    char *memory = malloc(room(kind, bytes));
    memset(memory, 0x5a, room(kind, bytes));
    for (size_t at = 0; at < bytes; at++) memory[place(kind, at, bytes)] = value(at, seed);
    return memory;
}

static char *empty(int kind, size_t bytes) {
    char *memory = malloc(room(kind, bytes));
    memset(memory, 0x5a, room(kind, bytes));
    return memory;
}

/* The first `got` bytes are those that were sent, and nothing else has changed. */
static int is_right(const char *memory, int kind, size_t bytes, size_t got, int seed) {
    char *expected = empty(kind, bytes);
    for (size_t at = 0; at < got; at++) expected[place(kind, at, bytes)] = value(at, seed);
    int same = memcmp(memory, expected, room(kind, bytes)) == 0;
    free(expected);
    return same;
}

static int bytes_in(MPI_Status *status) {
    int count;
    OK(MPI_Get_count(status, MPI_BYTE, &count));
    return count;
}

/* Both ways at once. */
static void exchange(int from, int to, size_t bytes) {
    int there = partner();
    char *out = filled(from, bytes, rank), *in = empty(to, bytes);
    MPI_Datatype out_type = type_of(from, bytes), in_type = type_of(to, bytes);
    MPI_Request requests[2];
    MPI_Status statuses[2];
    OK(MPI_Irecv(in, 1, in_type, bytes % 3 ? there : MPI_ANY_SOURCE, bytes % 5 ? TAG : MPI_ANY_TAG, MPI_COMM_WORLD,
                 &requests[0]));
    OK(MPI_Isend(out, 1, out_type, there, TAG, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, statuses));
    CHECK(statuses[0].MPI_SOURCE == there && statuses[0].MPI_TAG == TAG);
    CHECK(bytes_in(&statuses[0]) == (int)bytes);
    CHECK(is_right(in, to, bytes, bytes, there));
    CHECK(is_right(out, from, bytes, bytes, rank));
    OK(MPI_Type_free(&out_type));
    OK(MPI_Type_free(&in_type));
    free(out);
    free(in);
}

static void exchanges(void) {
    static const size_t sizes[] = {0, 64, 4096, 16384, 16448, 131136, 1 << 20};
    for (int from = 0; from < KINDS; from++)
        for (int to = 0; to < KINDS; to++)
            for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++)
                if (sizes[k] <= 131136 || from + to == 3) exchange(from, to, sizes[k]);
    exchange(1, 2, MOST);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* One message of `bytes` for a receive with room for `has`, found in different ways. */
static void one_way(int from, int to, size_t bytes, size_t has, int way) {
    int there = partner(), class = MPI_SUCCESS;
    MPI_Datatype out_type = type_of(from, bytes), in_type = type_of(to, has);
    if (there == rank) {
        /* Alone. */
    } else if (rank % 2 == 0) {
        char *out = filled(from, bytes, rank);
        MPI_Request request;
        if (way == 0) {
            OK(MPI_Ssend(out, 1, out_type, there, TAG, MPI_COMM_WORLD));
        } else {
            OK(MPI_Send_init(out, 1, out_type, there, TAG, MPI_COMM_WORLD, &request));
            OK(MPI_Start(&request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            OK(MPI_Request_free(&request));
        }
        free(out);
    } else {
        char *in = empty(to, has);
        MPI_Status status;
        MPI_Message message;
        int code;
        if (way == 2) {
            OK(MPI_Mprobe(MPI_ANY_SOURCE, TAG, MPI_COMM_WORLD, &message, &status));
            CHECK(bytes_in(&status) == (int)bytes);
            code = MPI_Mrecv(in, 1, in_type, &message, &status);
        } else {
            if (way == 1) {
                OK(MPI_Probe(there, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
                CHECK(bytes_in(&status) == (int)bytes);
            }
            code = MPI_Recv(in, 1, in_type, there, TAG, MPI_COMM_WORLD, &status);
        }
        OK(MPI_Error_class(code, &class));
        CHECK(class == (bytes > has ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
        if (bytes <= has) {
            CHECK(bytes_in(&status) == (int)bytes && status.MPI_SOURCE == there);
            /* In memory whose pages come backwards, the first bytes lie elsewhere. */
            if (to != 4 || bytes == has) CHECK(is_right(in, to, has, bytes, there));
        }
        free(in);
    }
    OK(MPI_Type_free(&out_type));
    OK(MPI_Type_free(&in_type));
}

static void sizes_that_differ(void) {
    for (int from = 0; from < KINDS; from++)
        for (int to = 0; to < KINDS; to++)
            for (int way = 0; way < 3; way++) {
                one_way(from, to, 64 * (size_t)(way + 3), 4096, way);
                one_way(from, to, 65536, 131072, way);
                one_way(from, to, 131072, 65536, way);
                one_way(from, to, 131072, 64, way);
                one_way(from, to, 131072, 0, way);
            }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Many at once, of all kinds, between all ranks. */
static void many(void) {
    enum { EACH = 2, BYTES = 81920 };
    int messages = size * KINDS * EACH, next = 0;
    MPI_Request *requests = malloc((size_t)messages * 2 * sizeof *requests);
    char **in = malloc((size_t)messages * sizeof *in), **out = malloc((size_t)messages * sizeof *out);
    MPI_Datatype types[KINDS];
    for (int kind = 0; kind < KINDS; kind++) types[kind] = type_of(kind, BYTES);
    for (int other = 0; other < size; other++)
        for (int i = 0; i < KINDS * EACH; i++, next++) {
            int to = (i * 3 + 1) % KINDS, from = i % KINDS;
            in[next] = empty(to, BYTES);
            out[next] = filled(from, BYTES, rank + i);
            OK(MPI_Irecv(in[next], 1, types[to], other, i, MPI_COMM_WORLD, &requests[next]));
            OK(MPI_Isend(out[next], 1, types[from], other, i, MPI_COMM_WORLD, &requests[messages + next]));
        }
    OK(MPI_Waitall(messages * 2, requests, MPI_STATUSES_IGNORE));
    for (next = 0; next < messages; next++) {
        int other = next / (KINDS * EACH), i = next % (KINDS * EACH);
        CHECK(is_right(in[next], (i * 3 + 1) % KINDS, BYTES, BYTES, other + i));
        free(in[next]);
        free(out[next]);
    }
    for (int kind = 0; kind < KINDS; kind++) OK(MPI_Type_free(&types[kind]));
    free(requests);
    free(in);
    free(out);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* A cancelled receive and a cancelled send have no effect, and messages behind them arrive. */
static void cancelled(void) {
    enum { BYTES = 1 << 18 };
    int there = partner(), flag;
    MPI_Datatype type = type_of(2, BYTES);
    MPI_Request request;
    MPI_Status status;
    char *memory = filled(2, BYTES, rank);
    OK(MPI_Irecv(memory, 1, type, there, TAG + 1, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag && is_right(memory, 2, BYTES, BYTES, rank));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Isend(memory, 1, type, there, TAG + 1, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Iprobe(there, TAG + 1, MPI_COMM_WORLD, &flag, &status));
    CHECK(!flag);
    OK(MPI_Type_free(&type));
    free(memory);
    exchange(2, 1, 1 << 18);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Rank 1 dies when it has sent, or received, some of a message. */
static int die(int sends) {
    enum { BYTES = 1 << 25 };
    MPI_Datatype type = type_of(2, BYTES);
    char *memory = filled(2, BYTES, rank);
    int class, len, flag, code;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Request request;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 1) {
        if (sends) OK(MPI_Isend(memory, 1, type, 0, TAG, MPI_COMM_WORLD, &request));
        else OK(MPI_Irecv(memory, 1, type, 0, TAG, MPI_COMM_WORLD, &request));
        /* Until some bytes have arrived, or for some calls in which bytes may have left. */
        for (int i = 0; sends ? i < 3 : memory[0] == value(0, 1); i++)
            OK(MPI_Test(&request, &flag, MPI_STATUS_IGNORE));
        raise(SIGKILL);
    }
    if (sends) {
        code = MPI_Recv(memory, 1, type, 1, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        code = MPI_Send(memory, 1, type, 1, TAG, MPI_COMM_WORLD);
    }
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &len));
    printf("rank %d is told: %s\n", rank, text);
    fflush(stdout);
    CHECK(class == MPI_ERR_PROC_ABORTED && strstr(text, "rank 1"));
    return 3;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (argc > 1) return die(strcmp(argv[1], "sender-dies") == 0);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    exchanges();
    sizes_that_differ();
    many();
    cancelled();
    OK(MPI_Finalize());
    return 0;
}
