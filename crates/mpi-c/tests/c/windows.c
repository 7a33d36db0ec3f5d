/* Windows of every kind, every way to order accesses, every access, and what is known of a window. With an argument, nothing that is wrong is
 * tried: other libraries do not all notice. */
#include "check.h"
#include <stdint.h>

#define MANY 1000

static int strict;

static int right(void) { return (rank + 1) % size; }
static int left(void) { return (rank + size - 1) % size; }

/* The kinds of windows whose memory has displacements from 0 on. */
enum { CREATED, ALLOCATED, SHARED, KINDS };

static int make(int kind, MPI_Aint bytes, int unit, void *base, MPI_Win *win) {
    void *own = malloc(bytes + 1);
    int code = MPI_SUCCESS;
    *(void **)base = own;
    if (kind == CREATED) return MPI_Win_create(own, bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, win);
    free(own);
    if (kind == ALLOCATED) return MPI_Win_allocate(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, win);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    code = MPI_Win_allocate_shared(bytes, unit, MPI_INFO_NULL, MPI_COMM_WORLD, base, win);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
    return code;
}

static void drop(int kind, void *base, MPI_Win *win) {
    OK(MPI_Win_free(win));
    CHECK(*win == MPI_WIN_NULL);
    if (kind == CREATED) free(base);
}

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

