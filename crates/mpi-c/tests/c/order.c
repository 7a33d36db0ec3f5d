/* Which message each receive gets, against the rules (MPI 5.0 §3.5): of each sender the oldest that it matches, and an older
 * receive before a younger one. Rank 0 receives, with all kinds of patterns, by MPI_Recv, by MPI_Irecv and behind MPI_Iprobe;
 * whether messages are there before their receives changes with chance. */
#include "check.h"
#include <unistd.h>

enum { TAGS = 3, MANY = 300, LARGEST = 20000, SEEDS = 8 };

struct message {
    int tag, count, is_taken;
};

static MPI_Comm comm;
/* Of every other seed it is so small that blocking receives need not be posted (16 KiB). */
static int largest;
/* What each rank sends, in order. */
static struct message *sent;

static unsigned state;

static int below(int limit) {
    state = state * 1103515245u + 12345u;
    return (int)((state >> 8) % (unsigned)limit);
}

static struct message *message(int of, int nth) {
    return &sent[of * MANY + nth];
}

/* The same list on all ranks: mostly short messages, some that travel in other ways. */
static void make_list(unsigned seed) {
    state = seed;
    for (int i = 0; i < size * MANY; i++) {
        int kind = below(12);
        sent[i] = (struct message){below(TAGS), kind == 0 ? largest : kind < 3 ? 600 : 2 + below(6), 0};
    }
}

static void send_all(void) {
    MPI_Request requests[MANY];
    int *data = malloc((size_t)MANY * LARGEST * sizeof(int));
    CHECK(data);
    for (int i = 0; i < MANY; i++) {
        struct message *one = message(rank, i);
        int *from = data + (size_t)i * LARGEST;
        from[0] = rank, from[1] = i, from[one->count - 1] = one->count > 2 ? i * 5 : i;
        if (below(8) == 0)
            OK(MPI_Issend(from, one->count, MPI_INT, 0, one->tag, comm, &requests[i]));
        else
            OK(MPI_Isend(from, one->count, MPI_INT, 0, one->tag, comm, &requests[i]));
        if (below(40) == 0) usleep(below(300));
    }
    OK(MPI_Waitall(MANY, requests, MPI_STATUSES_IGNORE));
    free(data);
}

/* The oldest message of a sender with this tag, or any, that no receive has got; -1 if there is none. */
static int oldest(int of, int tag) {
    for (int i = 0; i < MANY; i++)
        if (!message(of, i)->is_taken && (tag == MPI_ANY_TAG || message(of, i)->tag == tag)) return i;
    return -1;
}

/* A receive: its pattern, its room, and its message. */
struct receive {
    int source, tag, room, *into;
    MPI_Request request;
    MPI_Status status;
};

/* Chooses a pattern that some message will match beside those that the `other` one may get. */
static int choose(struct receive *made, const struct receive *other) {
    made->source = below(2) ? MPI_ANY_SOURCE : 1 + below(size - 1);
    made->tag = below(2) ? MPI_ANY_TAG : below(TAGS);
    /* A failed receive need not name the sender of its message. */
    made->room = made->source != MPI_ANY_SOURCE && below(5) == 0 ? 1 + below(largest) : largest;
    int left = 0;
    for (int r = 1; r < size; r++)
        for (int i = 0; i < MANY; i++) {
            struct message *one = message(r, i);
            int source_fits = made->source == MPI_ANY_SOURCE || made->source == r;
            left += !one->is_taken && source_fits && (made->tag == MPI_ANY_TAG || made->tag == one->tag);
        }
    return left > (other ? 1 : 0);
}

static void verify(struct receive *done, int code) {
    int class, count, source = code == MPI_SUCCESS ? done->status.MPI_SOURCE : done->source;
    OK(MPI_Error_class(code, &class));
    CHECK(source > 0 && source < size && (done->source == MPI_ANY_SOURCE || done->source == source));
    int nth = oldest(source, done->tag);
    CHECK(nth >= 0);
    struct message *one = message(source, nth);
    one->is_taken = 1;
    if (one->count > done->room) {
        CHECK(class == MPI_ERR_TRUNCATE);
        return;
    }
    CHECK(class == MPI_SUCCESS && done->status.MPI_TAG == one->tag);
    OK(MPI_Get_count(&done->status, MPI_INT, &count));
    CHECK(count == one->count && done->into[0] == source && done->into[1] == nth);
    CHECK(one->count == 2 || done->into[count - 1] == nth * 5);
}

static void receive_all(void) {
    struct receive first = {0}, second = {0};
    int left = (size - 1) * MANY, flag;
    first.into = malloc(LARGEST * sizeof(int)), second.into = malloc(LARGEST * sizeof(int));
    CHECK(first.into && second.into);
    while (left > 0) {
        if (below(20) == 0) usleep(below(500));
        /* Now and then messages that have arrived are probed, and then held by the library. */
        if (below(10) == 0) OK(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &flag, MPI_STATUS_IGNORE));
        if (!choose(&first, NULL)) continue;
        if (below(3) > 0) {
            int code = MPI_Recv(first.into, first.room, MPI_INT, first.source, first.tag, comm, &first.status);
            verify(&first, code);
            left--;
            continue;
        }
        if (!choose(&second, &first)) continue;
        OK(MPI_Irecv(first.into, first.room, MPI_INT, first.source, first.tag, comm, &first.request));
        int code = MPI_Recv(second.into, second.room, MPI_INT, second.source, second.tag, comm, &second.status);
        verify(&first, MPI_Wait(&first.request, &first.status));
        verify(&second, code);
        left -= 2;
    }
    free(first.into), free(second.into);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    unsigned first = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
    sent = malloc((size_t)size * MANY * sizeof *sent);
    CHECK(sent);
    for (unsigned seed = first; seed < first + SEEDS; seed++) {
        largest = seed % 2 ? 4000 : LARGEST;
        make_list(seed);
        state += (unsigned)rank * 7919u;
        if (rank == 0 && size > 1)
            receive_all();
        else if (rank > 0)
            send_all();
        OK(MPI_Barrier(comm));
    }
    free(sent);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Finalize());
    return 0;
}
