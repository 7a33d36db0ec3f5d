/*
 * The patterns of `causeway bench compare` over MPI, for whichever MPI's compiler builds this file.
 *
 *   mpi CPUS latency SIZE:ROUNDS:SAMPLES...  half round trips between ranks 0 and 1, and the 99th percentile
 *                                            of SAMPLES of them that are timed one by one
 *   mpi CPUS exchange SIZE:ROUNDS:MILLISECONDS:LEAD:FOLLOW...
 *                                            round trips that are timed one by one; before it sends,
 *                                            rank 0 does LEAD and rank 1 FOLLOW: nothing (n), sleep (s1000) or
 *                                            compute (c50) for this many microseconds
 *   mpi CPUS stream SIZE:WINDOW:ROUNDS...    windows of messages from rank 0 to rank 1, each acknowledged
 *   mpi CPUS ring MILLISECONDS PAUSE_MS      a token passed round all ranks, then one pause
 *   mpi CPUS load SIZE MILLISECONDS          rank 0 replies to all others with SIZE bytes
 *
 * CPUS is a list: rank r binds itself to entry r, ranks beyond the list to its last entry. An entry is
 * a processor or several, as in 0,1 (each its own) or 0/1 (both for all ranks). Results are lines of
 * JSON on the standard output of rank 0; anything else on it is the launcher's. Every pattern and
 * size is checked with known content, and a wrong byte ends the job.
 *
 * The rounds of latency and stream are cut into up to 40 parts and the median part counts for all,
 * exactly as in our own measurements. An exchange is the same as in `messages/exchange.rs` over our own message
 * layer: the time of rank 1's work in between is subtracted, and rank 0 ends it when its time is over, which
 * takes messages of at least 8 bytes.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { ECHO = 1, WINDOW = 2, ACK = 3, REQUEST = 4, REPLY = 5, EXCHANGE = 6 };
enum { PARTS = 40, WARM_UP_ROUNDS = 50, WARM_UP_EXCHANGES = 10, WORD_BYTES = 8 };

static int rank, ranks;

static void fail(const char *what)
{
    fprintf(stderr, "mpi: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

/* Before MPI_Init, so that the library sees where it runs: launchers pass ranks in the environment. */
static void bind_to_cpu(const char *list)
{
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"};
    const char *text = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !text; i++)
        text = getenv(names[i]);
    int my_rank = text ? atoi(text) : 0;

    cpu_set_t set;
    CPU_ZERO(&set);
    for (int entry = 0; *list; list++) {
        char *end;
        long cpu = strtol(list, &end, 10);
        if (end == list || cpu < 0 || cpu >= CPU_SETSIZE)
            break;
        CPU_SET(cpu, &set);
        list = end;
        if (*list == ',' && entry++ < my_rank)
            CPU_ZERO(&set);
        else if (*list != '/')
            break;
    }
    if (CPU_COUNT(&set) == 0)
        return;
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        fprintf(stderr, "mpi: rank %d is not bound to a processor\n", my_rank);
}

/* Memory that has been touched, at the start of a page. */
static unsigned char *buffer(size_t size)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, size ? size : 1) != 0)
        fail("out of memory");
    memset(memory, 0, size ? size : 1);
    return memory;
}

static unsigned char content(size_t at)
{
    return (unsigned char)((at * UINT64_C(2654435761)) >> 7);
}

static void fill(unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = content(i);
}

static void verify(const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != content(i))
            fail("what arrived is not what was sent");
}