static void fences(int *base, MPI_Win win) {
    int mine[MANY], theirs[MANY];
    for (int i = 0; i < MANY; i++) {
        base[i] = -1;
        mine[i] = rank * MANY + i;
    }
    OK(MPI_Win_fence(MPI_MODE_NOPRECEDE, win));
    OK(MPI_Put(mine, MANY, MPI_INT, right(), 0, MANY, MPI_INT, win));
    OK(MPI_Put(NULL, 0, MPI_INT, right(), 0, 0, MPI_INT, win));
    OK(MPI_Put(mine, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < MANY; i++) CHECK(base[i] == left() * MANY + i);
    OK(MPI_Get(theirs, MANY, MPI_INT, left(), 0, MANY, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < MANY; i++) CHECK(theirs[i] == (left() + size - 1) % size * MANY + i);
    OK(MPI_Accumulate(mine, MANY, MPI_INT, right(), 0, MANY, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, win));
    for (int i = 0; i < MANY; i++) CHECK(base[i] == 2 * (left() * MANY + i));
}

static void derived(double *base, MPI_Win win) {
    MPI_Datatype vector, column;
    double mine[40], theirs[40];
    OK(MPI_Type_vector(10, 1, 3, MPI_DOUBLE, &vector));
    OK(MPI_Type_vector(10, 1, 4, MPI_DOUBLE, &column));
    OK(MPI_Type_commit(&vector));
    OK(MPI_Type_commit(&column));
    for (int i = 0; i < 100; i++) base[i] = 0;
    for (int i = 0; i < 40; i++) mine[i] = rank + i, theirs[i] = -1;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(mine, 1, column, right(), 2, 1, vector, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 100; i++) CHECK(base[i] == (i >= 2 && i < 32 && i % 3 == 2 ? left() + (i - 2) / 3 * 4 : 0));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Accumulate(mine, 10, MPI_DOUBLE, right(), 2, 1, vector, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get(theirs, 1, column, right(), 2, 1, vector, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 37; i++) CHECK(theirs[i] == (i % 4 ? -1 : rank + i + rank + i / 4));
    OK(MPI_Type_free(&vector));
    OK(MPI_Type_free(&column));
}

/* Pairs have gaps, which hold no data. */
static void pairs(void *base, MPI_Win win) {
    struct { double value; int index; } *own = base, mine[3], old[3];
    struct { short value; int index; } best = {7, 1}, was;
    for (int i = 0; i < 3; i++) {
        own[i].value = 1.5, own[i].index = 100;
        mine[i].value = i - 1.0, mine[i].index = 10 * rank + i;
        old[i].value = 0, old[i].index = 0;
    }
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get_accumulate(mine, 3, MPI_DOUBLE_INT, old, 3, MPI_DOUBLE_INT, right(), 0, 3, MPI_DOUBLE_INT, MPI_MINLOC, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < 3; i++) {
        CHECK(old[i].value == 1.5 && old[i].index == 100);
        CHECK(own[i].value == i - 1.0 && own[i].index == 10 * left() + i);
    }
    memset(base, 0, 64);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Fetch_and_op(&best, &was, MPI_SHORT_INT, right(), 0, MPI_MAXLOC, win));
    OK(MPI_Win_fence(0, win));
    CHECK(was.value == 0 && was.index == 0);
    CHECK(((short *)base)[0] == 7 && ((int *)base)[1] == 1);
    /* A pair of equal types has the signature of two elements. */
    MPI_Datatype some;
    int places[] = {2, 0}, two[2][2] = {{5, rank}, {-5, rank}}, (*at)[2] = base;
    memset(base, 0, 64);
    OK(MPI_Type_create_indexed_block(2, 1, places, MPI_2INT, &some));
    OK(MPI_Type_commit(&some));
    OK(MPI_Win_fence(0, win));
    OK(MPI_Accumulate(two, 2, MPI_2INT, right(), 0, 1, some, MPI_MAXLOC, win));
    OK(MPI_Win_fence(0, win));
    CHECK(at[2][0] == 5 && at[2][1] == left() && at[0][0] == 0 && at[0][1] == 0);
    OK(MPI_Type_free(&some));
}

static void locks(int64_t *base, MPI_Win win) {
    int64_t one = 1, old, sum = 0;
    for (int i = 0; i < 10; i++) base[i] = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < 100; i++) {
        int64_t value;
        OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win));
        OK(MPI_Get(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win));
        OK(MPI_Win_flush(0, win));
        value++;
        OK(MPI_Put(&value, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win));
        OK(MPI_Win_unlock(0, win));
        OK(MPI_Win_lock(MPI_LOCK_SHARED, size - 1, 0, win));
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT64_T, size - 1, 1, MPI_SUM, win));
        OK(MPI_Win_flush_local(size - 1, win));
        OK(MPI_Win_unlock(size - 1, win));
        CHECK(old >= i && old < 100 * size);
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Get(&sum, 1, MPI_INT64_T, 0, 0, 1, MPI_INT64_T, win));
    OK(MPI_Get_accumulate(NULL, 0, MPI_INT64_T, &old, 1, MPI_INT64_T, size - 1, 1, 1, MPI_INT64_T, MPI_NO_OP, win));
    OK(MPI_Win_flush_all(win));
    CHECK(sum == 100 * size && old == 100 * size);
    OK(MPI_Win_flush_local_all(win));
    OK(MPI_Win_sync(win));
    /* One of them wins. */
    int64_t nothing = 0, me = rank + 1, before;
    OK(MPI_Compare_and_swap(&me, &nothing, &before, MPI_INT64_T, 0, 2, win));
    OK(MPI_Win_flush(0, win));
    int won = before == 0, winners;
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Allreduce(&won, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(winners == 1);
    if (rank == 0) CHECK(base[2] >= 1 && base[2] <= size);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Accumulates of all to one, small and large, of floats too. */
static void sums(double *base, MPI_Win win) {
    double mine[MANY], old;
    for (int i = 0; i < MANY; i++) base[i] = 0, mine[i] = 1;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < 20; i++) {
        OK(MPI_Accumulate(mine, MANY, MPI_DOUBLE, 0, 0, MANY, MPI_DOUBLE, MPI_SUM, win));
        OK(MPI_Fetch_and_op(mine, &old, MPI_DOUBLE, 0, 7 * i, MPI_SUM, win));
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        for (int i = 0; i < MANY; i++) CHECK(base[i] == 20 * size + (i % 7 == 0 && i < 140 ? size : 0));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void requests(int *base, MPI_Win win) {
    MPI_Request all[4];
    int mine[MANY], got[MANY], old[MANY], one[MANY];
    for (int i = 0; i < MANY; i++) base[i] = 0, mine[i] = rank + i, one[i] = 1;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Rput(mine, MANY, MPI_INT, right(), 0, MANY, MPI_INT, win, &all[0]));
    OK(MPI_Wait(&all[0], MPI_STATUS_IGNORE));
    OK(MPI_Win_flush_all(win));
    OK(MPI_Rget(got, MANY, MPI_INT, right(), 0, MANY, MPI_INT, win, &all[0]));
    OK(MPI_Wait(&all[0], MPI_STATUS_IGNORE));
    for (int i = 0; i < MANY; i++) CHECK(got[i] == mine[i]);
    OK(MPI_Raccumulate(one, MANY, MPI_INT, right(), 0, MANY, MPI_INT, MPI_SUM, win, &all[0]));
    OK(MPI_Wait(&all[0], MPI_STATUS_IGNORE));
    OK(MPI_Win_flush(right(), win));
    OK(MPI_Rget_accumulate(one, MANY, MPI_INT, old, MANY, MPI_INT, right(), 0, MANY, MPI_INT, MPI_REPLACE, win, &all[0]));
    OK(MPI_Rput(mine, 1, MPI_INT, MPI_PROC_NULL, 0, 1, MPI_INT, win, &all[1]));
    OK(MPI_Waitall(2, all, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) CHECK(old[i] == mine[i] + 1);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    for (int i = 0; i < MANY; i++) CHECK(base[i] == 1);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void opened(int *base, MPI_Win win) {
    MPI_Group all, before, behind;
    int l = left(), r = right(), flag = 0;
    OK(MPI_Win_get_group(win, &all));
    OK(MPI_Group_incl(all, 1, &l, &before));
    OK(MPI_Group_incl(all, 1, &r, &behind));
    for (int round = 0; round < 10; round++) {
        base[0] = -1;
        OK(MPI_Win_post(before, 0, win));
        OK(MPI_Win_start(behind, 0, win));
        int value = rank + round;
        OK(MPI_Put(&value, 1, MPI_INT, r, 0, 1, MPI_INT, win));
        OK(MPI_Win_complete(win));
        if (round % 2)
            OK(MPI_Win_wait(win));
        else
            for (flag = 0; !flag;) OK(MPI_Win_test(win, &flag));
        CHECK(base[0] == l + round);
    }
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&before));
    OK(MPI_Group_free(&behind));
}

static void mistakes(int *base, MPI_Win win) {
    int value = 0, others = 0;
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    CHECK(class_of(MPI_Win_unlock(0, win)) == MPI_ERR_RMA_SYNC);
    CHECK(class_of(MPI_Win_flush(0, win)) == MPI_ERR_RMA_SYNC);
    CHECK(class_of(MPI_Win_complete(win)) == MPI_ERR_RMA_SYNC);
    CHECK(class_of(MPI_Win_wait(win)) == MPI_ERR_RMA_SYNC);
    CHECK(class_of(MPI_Put(&value, 1, MPI_INT, 0, 0, 1, MPI_INT, win)) == MPI_ERR_RMA_SYNC);
    CHECK(class_of(MPI_Win_lock(77, 0, 0, win)) == MPI_ERR_LOCKTYPE);
    CHECK(class_of(MPI_Win_lock(MPI_LOCK_SHARED, size, 0, win)) == MPI_ERR_RANK);
    OK(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win));
    CHECK(class_of(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win)) == MPI_ERR_RMA_SYNC);
    CHECK(class_of(MPI_Win_unlock_all(win)) == MPI_ERR_RMA_SYNC);
    CHECK(class_of(MPI_Put(&value, 1, MPI_INT, rank, -1, 1, MPI_INT, win)) == MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Put(&value, 1, MPI_INT, rank, INT64_MAX, 1, MPI_INT, win)) == MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Get(&value, 1, MPI_INT, rank, 1 << 20, 1, MPI_INT, win)) == MPI_ERR_RMA_RANGE);
    CHECK(class_of(MPI_Put(&value, -1, MPI_INT, rank, 0, 1, MPI_INT, win)) == MPI_ERR_COUNT);
    CHECK(class_of(MPI_Put(&value, 1, MPI_INT, rank, 0, 2, MPI_INT, win)) == MPI_ERR_ARG);
    CHECK(class_of(MPI_Accumulate(&value, 1, MPI_INT, rank, 0, 1, MPI_INT, MPI_OP_NULL, win)) == MPI_ERR_OP);
    CHECK(class_of(MPI_Accumulate(&value, 1, MPI_FLOAT, rank, 0, 1, MPI_FLOAT, MPI_BAND, win)) == MPI_ERR_OP);
    CHECK(class_of(MPI_Accumulate(&value, 1, MPI_FLOAT, rank, 0, 1, MPI_INT, MPI_SUM, win)) == MPI_ERR_TYPE);
    CHECK(class_of(MPI_Win_attach(win, &others, 4)) == MPI_ERR_RMA_FLAVOR);
    OK(MPI_Win_unlock(rank, win));
    (void)base;
}

