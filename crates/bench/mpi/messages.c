/* Messages between two ranks, and from several to one. */
#include "bench.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 16 << 20, COMPUTING_US = 500, THREADS = 4, THREADS_WINDOW = 64 };
enum { PIECE = 64, PIECES_BYTES = 1 << 20, BOX = 64, WHOLE = 128 };

static void latency(struct work *work, long rounds)
{
    for (long i = 0; i < rounds; i++)
        if (rank == 0) {
            MPI_Send(work->from, work->count, work->type, 1, 1, MPI_COMM_WORLD);
            MPI_Recv(work->into, work->count, work->type, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Recv(work->into, work->count, work->type, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(work->from, work->count, work->type, 0, 1, MPI_COMM_WORLD);
        }
}

/* Windows of messages from each rank of `senders` to each of `receivers`, by bits of 1 for rank 0 and 2 for rank 1; then an
 * empty message back from each receiver. */
static void windows(struct work *work, long rounds, int senders, int receivers)
{
    int mine = 1 << rank, other = 1 - rank, count = (int)work->size;
    if (rank > 1)
        return;
    for (long i = 0; i < rounds; i++) {
        int posted = 0;
        for (int j = 0; j < work->window && mine & receivers; j++)
            MPI_Irecv(work->into, count, MPI_BYTE, other, 2, MPI_COMM_WORLD, &work->requests[posted++]);
        for (int j = 0; j < work->window && mine & senders; j++)
            MPI_Isend(work->from, count, MPI_BYTE, other, 2, MPI_COMM_WORLD, &work->requests[posted++]);
        MPI_Waitall(posted, work->requests, MPI_STATUSES_IGNORE);
        if (mine & receivers)
            MPI_Send(NULL, 0, MPI_BYTE, other, 3, MPI_COMM_WORLD);
        if (mine & senders)
            MPI_Recv(NULL, 0, MPI_BYTE, other, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void one_way(struct work *work, long rounds)
{
    windows(work, rounds, 1, 2);
}

static void both_ways(struct work *work, long rounds)
{
    windows(work, rounds, 3, 3);
}

/* Every other rank sends a window to rank 0, which takes whatever comes. */
static void any_source(struct work *work, long rounds)
{
    for (long i = 0; i < rounds; i++) {
        if (rank == 0) {
            for (int j = 0; j < work->window * (ranks - 1); j++)
                MPI_Recv(work->into, (int)work->size, MPI_BYTE, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int r = 1; r < ranks; r++)
                MPI_Send(NULL, 0, MPI_BYTE, r, 5, MPI_COMM_WORLD);
        } else {
            for (int j = 0; j < work->window; j++)
                MPI_Send(work->from, (int)work->size, MPI_BYTE, 0, 4, MPI_COMM_WORLD);
            MPI_Recv(NULL, 0, MPI_BYTE, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
    }
}

static void compute(double seconds)
{
    for (double until = now() + seconds; now() < until;)
        ;
}

/* An exchange between ranks 0 and 1, with computing behind it if `work->window` requests it. */
static void exchange(struct work *work, long rounds)
{
    int other = 1 - rank;
    if (rank > 1)
        return;
    for (long i = 0; i < rounds; i++) {
        MPI_Irecv(work->into, (int)work->size, MPI_BYTE, other, 6, MPI_COMM_WORLD, &work->requests[0]);
        MPI_Isend(work->from, (int)work->size, MPI_BYTE, other, 6, MPI_COMM_WORLD, &work->requests[1]);
        if (work->window)
            compute(COMPUTING_US * 1e-6);
        MPI_Waitall(2, work->requests, MPI_STATUSES_IGNORE);
    }
}

static void bytes_of(struct work *work)
{
    work->type = MPI_BYTE;
    work->count = (int)work->size;
}

/* Known content, once before anything is timed. */
static void check_message(struct work *work)
{
    size_t bytes = work->size;
    if (rank > 1)
        return;
    for (size_t i = 0; i < bytes; i++)
        work->from[i] = (char)(i * 7 + i / 251 + (size_t)rank);
    MPI_Sendrecv(work->from, (int)bytes, MPI_BYTE, 1 - rank, 7, work->into, (int)bytes, MPI_BYTE, 1 - rank, 7,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (size_t i = 0; i < bytes; i++)
        if (work->into[i] != (char)(i * 7 + i / 251 + (size_t)(1 - rank)))
            fail("a wrong byte has arrived");
}

void run_latency(struct work *work)
{
    bytes_of(work);
    check_message(work);
    print("latency", work->size, "latency_us", measure(latency, work) * 1e6 / 2);
}

static void run_windows(struct work *work, const char *name, body *body, int ways)
{
    size_t window = WINDOW_BYTES / (work->size ? work->size : 1);
    work->window = window < 4 ? 4 : window > MOST_WINDOW ? MOST_WINDOW : (int)window;
    double rate = work->window * ways / measure(body, work);
    if (work->size)
        print(name, work->size, "bandwidth_mb_s", rate * (double)work->size / 1e6);
    if (ways == 1 && work->size <= 4096)
        print("rate", work->size, "rate_per_s", rate);
}

void run_bandwidth(struct work *work)
{
    run_windows(work, "bandwidth", one_way, 1);
}

void run_bidirectional(struct work *work)
{
    run_windows(work, "bidirectional", both_ways, 2);
}

void run_any_source(struct work *work)
{
    char name[64];
    work->window = MOST_WINDOW;
    snprintf(name, sizeof name, "any-source/%d-senders", ranks - 1);
    print(name, work->size, "rate_per_s", work->window * (ranks - 1) / measure(any_source, work));
}

/* Sends what the datatype describes from one rank to the other once, and looks at every byte of what has arrived. */
static void check_pieces(struct work *work, size_t bytes, int (*is_part)(size_t at))
{
    for (size_t i = 0; i < bytes; i++) {
        work->from[i] = (char)(i * 13 + i / 127);
        work->into[i] = 0;
    }
    latency(work, 1);
    for (size_t i = 0; i < bytes && rank < 2; i++)
        if (work->into[i] != (is_part(i) ? (char)(i * 13 + i / 127) : 0))
            fail("a wrong byte has arrived among the pieces");
}

static int is_of_vector(size_t at)
{
    return at % (2 * PIECE) < PIECE;
}

static int is_of_box(size_t at)
{
    size_t element = at / sizeof(double);
    for (int dimension = 0; dimension < 3; dimension++, element /= WHOLE)
        if (element % WHOLE < BOX / 2 || element % WHOLE >= BOX / 2 + BOX)
            return 0;
    return 1;
}

/* Room of another size than that of a message. */
static void replace_room(struct work *work, size_t bytes)
{
    free(work->from);
    free(work->into);
    work->from = room(bytes);
    work->into = room(bytes);
}

void run_vector(struct work *work)
{
    replace_room(work, 2 * PIECES_BYTES);
    work->count = 1;
    MPI_Type_vector(PIECES_BYTES / PIECE, PIECE, 2 * PIECE, MPI_BYTE, &work->type);
    MPI_Type_commit(&work->type);
    check_pieces(work, 2 * PIECES_BYTES - PIECE, is_of_vector);
    print("vector", PIECES_BYTES, "latency_us", measure(latency, work) * 1e6 / 2);
    MPI_Type_free(&work->type);
}

void run_subarray(struct work *work)
{
    replace_room(work, (size_t)WHOLE * WHOLE * WHOLE * sizeof(double));
    int whole[3] = {WHOLE, WHOLE, WHOLE}, part[3] = {BOX, BOX, BOX}, start[3] = {BOX / 2, BOX / 2, BOX / 2};
    work->count = 1;
    MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, MPI_DOUBLE, &work->type);
    MPI_Type_commit(&work->type);
    check_pieces(work, (size_t)WHOLE * WHOLE * WHOLE * sizeof(double), is_of_box);
    print("subarray", BOX * BOX * BOX * sizeof(double), "latency_us", measure(latency, work) * 1e6 / 2);
    MPI_Type_free(&work->type);
}

void run_overlap(struct work *work)
{
    work->window = 0;
    double alone = measure(exchange, work);
    work->window = 1;
    double behind = measure(exchange, work);
    double hidden = (alone + COMPUTING_US * 1e-6 - behind) / alone;
    print("overlap", work->size, "ratio", hidden < 0 ? 0 : hidden);
}

/* One of the threads of a rank: rank 0 sends windows of messages of the thread's own tag, rank 1 receives them. */
struct thread {
    struct work *work;
    long rounds;
    int tag;
};

static void *send_or_receive(void *argument)
{
    struct thread *thread = argument;
    int count = (int)thread->work->size, other = 1 - rank, tag = thread->tag;
    char room[64];
    MPI_Request requests[THREADS_WINDOW];
    memset(room, 1, sizeof room);
    for (long i = 0; i < thread->rounds; i++) {
        for (int j = 0; j < THREADS_WINDOW; j++)
            if (rank == 0)
                MPI_Isend(room, count, MPI_BYTE, other, tag, MPI_COMM_WORLD, &requests[j]);
            else
                MPI_Irecv(room, count, MPI_BYTE, other, tag, MPI_COMM_WORLD, &requests[j]);
        MPI_Waitall(THREADS_WINDOW, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(NULL, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(NULL, 0, MPI_BYTE, other, tag, MPI_COMM_WORLD);
    }
    return NULL;
}

static void by_threads(struct work *work, long rounds)
{
    pthread_t threads[THREADS];
    struct thread arguments[THREADS];
    for (int i = 0; i < THREADS; i++) {
        arguments[i] = (struct thread){work, rounds, 10 + i};
        if (pthread_create(&threads[i], NULL, send_or_receive, &arguments[i]) != 0)
            fail("a thread cannot be started");
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

void run_threads(struct work *work)
{
    if (work->size > 64)
        fail("the messages of threads have at most 64 bytes");
    print("rate/4-threads", work->size, "rate_per_s", THREADS * THREADS_WINDOW / measure(by_threads, work));
}
