/*
 * The patterns of `causeway bench mpi`, for the standard ABI: compiled once, run with every library.
 *
 *   program CPUS MILLISECONDS PATTERN SIZE...
 *   program CPUS MILLISECONDS start MICROSECONDS   how long it is since that time after 1970
 *
 * CPUS is a list, as in 0,1: rank r binds itself to entry r modulo its length. Each figure is a line of JSON on the standard
 * output of rank 0; anything else on it is the launcher's. A wrong byte ends the job.
 *
 * What is measured is repeated for as many rounds as take a part of MILLISECONDS, which rank 0 finds out by doubling; then
 * that many rounds are timed PARTS times, and the median part counts.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARTS = 20, MOST_WINDOW = 64, WINDOW_BYTES = 16 << 20, COMPUTING_US = 500 };
enum { PIECE = 64, PIECES_BYTES = 1 << 20, BOX = 64, WHOLE = 128 };

static int rank, ranks;
static double milliseconds;

/* What a pattern works on: `size` bytes a message, with room for every rank. */
struct work {
    const char *pattern;
    size_t size;
    int window;
    char *from, *into;
    MPI_Datatype type;
    int count;
    MPI_Request requests[2 * MOST_WINDOW];
};

typedef void body(struct work *work, long rounds);

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

static void print(const char *name, size_t size, const char *metric, double value)
{
    if (rank == 0)
        printf("{\"case\":\"%s\",\"size_bytes\":%zu,\"metric\":\"%s\",\"value\":%.9g}\n", name, size, metric, value);
}