static int copies, deletes;
static int delete(MPI_Win win, int key, void *value, void *extra) {
    (void)win, (void)key, (void)value, (void)extra;
    return deletes++, MPI_SUCCESS;
}

static int handled;
static void handler(MPI_Win *win, int *code, ...) {
    (void)win;
    handled = class_of(*code);
}

static void known(int kind, void *base, MPI_Aint bytes, int unit, MPI_Win win) {
    static const int flavors[] = {MPI_WIN_FLAVOR_CREATE, MPI_WIN_FLAVOR_ALLOCATE, MPI_WIN_FLAVOR_SHARED};
    void *value;
    int flag, len, key, number = 5, result;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Errhandler errhandler, set;
    MPI_Info info;
    MPI_Group group, world;
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag));
    CHECK(flag && value == base);
    OK(MPI_Win_get_attr(win, MPI_WIN_SIZE, &value, &flag));
    CHECK(flag && *(MPI_Aint *)value == bytes);
    OK(MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &value, &flag));
    CHECK(flag && *(int *)value == unit);
    OK(MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &value, &flag));
    CHECK(flag && *(int *)value == flavors[kind]);
    OK(MPI_Win_get_attr(win, MPI_WIN_MODEL, &value, &flag));
    CHECK(flag && *(int *)value == MPI_WIN_UNIFIED);
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, delete, &key, NULL));
    OK(MPI_Win_get_attr(win, key, &value, &flag));
    CHECK(!flag);
    OK(MPI_Win_set_attr(win, key, &number));
    OK(MPI_Win_get_attr(win, key, &value, &flag));
    CHECK(flag && value == &number);
    OK(MPI_Win_delete_attr(win, key));
    CHECK(deletes == 1 && copies == 0);
    OK(MPI_Win_set_attr(win, key, &number));
    OK(MPI_Win_free_keyval(&key));
    CHECK(key == MPI_KEYVAL_INVALID);
    OK(MPI_Win_get_name(win, name, &len));
    CHECK(len == 0 && name[0] == 0);
    OK(MPI_Win_set_name(win, "a window"));
    OK(MPI_Win_get_name(win, name, &len));
    CHECK(len == 8 && strcmp(name, "a window") == 0);
    OK(MPI_Win_get_errhandler(win, &errhandler));
    CHECK(errhandler == MPI_ERRORS_ARE_FATAL);
    OK(MPI_Win_create_errhandler(handler, &errhandler));
    OK(MPI_Win_set_errhandler(win, errhandler));
    OK(MPI_Win_get_errhandler(win, &set));
    CHECK(set == errhandler);
    OK(MPI_Errhandler_free(&set));
    OK(MPI_Win_call_errhandler(win, MPI_ERR_RMA_CONFLICT));
    CHECK(handled == MPI_ERR_RMA_CONFLICT);
    if (strict) {
        CHECK(class_of(MPI_Win_unlock(0, win)) == MPI_ERR_RMA_SYNC);
        CHECK(handled == MPI_ERR_RMA_SYNC);
    }
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "no_locks", "false"));
    OK(MPI_Win_set_info(win, info));
    OK(MPI_Info_delete(info, "no_locks"));
    OK(MPI_Info_set(info, "same_size", "true"));
    OK(MPI_Win_set_info(win, info));
    OK(MPI_Info_free(&info));
    /* Hints that are not set anew stay. */
    OK(MPI_Win_get_info(win, &info));
    for (int i = 0; i < 2; i++) {
        char value[8];
        int len = sizeof value, flag;
        OK(MPI_Info_get_string(info, i ? "same_size" : "no_locks", &len, value, &flag));
        CHECK(!is_ours() || (flag && !strcmp(value, i ? "true" : "false")));
    }
    OK(MPI_Info_free(&info));
    OK(MPI_Win_get_group(win, &group));
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_compare(group, world, &result));
    CHECK(result == MPI_IDENT);
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&world));
}

