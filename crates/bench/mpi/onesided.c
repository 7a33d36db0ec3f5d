/* Accesses to the memory of another process, each with its flush: microseconds, one line for each access and size,
 *
 *     access size_bytes median min max
 *
 * of so many runs. Process 0 measures, process 1 owns the memory and waits in a barrier. Any MPI with version 3's one-sided
 * communication runs it, with two processes: `onesided [runs]`. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST (1 << 20)
#define MOST_RUNS 101
/* How long a run takes about, in seconds. */
#define RUN 0.02

enum { PUT, GET, ACCUMULATE, ACCUMULATE_DOUBLE, GET_ACCUMULATE, FETCH_AND_OP, COMPARE_AND_SWAP, ACCESSES };
static const char *names[] = {"put",          "get",          "accumulate",      "accumulate-double",
                              "get-accumulate", "fetch-and-op", "compare-and-swap"};

static void access_once(int what, int bytes, int64_t *mine, int64_t *result, MPI_Win win) {
    static const int64_t nothing;
    int many = bytes / 8;
    switch (what) {
    case PUT: MPI_Put(mine, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, win); break;
    case GET: MPI_Get(result, bytes, MPI_BYTE, 1, 0, bytes, MPI_BYTE, win); break;
    case ACCUMULATE: MPI_Accumulate(mine, many, MPI_INT64_T, 1, 0, many, MPI_INT64_T, MPI_SUM, win); break;
    case ACCUMULATE_DOUBLE: MPI_Accumulate(mine, many, MPI_DOUBLE, 1, 0, many, MPI_DOUBLE, MPI_SUM, win); break;
    case GET_ACCUMULATE:
        MPI_Get_accumulate(mine, many, MPI_INT64_T, result, many, MPI_INT64_T, 1, 0, many, MPI_INT64_T, MPI_SUM, win);
        break;
    case FETCH_AND_OP: MPI_Fetch_and_op(mine, result, MPI_INT64_T, 1, 0, MPI_SUM, win); break;
    default: MPI_Compare_and_swap(mine, &nothing, result, MPI_INT64_T, 1, 0, win);
    }
    MPI_Win_flush(1, win);
}

static double run(int what, int bytes, int times, int64_t *mine, int64_t *result, MPI_Win win) {
    double start = MPI_Wtime();
    for (int i = 0; i < times; i++) access_once(what, bytes, mine, result, win);
    return (MPI_Wtime() - start) / times;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(int what, int bytes, int runs, int64_t *mine, int64_t *result, MPI_Win win) {
    double took[MOST_RUNS], warm = run(what, bytes, 10, mine, result, win);
    int times = (int)(RUN / (warm > 1e-8 ? warm : 1e-8)) + 1;
    warm = run(what, bytes, times, mine, result, win);
    times = (int)(RUN / (warm > 1e-8 ? warm : 1e-8)) + 1;
    for (int i = 0; i < runs; i++) took[i] = 1e6 * run(what, bytes, times, mine, result, win);
    qsort(took, runs, sizeof *took, by_size);
    printf("%s %d %.4f %.4f %.4f\n", names[what], bytes, took[runs / 2], took[0], took[runs - 1]);
    fflush(stdout);
}

int main(int argc, char **argv) {
    int rank, size, runs = argc > 1 ? atoi(argv[1]) : 11;
    MPI_Win win;
    void *base;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2 || runs < 1 || runs > MOST_RUNS) {
        fprintf(stderr, "two processes, and 1 to %d runs\n", MOST_RUNS);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int64_t *mine = malloc(MOST), *result = malloc(MOST);
    memset(mine, 0, MOST);
    memset(result, 0, MOST);
    MPI_Win_allocate(MOST, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win);
    memset(base, 0, MOST);
    MPI_Win_lock_all(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        for (int what = 0; what < ACCESSES; what++) {
            measure(what, 8, runs, mine, result, win);
            if (what < FETCH_AND_OP) measure(what, MOST, runs, mine, result, win);
        }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    free(mine);
    free(result);
    MPI_Finalize();
    return 0;
}
