/* Collective operations. */
#include "bench.h"
#include <stdio.h>
#include <string.h>

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

static const struct collective {
    const char *name;
    body *body;
} collectives[] = {
    {"barrier", barrier},     {"bcast", bcast},
    {"allreduce", allreduce}, {"reduce_scatter", reduce_scatter},
    {"allgather", allgather}, {"alltoall", alltoall},
};

void run_collective(struct work *work)
{
    for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
        if (strcmp(work->pattern, collectives[i].name) == 0) {
            print_of_ranks(collectives[i].name, work->size, "latency_us", measure(collectives[i].body, work) * 1e6);
            return;
        }
    fail("there is no such pattern");
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

void run_memory(struct work *work)
{
    double mine, most;
    alltoall(work, 1);
    mine = private_bytes();
    MPI_Reduce(&mine, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    print_of_ranks("memory", 0, "memory_mib", most / (1 << 20));
}