static void shared(void) {
    MPI_Win win;
    char *base, *theirs;
    MPI_Aint bytes;
    int unit;
    /* One process behind the other, and an odd number of bytes. */
    OK(MPI_Win_allocate_shared(rank * 3 + 1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    char *expected = NULL;
    for (int r = 0; r < size; r++) {
        OK(MPI_Win_shared_query(win, r, &bytes, &unit, &theirs));
        CHECK(bytes == r * 3 + 1 && unit == 1);
        CHECK(r == 0 || theirs == expected);
        CHECK(r != rank || theirs == base);
        expected = theirs + bytes;
    }
    memset(base, rank + 1, bytes < rank * 3 + 1 ? bytes : rank * 3 + 1);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_shared_query(win, right(), &bytes, &unit, &theirs));
    for (int i = 0; i < bytes; i++) CHECK(theirs[i] == right() + 1);
    OK(MPI_Win_fence(0, win));
    /* Elements that lie at odd addresses. */
    int32_t one = 1, old;
    if (size > 1) {
        OK(MPI_Win_lock_all(0, win));
        OK(MPI_Fetch_and_op(&one, &old, MPI_INT32_T, 1, 0, MPI_SUM, win));
        OK(MPI_Win_unlock_all(win));
        OK(MPI_Win_fence(0, win));
        if (rank == 1) {
            memcpy(&old, base, 4);
            CHECK(old == 0x02020202 + size);
        }
    }
    OK(MPI_Win_shared_query(win, MPI_PROC_NULL, &bytes, &unit, &theirs));
    CHECK(bytes == 1);
    OK(MPI_Win_free(&win));
    MPI_Info info;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "alloc_shared_noncontig", "true"));
    OK(MPI_Win_allocate_shared(10, 1, info, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Info_free(&info));
    CHECK((uintptr_t)base % 16 == 0);
    OK(MPI_Win_free(&win));
}