static int ascending(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Seconds that a round takes. */
static double measure(body *body, struct work *work)
{
    long rounds = 1;
    double parts[PARTS], part = milliseconds / 1e3 / PARTS;
    body(work, 2);
    for (int found = 0; !found;) {
        MPI_Barrier(MPI_COMM_WORLD);
        double began = now();
        body(work, rounds);
        double took = now() - began;
        /* Rank 0's time decides for all. */
        found = took >= part / 8;
        if (took < part)
            rounds = found ? (long)((double)rounds * part / took) + 1 : 2 * rounds;
        MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
        MPI_Bcast(&found, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int i = 0; i < PARTS; i++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double began = now();
        body(work, rounds);
        parts[i] = (now() - began) / (double)rounds;
    }
    qsort(parts, PARTS, sizeof *parts, ascending);
    return (parts[(PARTS - 1) / 2] + parts[PARTS / 2]) / 2;
}

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

static void barrier(struct work *work, long rounds)
{
    (void)work;
    for (long i = 0; i < rounds; i++)
        MPI_Barrier(MPI_COMM_WORLD);
}

/* The root changes, so that no rank runs ahead of the others. */
static void bcast(struct work *work, long rounds)
{
    for (long i = 0; i < rounds; i++)
        MPI_Bcast(work->from, (int)work->size, MPI_BYTE, (int)(i % ranks), MPI_COMM_WORLD);
}

static void allreduce(struct work *work, long rounds)
{
    for (long i = 0; i < rounds; i++)
        MPI_Allreduce(work->from, work->into, (int)(work->size / sizeof(int)), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(struct work *work, long rounds)
{
    for (long i = 0; i < rounds; i++)
        MPI_Reduce_scatter_block(work->from, work->into, (int)(work->size / sizeof(int)), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(struct work *work, long rounds)
{
    for (long i = 0; i < rounds; i++)
        MPI_Allgather(work->from, (int)work->size, MPI_BYTE, work->into, (int)work->size, MPI_BYTE, MPI_COMM_WORLD);
}

static void alltoall(struct work *work, long rounds)
{
    for (long i = 0; i < rounds; i++)
        MPI_Alltoall(work->from, (int)work->size, MPI_BYTE, work->into, (int)work->size, MPI_BYTE, MPI_COMM_WORLD);
}

static void compute(double seconds)
{
    for (double until = now() + seconds; now() < until;)
        ;
}

/* An exchange between ranks 0 and 1, with computing behind it if `work->window` says so. */
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

/* Private memory of this process, in bytes. */
static double private_bytes(void)
{
    char line[256];
    double kilobytes = 0, found;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (!file)
        fail("/proc/self/smaps_rollup cannot be read");
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Private_Clean: %lf", &found) == 1 || sscanf(line, "Private_Dirty: %lf", &found) == 1)
            kilobytes += found;
    fclose(file);
    return kilobytes * 1024;
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

static void run_latency(struct work *work)
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

static void run_bandwidth(struct work *work)
{
    run_windows(work, "bandwidth", one_way, 1);
}

static void run_bidirectional(struct work *work)
{
    run_windows(work, "bidirectional", both_ways, 2);
}

static void run_any_source(struct work *work)
{
    char name[64];
    work->window = MOST_WINDOW;
    snprintf(name, sizeof name, "any-source/%d-senders", ranks - 1);
    print(name, work->size, "rate_per_s", work->window * (ranks - 1) / measure(any_source, work));
}

static void run_vector(struct work *work)
{
    work->count = 1;
    MPI_Type_vector(PIECES_BYTES / PIECE, PIECE, 2 * PIECE, MPI_BYTE, &work->type);
    MPI_Type_commit(&work->type);
    print("vector", PIECES_BYTES, "latency_us", measure(latency, work) * 1e6 / 2);
    MPI_Type_free(&work->type);
}

static void run_subarray(struct work *work)
{
    int whole[3] = {WHOLE, WHOLE, WHOLE}, part[3] = {BOX, BOX, BOX}, start[3] = {BOX / 2, BOX / 2, BOX / 2};
    work->count = 1;
    MPI_Type_create_subarray(3, whole, part, start, MPI_ORDER_C, MPI_DOUBLE, &work->type);
    MPI_Type_commit(&work->type);
    print("subarray", BOX * BOX * BOX * sizeof(double), "latency_us", measure(latency, work) * 1e6 / 2);
    MPI_Type_free(&work->type);
}

static void run_overlap(struct work *work)
{
    work->window = 0;
    double alone = measure(exchange, work);
    work->window = 1;
    double behind = measure(exchange, work);
    double hidden = (alone + COMPUTING_US * 1e-6 - behind) / alone;
    print("overlap", work->size, "ratio", hidden < 0 ? 0 : hidden);
}

static void run_memory(struct work *work)
{
    double mine, most;
    alltoall(work, 1);
    mine = private_bytes();
    MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    char name[64];
    snprintf(name, sizeof name, "memory/%d-ranks", ranks);
    print(name, 0, "memory_mib", most / (1 << 20));
}

static const struct collective {
    const char *name;
    body *body;
} collectives[] = {
    {"barrier", barrier},     {"bcast", bcast},
    {"allreduce", allreduce}, {"reduce_scatter", reduce_scatter},
    {"allgather", allgather}, {"alltoall", alltoall},
};

static void run_collective(struct work *work)
{
    char name[64];
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        if (strcmp(work->pattern, collectives[i].name) == 0) {
            snprintf(name, sizeof name, "%s/%d-ranks", collectives[i].name, ranks);
            print(name, work->size, "latency_us", measure(collectives[i].body, work) * 1e6);
            return;
        }
    fail("there is no such pattern");
}

/* After MPI_Finalize. */
static void print_start(const char *microseconds)
{
    char name[64];
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    double now = (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
    snprintf(name, sizeof name, "start/%d-ranks", ranks);
    print(name, 0, "latency_us", now - atof(microseconds));
}

static const struct pattern {
    const char *name;
    void (*run)(struct work *work);
} patterns[] = {
    {"latency", run_latency},       {"bandwidth", run_bandwidth}, {"bidirectional", run_bidirectional},
    {"any-source", run_any_source}, {"vector", run_vector},       {"subarray", run_subarray},
    {"overlap", run_overlap},       {"memory", run_memory},
};

/* Before MPI_Init, so that the library sees where it runs: launchers tell ranks by environment. */
static void bind(const char *cpus)
{
    const char *names[] = {"PMI_RANK", "PMIX_RANK", NULL};
    int mine = 0, entries = 1;
    for (int i = 0; names[i]; i++)
        if (getenv(names[i]))
            mine = atoi(getenv(names[i]));
    for (const char *at = cpus; *at; at++)
        entries += *at == ',';
    for (int skip = mine % entries; skip > 0; skip--)
        cpus = strchr(cpus, ',') + 1;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)atoi(cpus), &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("mpi: choosing a processor");
        exit(1);
    }
}

/* Room for `bytes`, touched. */
static char *room(size_t bytes)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, bytes + 1) != 0)
        fail("there is no memory");
    memset(memory, 1, bytes + 1);
    return memory;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: program CPUS MILLISECONDS PATTERN SIZE...\n");
        return 2;
    }
    bind(argv[1]);
    milliseconds = atof(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct work work = {.pattern = argv[3]};
    void (*run)(struct work *) = run_collective;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(work.pattern, patterns[i].name) == 0)
            run = patterns[i].run;
    int is_start = strcmp(work.pattern, "start") == 0;
    for (int i = 4; i < argc && !is_start; i++) {
        work.size = strtoull(argv[i], NULL, 10);
        size_t bytes = work.size * (size_t)ranks;
        if (run == run_vector)
            bytes = 2 * PIECES_BYTES;
        if (run == run_subarray)
            bytes = (size_t)WHOLE * WHOLE * WHOLE * sizeof(double);
        work.from = room(bytes);
        work.into = room(bytes);
        run(&work);
        free(work.from);
        free(work.into);
    }
    fflush(stdout);
    MPI_Finalize();
    if (is_start && argc > 4)
        print_start(argv[4]);
    return 0;
}
