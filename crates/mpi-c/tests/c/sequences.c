/* Random sequences of collective operations, the same in all processes, on several communicators, of sizes that are done in shared
 * memory and of sizes that are not, with pauses, beside nonblocking ones; by one thread, or by three on communicators of their own. Each result is
 * compared with what it has to be: `sequences STEPS SEED [threads]`. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static _Thread_local unsigned long long state;

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
static _Thread_local int me, many;

/* Element `i` of process `r` in step `step`. */
static long value(int step, int r, int i) { return (long)step * 7919 + r * 104729 + i; }

static long sum(int step, int i) {
    long all = 0;
    for (int r = 0; r < many; r++) all += value(step, r, i);
    return all;
}

/* Sleeps sometimes: then other processes wait so long that they sleep as well. */
static void pause_sometimes(int step) {
    if ((step + rank) % 97 == 0) usleep(500);
}

static _Thread_local long *own, *all;

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

/* Blocks of any lengths: that from one process for another has so many elements, and lies behind a gap. */
struct layout {
    int lens[64], at[64], total;
};

static int length(int step, int from, int to, int limit) {
    unsigned mixed = (unsigned)(step * 7919 + from * 104729 + to * 1299709) * 2654435761u >> 8;
    return mixed % 3 ? (int)(mixed / 3 % (unsigned)(limit + 1)) : 0;
}

static void lay_out(struct layout *of) {
    of->total = 0;
    for (int r = 0; r < many; r++) {
        of->at[r] = of->total + r % 2;
        of->total = of->at[r] + of->lens[r];
    }
}

static void fill(long *at, int wide, int count, long first) {
    for (int i = 0; i < count; i++) at[i * wide] = first + i;
}

static void check(const long *at, int wide, int count, long first) {
    for (int i = 0; i < count; i++) CHECK(at[i * wide] == first + i);
}

/* Gathers to the root, or to all if there is none, of equal blocks or others. */
static void collect(MPI_Comm comm, int step, int limit, int root, int in_place, int spread, int is_even) {
    int wide = 1 + spread, mine, is_all = root < 0;
    MPI_Datatype type = spread ? every_other : MPI_LONG;
    struct layout of;
    for (int r = 0; r < many; r++) of.lens[r] = is_even ? limit : length(step, r, 0, limit);
    lay_out(&of);
    mine = of.lens[me];
    int here = is_all || root == me;
    in_place = in_place && here;
    if (is_even)
        for (int r = 0; r < many; r++) of.at[r] = r * limit;
    fill(own, 1, mine, value(step, me, 0));
    memset(all, 0x7f, 2 * MOST * sizeof *all);
    if (in_place) fill(all + of.at[me] * wide, wide, mine, value(step, me, 0));
    const void *from = in_place ? MPI_IN_PLACE : own;
    if (is_all)
        OK(MPI_Allgatherv(from, mine, MPI_LONG, all, of.lens, of.at, type, comm));
    else if (is_even)
        OK(MPI_Gather(from, mine, MPI_LONG, here ? all : NULL, here ? mine : -1, here ? type : MPI_DATATYPE_NULL, root, comm));
    else
        OK(MPI_Gatherv(from, mine, MPI_LONG, here ? all : NULL, here ? of.lens : NULL, here ? of.at : NULL, type, root, comm));
    for (int r = 0; here && r < many; r++) check(all + of.at[r] * wide, wide, of.lens[r], value(step, r, 0));
}

static void deal(MPI_Comm comm, int step, int limit, int root, int in_place, int spread, int is_even) {
    int wide = 1 + spread, mine, here = root == me;
    MPI_Datatype type = spread ? every_other : MPI_LONG;
    struct layout of;
    for (int r = 0; r < many; r++) of.lens[r] = is_even ? limit : length(step, r, 0, limit);
    lay_out(&of);
    mine = of.lens[me];
    if (is_even)
        for (int r = 0; r < many; r++) of.at[r] = r * limit;
    if (here)
        for (int r = 0; r < many; r++) fill(all + of.at[r] * wide, wide, of.lens[r], value(step, r, 0));
    fill(own, 1, mine, -1);
    void *into = here && in_place ? MPI_IN_PLACE : own;
    if (is_even)
        OK(MPI_Scatter(here ? all : NULL, here ? mine : -1, here ? type : MPI_DATATYPE_NULL, into, mine, MPI_LONG, root, comm));
    else
        OK(MPI_Scatterv(here ? all : NULL, here ? of.lens : NULL, here ? of.at : NULL, type, into, mine, MPI_LONG, root, comm));
    check(into == own ? own : all + of.at[me] * wide, into == own ? 1 : wide, mine, value(step, me, 0));
}