static void dynamic(void) {
    MPI_Win win;
    int memory[MANY], value, got;
    MPI_Aint *where = malloc(size * sizeof *where), own;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_attach(win, memory, sizeof memory));
    if (strict) CHECK(class_of(MPI_Win_attach(win, memory + 1, 4)) == MPI_ERR_RMA_ATTACH);
    OK(MPI_Get_address(memory, &own));
    OK(MPI_Allgather(&own, 1, MPI_AINT, where, 1, MPI_AINT, MPI_COMM_WORLD));
    value = 1000 + rank;
    memory[5] = -1;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, right(), where[right()] + 20, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK(memory[5] == 1000 + left());
    OK(MPI_Win_lock_all(0, win));
    OK(MPI_Fetch_and_op(&value, &got, MPI_INT, right(), where[right()] + 20, MPI_REPLACE, win));
    OK(MPI_Win_flush(right(), win));
    CHECK(got == value);
    if (strict) {
        /* Outside of attached memory. */
        int code = MPI_Get(&got, 1, MPI_INT, right(), 64, 1, MPI_INT, win);
        if (code == MPI_SUCCESS) code = MPI_Win_flush(right(), win);
        CHECK(class_of(code) == MPI_ERR_RMA_RANGE);
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_detach(win, memory));
    if (strict) CHECK(class_of(MPI_Win_detach(win, memory)) == MPI_ERR_RMA_ATTACH);
    OK(MPI_Win_free(&win));
    free(where);
}

