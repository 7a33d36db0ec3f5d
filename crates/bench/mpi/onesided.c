/* Accesses to the memory of another process, each with its flush. Rank 0 accesses that of rank 1, which waits in a barrier. */
#include "bench.h"
#include <stdint.h>
#include <string.h>

static void put(struct work *work, long rounds)
{
    for (long i = 0; i < rounds && rank == 0; i++) {
        MPI_Put(work->from, (int)work->size, MPI_BYTE, 1, 0, (int)work->size, MPI_BYTE, work->win);
        MPI_Win_flush(1, work->win);
    }
}

static void get(struct work *work, long rounds)
{
    for (long i = 0; i < rounds && rank == 0; i++) {
        MPI_Get(work->into, (int)work->size, MPI_BYTE, 1, 0, (int)work->size, MPI_BYTE, work->win);
        MPI_Win_flush(1, work->win);
    }
}

static void accumulate(struct work *work, long rounds)
{
    int count = (int)(work->size / sizeof(int64_t));
    for (long i = 0; i < rounds && rank == 0; i++) {
        MPI_Accumulate(work->from, count, MPI_INT64_T, 1, 0, count, MPI_INT64_T, MPI_SUM, work->win);
        MPI_Win_flush(1, work->win);
    }
}

static void get_accumulate(struct work *work, long rounds)
{
    int count = (int)(work->size / sizeof(int64_t));
    for (long i = 0; i < rounds && rank == 0; i++) {
        MPI_Get_accumulate(work->from, count, MPI_INT64_T, work->into, count, MPI_INT64_T, 1, 0, count, MPI_INT64_T,
                           MPI_SUM, work->win);
        MPI_Win_flush(1, work->win);
    }
}

static void fetch_and_op(struct work *work, long rounds)
{
    for (long i = 0; i < rounds && rank == 0; i++) {
        MPI_Fetch_and_op(work->from, work->into, MPI_INT64_T, 1, 0, MPI_SUM, work->win);
        MPI_Win_flush(1, work->win);
    }
}

static void compare_and_swap(struct work *work, long rounds)
{
    static const int64_t nothing;
    for (long i = 0; i < rounds && rank == 0; i++) {
        MPI_Compare_and_swap(work->from, &nothing, work->into, MPI_INT64_T, 1, 0, work->win);
        MPI_Win_flush(1, work->win);
    }
}

static const struct access {
    const char *name;
    body *body;
    /* Of one element only. */
    int is_single;
} accesses[] = {
    {"put", put, 0},
    {"get", get, 0},
    {"accumulate", accumulate, 0},
    {"get-accumulate", get_accumulate, 0},
    {"fetch-and-op", fetch_and_op, 1},
    {"compare-and-swap", compare_and_swap, 1},
};

/* What was put is got, and sums are right. */
static void check(struct work *work, const void *base)
{
    int64_t *from = (int64_t *)work->from, *into = (int64_t *)work->into;
    size_t elements = work->size / sizeof *from;
    for (size_t i = 0; i < elements; i++)
        from[i] = (int64_t)(3 * i + 1);
    put(work, 1);
    accumulate(work, 1);
    get(work, 1);
    for (size_t i = 0; i < elements && rank == 0; i++)
        if (into[i] != 2 * from[i])
            fail("what was got is not what was put and added");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_sync(work->win);
    for (size_t i = 0; i < elements && rank == 1; i++)
        if (((const int64_t *)base)[i] != 2 * from[i])
            fail("the window is not what was put and added");
    /* Only then is it written again. */
    MPI_Barrier(MPI_COMM_WORLD);
}

void run_one_sided(struct work *work)
{
    void *base;
    MPI_Win_allocate((MPI_Aint)work->size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &work->win);
    memset(base, 0, work->size);
    MPI_Win_lock_all(0, work->win);
    MPI_Barrier(MPI_COMM_WORLD);
    check(work, base);
    for (size_t i = 0; i < sizeof accesses / sizeof *accesses; i++)
        if (!accesses[i].is_single || work->size == sizeof(int64_t))
            print(accesses[i].name, work->size, "latency_us", measure(accesses[i].body, work) * 1e6);
    MPI_Win_unlock_all(work->win);
    MPI_Win_free(&work->win);
}