static void exchange_uneven(MPI_Comm comm, int step, int limit, int in_place, int spread) {
    int wide = 1 + spread;
    MPI_Datatype type = spread ? every_other : MPI_LONG;
    struct layout to, from;
    for (int r = 0; r < many; r++) {
        /* In place, each has to receive as many as it sends. */
        int low = r < me ? r : me, high = r < me ? me : r;
        to.lens[r] = in_place ? length(step, low, high, limit) : length(step, me, r, limit);
        from.lens[r] = in_place ? to.lens[r] : length(step, r, me, limit);
    }
    lay_out(&to), lay_out(&from);
    memset(all, 0x7f, 2 * MOST * sizeof *all);
    if (in_place) {
        for (int r = 0; r < many; r++) fill(all + to.at[r] * wide, wide, to.lens[r], value(step + r, me, 0));
        OK(MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, all, to.lens, to.at, type, comm));
    } else {
        for (int r = 0; r < many; r++) fill(own + to.at[r], 1, to.lens[r], value(step + r, me, 0));
        OK(MPI_Alltoallv(own, to.lens, to.at, MPI_LONG, all, from.lens, from.at, type, comm));
    }
    for (int r = 0; r < many; r++) check(all + from.at[r] * wide, wide, from.lens[r], value(step + me, r, 0));
}

static void scan(MPI_Comm comm, int step, int count, int in_place, int is_exclusive) {
    for (int i = 0; i < count; i++) own[i] = all[i] = value(step, me, i);
    void *from = in_place ? MPI_IN_PLACE : own;
    if (is_exclusive)
        OK(MPI_Exscan(from, all, count, MPI_LONG, MPI_SUM, comm));
    else
        OK(MPI_Scan(from, all, count, MPI_LONG, MPI_SUM, comm));
    int summed = me + !is_exclusive;
    for (int i = 0; summed && i < count; i++) {
        long expected = 0;
        for (int r = 0; r < summed; r++) expected += value(step, r, i);
        CHECK(all[i] == expected);
    }
}

static void one(MPI_Comm comm, int step) {
    OK(MPI_Comm_rank(comm, &me));
    OK(MPI_Comm_size(comm, &many));
    int kind = draw(16), limit = limits[draw(5)], count = draw(limit + 1), root = draw(many), in_place = draw(2);
    /* Of each block, so that all have room with gaps. */
    int each = count / many - 1 < 0 ? 0 : count / many - 1;
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
        case 8: case 9: collect(comm, step, each, root, in_place, draw(2), draw(2)); break;
        case 10: collect(comm, step, each, -1, in_place, draw(2), 0); break;
        case 11: case 12: deal(comm, step, each, root, in_place, draw(2), draw(2)); break;
        case 13: exchange_uneven(comm, step, each, in_place, draw(2)); break;
        case 14: scan(comm, step, count, in_place, draw(2)); break;
        default: exchange(comm, step, count, in_place);
    }
    if (has_request) {
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(later == sum(step, 0));
    }
}

static int steps;

/* The steps of a thread. */
struct walk {
    MPI_Comm comm;
    unsigned seed;
};

static void *walk(void *argument) {
    struct walk *of = argument;
    MPI_Comm comms[4] = {of->comm, MPI_COMM_NULL};
    state = of->seed;
    own = malloc(2 * MOST * sizeof *own), all = malloc(2 * MOST * sizeof *all);
    OK(MPI_Comm_split(of->comm, rank, 0, &comms[1]));
    OK(MPI_Comm_dup(of->comm, &comms[2]));
    OK(MPI_Comm_split(of->comm, rank % 2, -rank, &comms[3]));
    for (int step = 0; step < steps; step++) {
        unsigned long long before = state;
        one(comms[draw(4)], step);
        /* All draw alike, also those that were not in it. */
        state = before + 1;
        if (step % 100 == 99) {
            OK(MPI_Comm_free(&comms[2]));
            OK(MPI_Comm_dup(of->comm, &comms[2]));
        }
    }
    for (int i = 1; i < 4; i++) OK(MPI_Comm_free(&comms[i]));
    free(own), free(all);
    return NULL;
}

int main(int argc, char **argv) {
    enum { THREADS = 3 };
    int has_threads = argc > 3, level;
    OK(MPI_Init_thread(&argc, &argv, has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    steps = argc > 1 ? atoi(argv[1]) : 300;
    unsigned seed = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    MPI_Datatype apart;
    OK(MPI_Type_create_resized(MPI_LONG, 0, 2 * sizeof(long), &apart));
    OK(MPI_Type_dup(apart, &every_other));
    OK(MPI_Type_free(&apart));
    OK(MPI_Type_commit(&every_other));
    struct walk walks[THREADS];
    for (int t = 0; t < THREADS; t++) {
        walks[t].seed = seed * THREADS + t;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &walks[t].comm));
    }
    if (has_threads) {
        pthread_t threads[THREADS];
        CHECK(level == MPI_THREAD_MULTIPLE);
        for (int t = 0; t < THREADS; t++) CHECK(pthread_create(&threads[t], NULL, walk, &walks[t]) == 0);
        for (int t = 0; t < THREADS; t++) CHECK(pthread_join(threads[t], NULL) == 0);
    } else {
        struct walk world = {MPI_COMM_WORLD, seed};
        walk(&world);
    }
    for (int t = 0; t < THREADS; t++) OK(MPI_Comm_free(&walks[t].comm));
    OK(MPI_Type_free(&every_other));
    OK(MPI_Finalize());
    return 0;
}