/* An access to oneself over pieces that were attached one by one. */
static void apart(void) {
    MPI_Win win;
    MPI_Datatype both;
    int *pieces[2] = {calloc(1, sizeof(int)), calloc(1, sizeof(int))}, sent[2] = {7, 8}, got[2] = {0, 0}, lengths[2] = {1, 1};
    MPI_Aint where[2];
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    for (int i = 0; i < 2; i++) {
        OK(MPI_Win_attach(win, pieces[i], sizeof(int)));
        OK(MPI_Get_address(pieces[i], &where[i]));
    }
    OK(MPI_Type_create_hindexed(2, lengths, where, MPI_INT, &both));
    OK(MPI_Type_commit(&both));
    OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, rank, 0, win));
    OK(MPI_Put(sent, 2, MPI_INT, rank, 0, 1, both, win));
    OK(MPI_Win_flush(rank, win));
    CHECK(*pieces[0] == 7 && *pieces[1] == 8);
    OK(MPI_Accumulate(sent, 2, MPI_INT, rank, 0, 1, both, MPI_SUM, win));
    OK(MPI_Get(got, 2, MPI_INT, rank, 0, 1, both, win));
    OK(MPI_Win_unlock(rank, win));
    CHECK(got[0] == 14 && got[1] == 16);
    OK(MPI_Type_free(&both));
    OK(MPI_Win_free(&win));
    for (int i = 0; i < 2; i++) free(pieces[i]);
}