/* There and back once, compared on both sides. */
static void check(unsigned char *bytes, size_t size)
{
    if (rank == 0) {
        fill(bytes, size);
        MPI_Send(bytes, (int)size, MPI_BYTE, 1, ECHO, MPI_COMM_WORLD);
        memset(bytes, 0, size);
        MPI_Recv(bytes, (int)size, MPI_BYTE, 1, ECHO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        verify(bytes, size);
    } else if (rank == 1) {
        MPI_Recv(bytes, (int)size, MPI_BYTE, 0, ECHO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        verify(bytes, size);
        MPI_Send(bytes, (int)size, MPI_BYTE, 0, ECHO, MPI_COMM_WORLD);
    }
}

struct batches {
    double parts[PARTS + 1];
    long rounds, every, done;
    int count;
    double since;
};

static void batches_start(struct batches *batches, long rounds)
{
    batches->rounds = rounds;
    batches->every = (rounds + PARTS - 1) / PARTS;
    if (batches->every < 1)
        batches->every = 1;
    batches->done = 0;
    batches->count = 0;
    batches->since = now();
}

static inline void batches_round(struct batches *batches)
{
    if (++batches->done == batches->every && batches->count < PARTS) {
        double time = now();
        batches->parts[batches->count++] = time - batches->since;
        batches->since = time;
        batches->done = 0;
    }
}

static int by_value(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Seconds for all rounds, from the median part. */
static double batches_seconds(struct batches *batches)
{
    qsort(batches->parts, (size_t)batches->count, sizeof(double), by_value);
    int middle = batches->count / 2;
    double median = batches->parts[middle];
    if (batches->count % 2 == 0 && middle > 0)
        median = (median + batches->parts[middle - 1]) / 2;
    return median / (double)batches->every * (double)batches->rounds;
}

static double echo_rounds(unsigned char *out, unsigned char *into, int size, long rounds)
{
    struct batches batches;
    batches_start(&batches, rounds);
    for (long round = 0; round < rounds; round++) {
        if (rank == 0) {
            MPI_Send(out, size, MPI_BYTE, 1, ECHO, MPI_COMM_WORLD);
            MPI_Recv(into, size, MPI_BYTE, 1, ECHO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(into, size, MPI_BYTE, 0, ECHO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(out, size, MPI_BYTE, 0, ECHO, MPI_COMM_WORLD);
        }
        batches_round(&batches);
    }
    return batches_seconds(&batches);
}

/* What a rank does before it sends. */
struct between {
    char what;
    long microseconds;
};

static struct between read_between(const char *text)
{
    struct between between = {text[0], text[0] == 'n' ? 0 : atol(text + 1)};
    if (!strchr("nsc", text[0]) || between.microseconds < 0 || between.microseconds > 1000000)
        fail("what a rank does in between is n, sTIME or cTIME");
    return between;
}

static void pass_time(struct between between)
{
    if (between.what == 's') {
        struct timespec time = {between.microseconds / 1000000,
                                between.microseconds % 1000000 * 1000};
        nanosleep(&time, NULL);
    } else if (between.what == 'c') {
        for (double end = now() + (double)between.microseconds * 1e-6; now() < end;)
            ;
    }
}

static double all_cpu_seconds(double since)
{
    double mine = cpu_seconds() - since, all = 0;
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    return all;
}

struct exchange {
    int size;
    long rounds;
    double seconds;
    struct between lead, follow;
};

/* Fills rank 0's times, in microseconds one way; returns the number of rounds. */
static long exchange_rounds(const struct exchange *exchange, unsigned char *out, unsigned char *into,
                            double *times)
{
    int size = exchange->size, has_word = size >= WORD_BYTES;
    uint64_t last = 0, held = 0;
    long rounds = 0;
    double began = now();
    while (!last) {
        if (rank == 0) {
            pass_time(exchange->lead);
            double sent = now();
            last = rounds + 1 == exchange->rounds ||
                   (has_word && exchange->seconds > 0 && sent - began >= exchange->seconds);
            if (has_word)
                memcpy(out, &last, WORD_BYTES);
            MPI_Send(out, size, MPI_BYTE, 1, EXCHANGE, MPI_COMM_WORLD);
            MPI_Recv(into, size, MPI_BYTE, 1, EXCHANGE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            double both_ways = now() - sent;
            if (has_word)
                memcpy(&held, into, WORD_BYTES);
            both_ways -= (double)held * 1e-9;
            times[rounds] = both_ways > 0 ? both_ways * 1e6 / 2 : 0;
        } else {
            MPI_Recv(into, size, MPI_BYTE, 0, EXCHANGE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            last = rounds + 1 == exchange->rounds;
            if (has_word)
                memcpy(&last, into, WORD_BYTES);
            held = 0;
            if (exchange->follow.what != 'n') {
                double came = now();
                pass_time(exchange->follow);
                held = (uint64_t)((now() - came) * 1e9);
            }
            if (has_word)
                memcpy(out, &held, WORD_BYTES);
            MPI_Send(out, size, MPI_BYTE, 0, EXCHANGE, MPI_COMM_WORLD);
        }
        rounds++;
    }
    return rounds;
}

/* What an exchange showed: microseconds, those of the processors for each message. */
struct spread {
    double mean, median, p99, cpu;
};

static struct spread exchange_for(const struct exchange *exchange)
{
    /* Two, as for latency: reading what the sender has just written takes longer. */
    unsigned char *out = buffer((size_t)exchange->size), *into = buffer((size_t)exchange->size);
    double *times = (double *)buffer((size_t)exchange->rounds * sizeof *times);
    struct exchange warm_up = *exchange;
    if (warm_up.rounds > WARM_UP_EXCHANGES)
        warm_up.rounds = WARM_UP_EXCHANGES;
    warm_up.seconds = 0;
    exchange_rounds(&warm_up, out, into, times);
    double used = cpu_seconds();
    long rounds = exchange_rounds(exchange, out, into, times);
    struct spread spread = {0, 0, 0, all_cpu_seconds(used) * 1e6 / (2.0 * (double)rounds)};
    if (rank == 0) {
        qsort(times, (size_t)rounds, sizeof *times, by_value);
        for (long i = 0; i < rounds; i++)
            spread.mean += times[i] / (double)rounds;
        spread.median = (times[(rounds - 1) / 2] + times[rounds / 2]) / 2;
        spread.p99 = times[(rounds * 99 + 99) / 100 - 1];
    }
    free(times);
    free(out);
    free(into);
    return spread;
}

static void exchange(const char *what)
{
    long size, rounds, milliseconds;
    char lead[16], follow[16];
    if (sscanf(what, "%ld:%ld:%ld:%15[^:]:%15s", &size, &rounds, &milliseconds, lead, follow) != 5 ||
        size < 0 || rounds < 1 || milliseconds < 0)
        fail("exchange wants SIZE:ROUNDS:MILLISECONDS:LEAD:FOLLOW");
    struct exchange exchange = {(int)size, rounds, (double)milliseconds / 1e3, read_between(lead),
                                read_between(follow)};
    unsigned char *bytes = buffer((size_t)size);
    check(bytes, (size_t)size);
    free(bytes);
    struct spread spread = exchange_for(&exchange);
    if (rank == 0)
        printf("{\"pattern\":\"exchange\",\"mean_us\":%.6f,\"median_us\":%.6f,\"p99_us\":%.6f,"
               "\"cpu_us\":%.6f}\n",
               spread.mean, spread.median, spread.p99, spread.cpu);
}

static void latency(const char *what)
{
    long size, rounds, samples;
    if (sscanf(what, "%ld:%ld:%ld", &size, &rounds, &samples) != 3 || size < 0 || rounds < 1 ||
        samples < 1)
        fail("latency wants SIZE:ROUNDS:SAMPLES");
    unsigned char *out = buffer((size_t)size), *into = buffer((size_t)size);
    check(out, (size_t)size);
    echo_rounds(out, into, (int)size, rounds < WARM_UP_ROUNDS ? rounds : WARM_UP_ROUNDS);
    double seconds = echo_rounds(out, into, (int)size, rounds);
    struct between nothing = {'n', 0};
    struct exchange exchange = {(int)size, samples, 0, nothing, nothing};
    struct spread spread = exchange_for(&exchange);
    if (rank == 0)
        printf("{\"pattern\":\"latency\",\"size_bytes\":%ld,\"latency_us\":%.6f,\"p99_us\":%.6f}\n",
               size, seconds * 1e6 / (double)rounds / 2, spread.p99);
    free(out);
    free(into);
}

static double window_rounds(unsigned char *bytes, int size, int window, long rounds)
{
    static MPI_Request requests[1024];
    unsigned char token[8] = {0};
    struct batches batches;
    batches_start(&batches, rounds);
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < window; i++) {
            if (rank == 0)
                MPI_Isend(bytes, size, MPI_BYTE, 1, WINDOW, MPI_COMM_WORLD, &requests[i]);
            else
                MPI_Irecv(bytes, size, MPI_BYTE, 0, WINDOW, MPI_COMM_WORLD, &requests[i]);
        }
        MPI_Waitall(window, requests, MPI_STATUSES_IGNORE);
        if (rank == 0)
            MPI_Recv(token, sizeof token, MPI_BYTE, 1, ACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        else
            MPI_Send(token, sizeof token, MPI_BYTE, 0, ACK, MPI_COMM_WORLD);
        batches_round(&batches);
    }
    return batches_seconds(&batches);
}

static void stream(const char *what)
{
    long size, rounds;
    int window;
    if (sscanf(what, "%ld:%d:%ld", &size, &window, &rounds) != 3 || size < 1 || window < 1 ||
        window > 1024 || rounds < 1)
        fail("stream wants SIZE:WINDOW:ROUNDS");
    unsigned char *bytes = buffer((size_t)size);
    check(bytes, (size_t)size);
    window_rounds(bytes, (int)size, window, 2);
    double seconds = window_rounds(bytes, (int)size, window, rounds);
    if (rank == 0)
        printf("{\"pattern\":\"stream\",\"size_bytes\":%ld,\"rate_per_s\":%.6f}\n", size,
               (double)window * (double)rounds / seconds);
    free(bytes);
}

/* What goes round: how often it has been passed on, and whether this is the last round. */
struct token {
    uint32_t passed, last;
};

static void pass_round(struct token *token)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    if (rank == 0) {
        struct token sent = *token;
        sent.passed++;
        MPI_Send(&sent, sizeof sent, MPI_BYTE, next, ECHO, MPI_COMM_WORLD);
        MPI_Recv(token, sizeof *token, MPI_BYTE, before, ECHO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (token->passed != sent.passed + (uint32_t)ranks - 1)
            fail("not all ranks have passed the token on");
    } else {
        MPI_Recv(token, sizeof *token, MPI_BYTE, before, ECHO, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        token->passed++;
        MPI_Send(token, sizeof *token, MPI_BYTE, next, ECHO, MPI_COMM_WORLD);
    }
}

/* Passes the token round for so long, or as often as rank 0 does; returns the number of rounds. */
static long pass_for(struct token *token, double seconds)
{
    long rounds = 0;
    double began = now();
    token->last = 0;
    while (!token->last) {
        if (rank == 0)
            token->last = now() - began >= seconds;
        pass_round(token);
        rounds++;
    }
    return rounds;
}

static void ring(double seconds, long pause_ms)
{
    struct token token = {0, 0};
    pass_for(&token, seconds / 10);
    double used = cpu_seconds(), began = now();
    double hops = (double)pass_for(&token, seconds) * ranks;
    double elapsed = now() - began, cpu = all_cpu_seconds(used);
    /* All ranks wait for a message that comes late. */
    used = cpu_seconds();
    struct timespec pause = {pause_ms / 1000, pause_ms % 1000 * 1000000};
    if (rank == 0)
        nanosleep(&pause, NULL);
    pass_round(&token);
    double waiting = all_cpu_seconds(used);
    if (rank == 0)
        printf("{\"pattern\":\"ring\",\"processes\":%d,\"hop_us\":%.6f,\"cpu_us_per_hop\":%.6f,"
               "\"waiting_cpu_share\":%.6f}\n",
               ranks, elapsed * 1e6 / hops, cpu * 1e6 / hops, waiting / ((double)pause_ms / 1e3));
}

/* A client's requests, and the first bytes of the replies. */
struct head {
    uint64_t number, last;
};

static void serve(int size)
{
    int clients = ranks - 1, left = clients;
    MPI_Request *asks = calloc((size_t)clients, sizeof *asks);
    MPI_Request *replies = calloc((size_t)clients, sizeof *replies);
    int *ready = calloc((size_t)clients, sizeof *ready);
    struct head *heads = calloc((size_t)clients, sizeof *heads);
    unsigned char **bytes = calloc((size_t)clients, sizeof *bytes);
    MPI_Status *from = calloc((size_t)clients, sizeof *from);
    if (!asks || !replies || !ready || !heads || !bytes || !from)
        fail("out of memory");
    for (int i = 0; i < clients; i++) {
        bytes[i] = buffer((size_t)size);
        fill(bytes[i], (size_t)size);
        replies[i] = MPI_REQUEST_NULL;
        MPI_Irecv(&heads[i], sizeof *heads, MPI_BYTE, MPI_ANY_SOURCE, REQUEST, MPI_COMM_WORLD,
                  &asks[i]);
    }
    while (left > 0) {
        int count;
        MPI_Waitsome(clients, asks, &count, ready, from);
        for (int i = 0; i < count; i++) {
            int at = ready[i], client = from[i].MPI_SOURCE - 1;
            /* A client has one request on its way: its last reply has arrived. */
            MPI_Wait(&replies[client], MPI_STATUS_IGNORE);
            memcpy(bytes[client], &heads[at], sizeof *heads);
            left -= heads[at].last != 0;
            MPI_Irecv(&heads[at], sizeof *heads, MPI_BYTE, MPI_ANY_SOURCE, REQUEST, MPI_COMM_WORLD,
                      &asks[at]);
            MPI_Isend(bytes[client], size, MPI_BYTE, client + 1, REPLY, MPI_COMM_WORLD,
                      &replies[client]);
        }
    }
    MPI_Waitall(clients, replies, MPI_STATUSES_IGNORE);
    for (int i = 0; i < clients; i++) {
        MPI_Cancel(&asks[i]);
        MPI_Wait(&asks[i], MPI_STATUS_IGNORE);
    }
}

/* Asks until the time is over; returns the microseconds from a request to its reply, on average. */
static double ask(int size, double seconds)
{
    unsigned char *bytes = buffer((size_t)size);
    struct head request = {0, 0}, head;
    double began = now(), ended = began;
    while (!request.last) {
        request.number++;
        request.last = ended - began >= seconds;
        MPI_Request reply;
        MPI_Irecv(bytes, size, MPI_BYTE, 0, REPLY, MPI_COMM_WORLD, &reply);
        MPI_Send(&request, sizeof request, MPI_BYTE, 0, REQUEST, MPI_COMM_WORLD);
        MPI_Wait(&reply, MPI_STATUS_IGNORE);
        ended = now();
        memcpy(&head, bytes, sizeof head);
        if (head.number != request.number || bytes[size - 1] != content((size_t)size - 1))
            fail("a reply is not the one that was asked for");
    }
    for (size_t i = sizeof head; i < (size_t)size; i++)
        if (bytes[i] != content(i))
            fail("the last reply is not what was sent");
    free(bytes);
    return (ended - began) * 1e6 / (double)request.number;
}

static void load(int size, double seconds)
{
    double mine = 0, *all = calloc((size_t)ranks, sizeof *all);
    if (!all || size < (int)sizeof(struct head) || ranks < 2)
        fail("load wants two ranks or more and replies of 16 bytes or more");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        serve(size);
    else
        mine = ask(size, seconds);
    MPI_Gather(&mine, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("{\"pattern\":\"load\",\"size_bytes\":%d,\"latencies_us\":[", size);
        for (int i = 1; i < ranks; i++)
            printf("%s%.3f", i > 1 ? "," : "", all[i]);
        printf("]}\n");
    }
    free(all);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: mpi CPUS latency|exchange|stream|ring|load ARGUMENTS\n");
        return 2;
    }
    bind_to_cpu(argv[1]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const char *pattern = argv[2];
    if (strcmp(pattern, "latency") == 0)
        for (int i = 3; i < argc; i++)
            latency(argv[i]);
    else if (strcmp(pattern, "exchange") == 0)
        for (int i = 3; i < argc; i++)
            exchange(argv[i]);
    else if (strcmp(pattern, "stream") == 0)
        for (int i = 3; i < argc; i++)
            stream(argv[i]);
    else if (strcmp(pattern, "ring") == 0 && argc == 5)
        ring(atof(argv[3]) / 1e3, atol(argv[4]));
    else if (strcmp(pattern, "load") == 0 && argc == 5)
        load(atoi(argv[3]), atof(argv[4]) / 1e3);
    else
        fail("no such pattern");
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
