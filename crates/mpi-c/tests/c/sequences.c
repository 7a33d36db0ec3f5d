/* Random sequences of collective operations, the same in all processes, on several communicators, of sizes that are done in shared
 * memory and of sizes that are not, with pauses, beside nonblocking ones. Each result is compared with what it has to be. */
#include "check.h"
#include <mpi.h>
#include <time.h>
#include <unistd.h>

static unsigned long long state;

static unsigned draw(unsigned below) {
    state += 0x9e3779b97f4a7c15ull;
    unsigned long long z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (unsigned)((z ^ (z >> 31)) >> 32) % below;
}

enum { MOST = 20000 };
static const int limits[] = {1, 8, 100, 2000, MOST};
static MPI_Datatype every_other;
static int me, many;

/* What process `r` has at place `i` in step `step`. */
static long value(int step, int r, int i) { return (long)step * 7919 + r * 104729 + i; }

static long sum(int step, int i) {
    long all = 0;
    for (int r = 0; r < many; r++) all += value(step, r, i);
    return all;
}

/* Sleeps sometimes: then others find nobody, and sleep as well. */
static void pause_sometimes(int step) {
    if ((step + rank) % 97 == 0) usleep(500);
}

static long *own, *all;

static void broadcast(MPI_Comm comm, int step, int count, int root, int spread) {
    for (int i = 0; i < count; i++) own[i * (1 + spread)] = me == root ? value(step, root, i) : -1;
    OK(MPI_Bcast(own, count, spread ? every_other : MPI_LONG, root, comm));
    for (int i = 0; i < count; i++) CHECK(own[i * (1 + spread)] == value(step, root, i));
}

static void reduce(MPI_Comm comm, int step, int count, int root, int in_place) {
    for (int i = 0; i < count; i++) own[i] = all[i] = value(step, me, i);
    if (root < 0) {
        OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : own, all, count, MPI_LONG, MPI_SUM, comm));
    } else {
        void *from = in_place && me == root ? MPI_IN_PLACE : own;
        OK(MPI_Reduce(from, all, count, MPI_LONG, MPI_SUM, root, comm));
    }
    if (root < 0 || root == me)
        for (int i = 0; i < count; i++) CHECK(all[i] == sum(step, i));
}

static void reduce_scatter(MPI_Comm comm, int step, int count, int in_place, int is_even) {
    int counts[64], at = 0, total = 0;
    for (int r = 0; r < many; r++) {
        counts[r] = is_even ? count / many : (count / many) * (r % 3);
        at += r < me ? counts[r] : 0;
        total += counts[r];
    }
    for (int i = 0; i < total; i++) own[i] = all[i] = value(step, me, i);
    void *from = in_place ? MPI_IN_PLACE : own;
    if (is_even)
        OK(MPI_Reduce_scatter_block(from, all, counts[0], MPI_LONG, MPI_SUM, comm));
    else
        OK(MPI_Reduce_scatter(from, all, counts, MPI_LONG, MPI_SUM, comm));
    for (int i = 0; i < counts[me]; i++) CHECK(all[i] == sum(step, at + i));
}

static void gather(MPI_Comm comm, int step, int count, int in_place, int spread) {
    int wide = 1 + spread;
    count /= many;
    for (int i = 0; i < count; i++) own[i] = all[(me * count + i) * wide] = value(step, me, i);
    MPI_Datatype type = spread ? every_other : MPI_LONG;
    if (in_place)
        OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_LONG, all, count, type, comm));
    else
        OK(MPI_Allgather(own, count, MPI_LONG, all, count, type, comm));
    for (int r = 0; r < many; r++)
        for (int i = 0; i < count; i++) CHECK(all[(r * count + i) * wide] == value(step, r, i));
}

static void exchange(MPI_Comm comm, int step, int count, int in_place) {
    count /= many;
    for (int r = 0; r < many; r++)
        for (int i = 0; i < count; i++) own[r * count + i] = all[r * count + i] = value(step + r, me, i);
    if (in_place)
        OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_LONG, all, count, MPI_LONG, comm));
    else
        OK(MPI_Alltoall(own, count, MPI_LONG, all, count, MPI_LONG, comm));
    for (int r = 0; r < many; r++)
        for (int i = 0; i < count; i++) CHECK(all[r * count + i] == value(step + me, r, i));
}

static void one(MPI_Comm comm, int step) {
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &many));
    int kind = draw(9), limit = limits[draw(5)], count = draw(limit + 1), root = draw(many), in_place = draw(2);
    long mine = value(step, me, 0), later = 0;
    MPI_Request request = MPI_REQUEST_NULL;
    if (draw(4) == 0) OK(MPI_Iallreduce(&mine, &later, 1, MPI_LONG, MPI_SUM, comm, &request));
    int has_request = request != MPI_REQUEST_NULL;
    pause_sometimes(step);
    switch (kind) {
        case 0: OK(MPI_Barrier(comm)); break;
        case 1: case 2: broadcast(comm, step, count, root, in_place); break;
        case 3: reduce(comm, step, count, root, in_place); break;
        case 4: case 5: reduce(comm, step, count, -1, in_place); break;
        case 6: reduce_scatter(comm, step, count, in_place, draw(2)); break;
        case 7: gather(comm, step, count, in_place, draw(2)); break;
        default: exchange(comm, step, count, in_place);
    }
    if (has_request) {
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(later == sum(step, 0));
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int steps = argc > 1 ? atoi(argv[1]) : 300;
    state = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    own = malloc(2 * MOST * sizeof *own), all = malloc(2 * MOST * sizeof *all);
    MPI_Datatype apart;
    OK(MPI_Type_create_resized(MPI_LONG, 0, 2 * sizeof(long), &apart));
    OK(MPI_Type_dup(apart, &every_other));
    OK(MPI_Type_free(&apart));
    OK(MPI_Type_commit(&every_other));
    MPI_Comm comms[4] = {MPI_COMM_WORLD, MPI_COMM_SELF};
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[3]));
    for (int step = 0; step < steps; step++) {
        unsigned long long before = state;
        int which = draw(4);
        /* Those of a part of the processes draw alike, too. */
        one(comms[which], step);
        state = before + 1;
        if (step % 100 == 99) {
            OK(MPI_Comm_free(&comms[2]));
            OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]));
        }
    }
    OK(MPI_Comm_free(&comms[2]));
    OK(MPI_Comm_free(&comms[3]));
    OK(MPI_Type_free(&every_other));
    free(own), free(all);
    OK(MPI_Finalize());
    return 0;
}