/* A process that only accesses its own memory sees what another one does there. */
static void seen(void) {
    MPI_Win win;
    int *own = calloc(1, sizeof *own), found = 0, one = 1;
    MPI_Aint at, first;
    OK(MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    OK(MPI_Win_attach(win, own, sizeof *own));
    OK(MPI_Get_address(own, &at));
    first = at;
    OK(MPI_Bcast(&first, 1, MPI_AINT, 0, MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    if (rank == size - 1) {
        OK(MPI_Accumulate(&one, 1, MPI_INT, 0, first, 1, MPI_INT, MPI_REPLACE, win));
        OK(MPI_Win_flush(0, win));
    }
    while (rank == 0 && !found) {
        OK(MPI_Get_accumulate(NULL, 0, MPI_INT, &found, 1, MPI_INT, 0, at, 1, MPI_INT, MPI_NO_OP, win));
        OK(MPI_Win_flush(0, win));
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    free(own);
}

/* Of two processes that each change one word, flush, and then get the other's, at least one gets the change. */
static void crossing(int kind) {
    enum { APART = 16, ROUNDS = 3000 };
    int64_t *base, got, old, other;
    MPI_Win win;
    if (size < 2) return;
    OK(make(kind, 2 * APART * sizeof *base, sizeof *base, &base, &win));
    for (int i = 0; i < 2 * APART; i++) base[i] = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Win_lock_all(0, win));
    for (int64_t i = 1; i <= ROUNDS && rank < 2; i++) {
        OK(MPI_Sendrecv(&i, 1, MPI_INT64_T, !rank, 0, &other, 1, MPI_INT64_T, !rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (i % 3 == 0) OK(MPI_Put(&i, 1, MPI_INT64_T, 0, rank * APART, 1, MPI_INT64_T, win));
        else if (i % 3 == 1) OK(MPI_Accumulate(&i, 1, MPI_INT64_T, 0, rank * APART, 1, MPI_INT64_T, MPI_REPLACE, win));
        else OK(MPI_Fetch_and_op(&i, &old, MPI_INT64_T, 0, rank * APART, MPI_REPLACE, win));
        OK(MPI_Win_flush(0, win));
        OK(MPI_Get(&got, 1, MPI_INT64_T, 0, !rank * APART, 1, MPI_INT64_T, win));
        OK(MPI_Win_flush(0, win));
        OK(MPI_Sendrecv(&got, 1, MPI_INT64_T, !rank, 1, &other, 1, MPI_INT64_T, !rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(got == i || other == i);
        CHECK(got >= i - 1 && other >= i - 1);
    }
    OK(MPI_Win_unlock_all(win));
    drop(kind, base, &win);
}

/* Memory without bytes has the address that the program gave. */
static void empty(void) {
    MPI_Win win;
    void *found, *base;
    int flag;
    char *given[] = {(char *)&win, NULL};
    for (int i = 0; i < 2; i++) {
        OK(MPI_Win_create(given[i], 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
        OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &found, &flag));
        CHECK(flag && found == given[i]);
        OK(MPI_Win_free(&win));
    }
    OK(MPI_Win_allocate(rank ? 8 : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &win));
    OK(MPI_Win_get_attr(win, MPI_WIN_BASE, &found, &flag));
    CHECK(flag && (found == base || !is_ours()) && (!rank || base) && (rank || !base || !is_ours()));
    OK(MPI_Win_free(&win));
}

/* More bytes than any message holds at once. */
static void large(int kind) {
    int many = 1 << 18;
    double *base, *mine = malloc(many * sizeof *mine), *old = malloc(many * sizeof *old);
    MPI_Win win;
    OK(make(kind, many * sizeof *base, sizeof *base, &base, &win));
    for (int i = 0; i < many; i++) mine[i] = i + rank, base[i] = 0;
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put_c(mine, many, MPI_DOUBLE, right(), 0, many, MPI_DOUBLE, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < many; i++) CHECK(base[i] == i + left());
    OK(MPI_Win_fence(0, win));
    OK(MPI_Get_accumulate_c(mine, many, MPI_DOUBLE, old, many, MPI_DOUBLE, right(), 0, many, MPI_DOUBLE, MPI_SUM, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < many; i++) CHECK(base[i] == 2 * (i + left()) && old[i] == i + rank);
    OK(MPI_Get(old, many, MPI_DOUBLE, left(), 0, many, MPI_DOUBLE, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < many; i++) CHECK(old[i] == 2 * (i + (left() + size - 1) % size));
    drop(kind, base, &win);
    free(mine);
    free(old);
}

int main(int argc, char **argv) {
    MPI_Win win;
    void *base;
    begin(&argc, &argv);
    /* Communicators of its own each has had in different numbers. */
    for (int at = 0; at < rank; at++) {
        MPI_Comm own;
        OK(MPI_Comm_dup(MPI_COMM_SELF, &own));
        OK(MPI_Comm_free(&own));
    }
    strict = argc == 1;
    int can_share = 1;
    for (int kind = 0; kind < KINDS; kind++) {
        MPI_Aint bytes = MANY * 8;
        if (make(kind, bytes, 4, &base, &win) != MPI_SUCCESS) {
            CHECK(kind == SHARED);
            can_share = 0;
            continue;
        }
        deletes = 0;
        known(kind, base, bytes, 4, win);
        fences(base, win);
        opened(base, win);
        requests(base, win);
        if (strict) mistakes(base, win);
        drop(kind, base, &win);
        CHECK(deletes == 2);
        OK(make(kind, bytes, 8, &base, &win));
        derived(base, win);
        locks(base, win);
        sums(base, win);
        drop(kind, base, &win);
        OK(make(kind, bytes, 1, &base, &win));
        pairs(base, win);
        drop(kind, base, &win);
        large(kind);
        crossing(kind);
    }
    if (can_share) shared();
    empty();
    seen();
    dynamic();
    apart();
    OK(MPI_Finalize());
    return 0;
}
