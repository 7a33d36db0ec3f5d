/* Reductions short and long, in place and not, of parts of equal and of different sizes (MPI 5.0 §6.9, §6.10). */
#include "check.h"

enum { MOST = 70000 };

static int from[MOST], into[MOST], counts[64];

static int value(int of, int i) {
    return of * 17 + i % 1013;
}

static void fill(int *data, int count) {
    for (int i = 0; i < count; i++)
        data[i] = value(rank, i);
}

static int sum(int i) {
    int all = 0;
    for (int of = 0; of < size; of++)
        all += value(of, i);
    return all;
}

static void allreduce(int count, int in_place) {
    memset(into, -1, sizeof into);
    fill(in_place ? into : from, count);
    OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : from, into, count, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++)
        CHECK(into[i] == sum(i));
    CHECK(count == MOST || into[count] == -1);
}

/* Rank r gets a part of `step` elements, and `more` more for each lower rank, or none. */
static void reduce_scatter(int step, int more, int in_place) {
    int total = 0, before = 0;
    for (int to = 0; to < size; to++) {
        counts[to] = step + more * (more < 0 ? to - size : to);
        before += to < rank ? counts[to] : 0;
        total += counts[to];
    }
    CHECK(total <= MOST);
    memset(into, -1, sizeof into);
    fill(in_place ? into : from, total);
    OK(MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : from, into, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < counts[rank]; i++)
        CHECK(into[i] == sum(before + i));
    CHECK(in_place || into[counts[rank]] == -1);
}

static void reduce_scatter_block(int step, int in_place) {
    fill(in_place ? into : from, step * size);
    OK(MPI_Reduce_scatter_block(in_place ? MPI_IN_PLACE : from, into, step, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < step; i++)
        CHECK(into[i] == sum(rank * step + i));
}

int main(int argc, char **argv) {
    static const int lengths[] = {0, 1, 2, 7, 1000, 20011, MOST};
    begin(&argc, &argv);
    for (int in_place = 0; in_place < 2; in_place++) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            allreduce(lengths[i], in_place);
        for (int step = 0; step < 9000; step = 3 * step + 1) {
            reduce_scatter_block(step, in_place);
            reduce_scatter(step, 0, in_place);
            reduce_scatter(step, 1, in_place);
            reduce_scatter(step + size, -1, in_place);
        }
    }
    OK(MPI_Finalize());
    return 0;
}
