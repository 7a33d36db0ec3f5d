/* Random accesses to windows, whose memory is held against plain arrays: all processes draw the accesses of all from one seed. What
 * accesses of one epoch do is the same in any order: puts of different processes do not meet, and accumulates commute. */
#include "check.h"
#include <stdint.h>

#define SLOT 48
#define MOST 8
#define ROUNDS 60
#define EACH 5

static uint64_t state;

static uint32_t draw(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16) % below;
}

enum { INT8, INT16, INT32, INT64, FLOAT, DOUBLE, TYPES };
enum { FENCE, EXCLUSIVE, LOCKED, LOCKED_ALL, OPENED, ORDERS };
enum { PUT, GET, SUM, MAX, PROD, BXOR, REPLACE, WHATS };

static const size_t BYTES[] = {1, 2, 4, 8, 4, 8};
static int64_t model[MOST][MOST * SLOT];
static char *base;
static MPI_Win win;
static MPI_Group everyone;

static void store(void *at, int type, int64_t value) {
    switch (type) {
    case INT8: *(int8_t *)at = (int8_t)value; break;
    case INT16: *(int16_t *)at = (int16_t)value; break;
    case INT32: *(int32_t *)at = (int32_t)value; break;
    case INT64: *(int64_t *)at = value; break;
    case FLOAT: *(float *)at = (float)value; break;
    default: *(double *)at = (double)value;
    }
}

static int64_t load(const void *at, int type) {
    switch (type) {
    case INT8: return *(const int8_t *)at;
    case INT16: return *(const int16_t *)at;
    case INT32: return *(const int32_t *)at;
    case INT64: return *(const int64_t *)at;
    case FLOAT: return (int64_t) * (const float *)at;
    default: return (int64_t) * (const double *)at;
    }
}

static int64_t combine(int what, int type, int64_t old, int64_t new) {
    char room[8];
    switch (what) {
    case SUM: new += old; break;
    case MAX: new = new > old ? new : old; break;
    case PROD: new *= old; break;
    case BXOR: new ^= old; break;
    default: break;
    }
    store(room, type, new);
    return load(room, type);
}

/* One access of `origin`, done by it and noted in the model. */
static void access_one(int origin, int what, int type, MPI_Datatype mpi, int order) {
    int target = draw(size), blocks = 1 + draw(4), len = 1 + draw(4), stride = len + draw(5);
    int span = (blocks - 1) * stride + len, own = what == PUT || what == GET || what == REPLACE;
    int from = (own ? origin * SLOT : 0) + draw(own ? SLOT - span + 1 : size * SLOT - span + 1);
    int fetches = what >= SUM && own && draw(2), many = blocks * len;
    int packed = draw(2);
    /* Another access comes only when this one is done, or is another process's. */
    static char mine_room[64 * 8], got[64 * 8];
    char other_room[64 * 8], *values = origin == rank ? mine_room : other_room;
    MPI_Datatype vector;
    MPI_Op op = what == SUM ? MPI_SUM : what == MAX ? MPI_MAX : what == PROD ? MPI_PROD : what == BXOR ? MPI_BXOR : MPI_REPLACE;
    int64_t before[64];
    for (int i = 0; i < 64; i++) store(values + i * BYTES[type], type, 0);
    for (int i = 0; i < many; i++) {
        int at = from + i / len * stride + i % len;
        int64_t value = what == PROD ? 1 - 2 * (int)draw(2) : (int)draw(9) - 3;
        store(values + (packed ? i : i / len * stride + i % len) * BYTES[type], type, value);
        before[i] = model[target][at];
        if (what != GET) model[target][at] = combine(what, type, model[target][at], value);
    }
    if (origin != rank) {
        if (order == FENCE) OK(MPI_Win_fence(0, win));
        return;
    }
    OK(MPI_Type_vector(blocks, len, stride, mpi, &vector));
    OK(MPI_Type_commit(&vector));
    int count = packed ? many : 1;
    MPI_Datatype mine = packed ? mpi : vector;
    if (order == EXCLUSIVE || order == LOCKED)
        OK(MPI_Win_lock(order == EXCLUSIVE ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0, win));
    MPI_Aint disp = (MPI_Aint)(from * BYTES[type]);
    if (what == PUT)
        OK(MPI_Put(values, count, mine, target, disp, 1, vector, win));
    else if (what == GET)
        OK(MPI_Get(got, count, mine, target, disp, 1, vector, win));
    else if (fetches)
        OK(MPI_Get_accumulate(values, count, mine, got, count, mine, target, disp, 1, vector, op, win));
    else
        OK(MPI_Accumulate(values, count, mine, target, disp, 1, vector, op, win));
    if (order == EXCLUSIVE || order == LOCKED) OK(MPI_Win_unlock(target, win));
    if ((what == GET || fetches) && order != OPENED) {
        if (order == LOCKED_ALL) OK(MPI_Win_flush(target, win));
        if (order == FENCE) OK(MPI_Win_fence(0, win));
        for (int i = 0; i < many; i++)
            CHECK(load(got + (packed ? i : i / len * stride + i % len) * BYTES[type], type) == before[i]);
    } else if (order == FENCE)
        OK(MPI_Win_fence(0, win));
    OK(MPI_Type_free(&vector));
}

static void round_of(int number) {
    MPI_Datatype types[] = {MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_FLOAT, MPI_DOUBLE};
    int type = draw(TYPES), order = draw(ORDERS), what = draw(WHATS);
    if (what == BXOR && type >= FLOAT) what = SUM;
    /* Here each access is an epoch of its own, of all processes. */
    int each = order == FENCE || order == OPENED ? 1 : EACH;
    for (int r = 0; r < size; r++)
        for (int i = 0; i < size * SLOT; i++) model[r][i] = what == PROD ? 1 : (int)draw(5);
    for (int i = 0; i < size * SLOT; i++) store(base + i * BYTES[type], type, model[rank][i]);
    OK(MPI_Win_fence(0, win));
    if (order == OPENED) {
        OK(MPI_Win_post(everyone, 0, win));
        OK(MPI_Win_start(everyone, 0, win));
    }
    if (order == LOCKED_ALL) OK(MPI_Win_lock_all(0, win));
    for (int origin = 0; origin < size; origin++)
        for (int i = 0; i < each; i++) access_one(origin, what, type, types[type], order);
    if (order == OPENED) {
        OK(MPI_Win_complete(win));
        OK(MPI_Win_wait(win));
    }
    if (order == LOCKED_ALL) OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < size * SLOT; i++) {
        int64_t found = load(base + i * BYTES[type], type);
        if (found != model[rank][i])
            fprintf(stderr, "round %d, type %d, order %d, what %d: element %d is %lld, not %lld\n", number, type, order,
                    what, i, (long long)found, (long long)model[rank][i]);
        CHECK(found == model[rank][i]);
    }
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(size <= MOST);
    int seed = argc > 1 ? atoi(argv[1]) : 1;
    MPI_Aint bytes = (MPI_Aint)size * SLOT * 8;
    for (int allocate = 0; allocate < 2; allocate++) {
        if (allocate) {
            OK(MPI_Win_allocate(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
        } else {
            base = malloc(bytes);
            OK(MPI_Win_create(base, bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        }
        OK(MPI_Win_get_group(win, &everyone));
        state = 0x9e3779b97f4a7c15u * (uint64_t)(seed + 2 * allocate + 1);
        for (int round = 0; round < ROUNDS; round++) round_of(round);
        OK(MPI_Group_free(&everyone));
        OK(MPI_Win_free(&win));
        if (!allocate) free(base);
    }
    OK(MPI_Finalize());
    return 0;
}
