/* Long collective operations, in which ranks of one host read each other's memory: of odd lengths, in place, with pairs, with operations of the program's, with gaps. With the
 * argument "blind" the last rank is kept from reading others' memory once some are done: the operation then, and those behind it, have to work all the same. */
#include "check.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { MOST = 700001 };

static long *own, *all;
static MPI_Datatype every_other;
static MPI_Op plus;

static void add(void *in, void *inout, int *len, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *len; i++) ((long *)inout)[i] += ((long *)in)[i];
}

static long value(int step, int r, int i) { return (long)step * 7919 + r * 104729 + i; }

static long sum(int step, int i) {
    long total = 0;
    for (int r = 0; r < size; r++) total += value(step, r, i);
    return total;
}

static void clear(void) { memset(all, 0x55, (2 * MOST + 1) * sizeof *all); }

static void allreduce(int step, int count, int in_place, MPI_Op op) {
    clear();
    for (int i = 0; i < count; i++) own[i] = value(step, rank, i);
    if (in_place) memcpy(all, own, (size_t)count * sizeof *all);
    OK(MPI_Allreduce(in_place ? MPI_IN_PLACE : own, all, count, MPI_LONG, op, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) CHECK(all[i] == sum(step, i) && own[i] == value(step, rank, i));
    CHECK(all[count] == 0x5555555555555555);
}

static void reduce_scatter(int step, int count, int in_place) {
    int *counts = malloc((size_t)size * sizeof *counts), total = 0, at = 0;
    for (int r = 0; r < size; r++) {
        counts[r] = (count / size) * (r % 3);
        at += r < rank ? counts[r] : 0;
        total += counts[r];
    }
    clear();
    for (int i = 0; i < total; i++) own[i] = value(step, rank, i);
    if (in_place) memcpy(all, own, (size_t)total * sizeof *all);
    OK(MPI_Reduce_scatter(in_place ? MPI_IN_PLACE : own, all, counts, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < counts[rank]; i++) CHECK(all[i] == sum(step, at + i));
    if (!in_place) CHECK(all[counts[rank]] == 0x5555555555555555);
    free(counts);
}

static void gather(int step, int count, int in_place, int spread) {
    int wide = 1 + spread;
    count /= size;
    clear();
    for (int i = 0; i < count; i++) own[i] = value(step, rank, i);
    if (in_place)
        for (int i = 0; i < count; i++) all[(rank * count + i) * wide] = own[i];
    MPI_Datatype type = spread ? every_other : MPI_LONG;
    OK(MPI_Allgather(in_place ? MPI_IN_PLACE : own, count, MPI_LONG, all, count, type, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++) CHECK(all[(r * count + i) * wide] == value(step, r, i));
    CHECK(all[size * count * wide] == 0x5555555555555555);
}

static void exchange(int step, int count, int in_place) {
    count /= size;
    clear();
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++) own[r * count + i] = value(step + r, rank, i);
    if (in_place) memcpy(all, own, (size_t)(count * size) * sizeof *all);
    OK(MPI_Alltoall(in_place ? MPI_IN_PLACE : own, count, MPI_LONG, all, count, MPI_LONG, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++) CHECK(all[r * count + i] == value(step + rank, r, i));
    CHECK(all[size * count] == 0x5555555555555555);
}

struct pair {
    int value, place;
};

/* Every rank has the greatest value somewhere, and all the same one elsewhere. */
static void greatest(int count) {
    struct pair *mine = calloc((size_t)count, sizeof *mine), *found = calloc((size_t)count, sizeof *found);
    for (int i = 0; i < count; i++) mine[i].value = i % (size + 1) == rank ? 7 : 1, mine[i].place = rank;
    OK(MPI_Allreduce(mine, found, count, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) {
        int at = i % (size + 1);
        CHECK(found[i].value == (at < size ? 7 : 1) && found[i].place == (at < size ? at : 0));
    }
    free(mine);
    free(found);
}

static void everything(int step, int count) {
    for (int in_place = 0; in_place < 2; in_place++) {
        allreduce(step, count, in_place, MPI_SUM);
        reduce_scatter(step + 1, count, in_place);
        gather(step + 2, count, in_place, 0);
        exchange(step + 3, count, in_place);
        gather(step + 4, count, in_place, 1);
    }
    allreduce(step + 5, count / 8, 0, plus);
    greatest(count);
}

/* From now on, no system call of this process reads another one's memory. */
static void be_blind(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) fprintf(stderr, "left out: there are no filters of system calls\n");
}

int main(int argc, char **argv) {
    static const int counts[] = {0, 1, 9001, 40001, 100003, MOST};
    begin(&argc, &argv);
    own = malloc((2 * MOST + 1) * sizeof *own), all = malloc((2 * MOST + 1) * sizeof *all);
    CHECK(own && all);
    OK(MPI_Type_create_resized(MPI_LONG, 0, 2 * sizeof(long), &every_other));
    OK(MPI_Type_commit(&every_other));
    OK(MPI_Op_create(add, 1, &plus));
    for (int i = 0; i < 4; i++) OK(MPI_Barrier(MPI_COMM_WORLD));
    everything(3, 50001);
    if (argc > 1 && rank == size - 1) be_blind();
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) everything(100 * (int)i, counts[i]);
    /* Each of the operations may be the first that finds that it cannot read. */
    for (int first = 0; argc > 1 && first < 8; first++) {
        MPI_Comm world = MPI_COMM_WORLD, comm;
        OK(MPI_Comm_dup(world, &comm));
        for (int i = 0; i < 4; i++) OK(MPI_Barrier(comm));
        int count = 80000 / size, n = count * size, in_place = first % 2;
        for (int i = 0; i < n; i++) own[i] = all[i] = value(0, rank, i);
        void *from = in_place ? MPI_IN_PLACE : own;
        switch (first / 2) {
        case 0: OK(MPI_Allreduce(from, all, n, MPI_LONG, MPI_SUM, comm)); break;
        case 1: OK(MPI_Reduce_scatter_block(from, all, count, MPI_LONG, MPI_SUM, comm)); break;
        case 2: OK(MPI_Allgather(in_place ? MPI_IN_PLACE : own + rank * count, count, MPI_LONG, all, count, MPI_LONG, comm)); break;
        default: OK(MPI_Alltoall(from, count, MPI_LONG, all, count, MPI_LONG, comm));
        }
        for (int i = 0; i < n; i++) {
            int r = i / count, at = i % count;
            switch (first / 2) {
            case 0: CHECK(all[i] == sum(0, i)); break;
            case 1: CHECK(i >= count || all[i] == sum(0, rank * count + i)); break;
            case 2: CHECK(all[i] == value(0, r, i)); break;
            default: CHECK(all[i] == value(0, r, rank * count + at));
            }
        }
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_Type_free(&every_other));
    OK(MPI_Op_free(&plus));
    OK(MPI_Finalize());
    free(own);
    free(all);
    return 0;
}
