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
#include "bench.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARTS = 20 };

int rank, ranks;
static double milliseconds;

void fail(const char *what)
{
    fprintf(stderr, "mpi: rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void print(const char *name, size_t size, const char *metric, double value)
{
    if (rank == 0)
        printf("{\"case\":\"%s\",\"size_bytes\":%zu,\"metric\":\"%s\",\"value\":%.9g}\n", name, size, metric, value);
}

void print_of_ranks(const char *name, size_t size, const char *metric, double value)
{
    char whole[64];
    snprintf(whole, sizeof whole, "%s/%d-ranks", name, ranks);
    print(whole, size, metric, value);
}

static int ascending(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* Seconds that a round takes. */
double measure(body *body, struct work *work)
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

/* The library starts, and nothing else is measured. */
static void nothing(struct work *work)
{
    (void)work;
}

static const struct pattern {
    const char *name;
    void (*run)(struct work *work);
} patterns[] = {
    {"latency", run_latency},
    {"bandwidth", run_bandwidth},
    {"bidirectional", run_bidirectional},
    {"any-source", run_any_source},
    {"threads", run_threads},
    {"vector", run_vector},
    {"subarray", run_subarray},
    {"overlap", run_overlap},
    {"memory", run_memory},
    {"one-sided", run_one_sided},
    {"master-worker", run_master_worker},
    {"life", run_life},
    {"tile", run_tile},
    {"nested", run_nested},
    {"open", run_open},
    {"start", nothing},
};

/* Before MPI_Init, so that the library sees where it runs: launchers pass ranks in the environment. */
static void bind(const char *cpus)
{
    const char *names[] = {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", NULL};
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
char *room(size_t bytes)
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
    int asked = strcmp(argv[3], "threads") == 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, provided;
    MPI_Init_thread(&argc, &argv, asked, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (asked == MPI_THREAD_MULTIPLE && provided < asked)
        fail("the library has no MPI_THREAD_MULTIPLE");
    struct work work = {.pattern = argv[3]};
    void (*run)(struct work *) = run_collective;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(work.pattern, patterns[i].name) == 0)
            run = patterns[i].run;
    for (int i = 4; i < argc && run != nothing; i++) {
        work.size = strtoull(argv[i], NULL, 10);
        work.from = room(work.size * (size_t)ranks);
        work.into = room(work.size * (size_t)ranks);
        run(&work);
        free(work.from);
        free(work.into);
    }
    fflush(stdout);
    MPI_Finalize();
    if (run == nothing && argc > 4)
        print_start(argv[4]);
    return 0;
}
