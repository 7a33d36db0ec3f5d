/* Every collective operation, blocking and nonblocking, in place, of several sizes and datatypes. */
#include "check.h"

static const int counts[] = {0, 1, 3, 100, 5000, 70000};

static void broadcasts(int count) {
    double *values = malloc((count + 1) * sizeof *values);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < count; i++) values[i] = rank == root ? root + i * 0.5 : -1;
        OK(MPI_Bcast(values, count, MPI_DOUBLE, root, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++) CHECK(values[i] == root + i * 0.5);
    }
    free(values);
}

static void gathers(int count) {
    int *own = malloc((count + 1) * sizeof *own), *all = malloc((count * size + 1) * sizeof *all);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < count; i++) own[i] = rank * 1000000 + i;
        memset(all, 0xff, count * size * sizeof *all);
        OK(MPI_Gather(own, count, MPI_INT, all, count, MPI_INT, root, MPI_COMM_WORLD));
        if (rank == root)
            for (int r = 0; r < size; r++)
                for (int i = 0; i < count; i++) CHECK(all[r * count + i] == r * 1000000 + i);
        memset(own, 0xff, count * sizeof *own);
        OK(MPI_Scatter(all, count, MPI_INT, own, count, MPI_INT, root, MPI_COMM_WORLD));
        for (int i = 0; i < count; i++) CHECK(own[i] == rank * 1000000 + i);
    }
    memset(all, 0xff, count * size * sizeof *all);
    OK(MPI_Allgather(own, count, MPI_INT, all, count, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++) CHECK(all[r * count + i] == r * 1000000 + i);
    OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++) CHECK(all[r * count + i] == r * 1000000 + i);
    free(own);
    free(all);
}

static void exchanges(int count) {
    int *out = malloc((count * size + 1) * sizeof *out), *in = malloc((count * size + 1) * sizeof *in);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++) out[r * count + i] = rank * 10000000 + r * 100000 + i;
    memset(in, 0xff, count * size * sizeof *in);
    MPI_Request request;
    OK(MPI_Ialltoall(out, count, MPI_INT, in, count, MPI_INT, MPI_COMM_WORLD, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < count; i++) CHECK(in[r * count + i] == r * 10000000 + rank * 100000 + i);
    OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in, count, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < count * size; i++) CHECK(in[i] == out[i]);
    free(out);
    free(in);
}

static void uneven(void) {
    int *lens = malloc(size * sizeof *lens), *at = malloc(size * sizeof *at), total = 0;
    for (int r = 0; r < size; r++) {
        lens[r] = r * 3 + 1;
        at[r] = total + r;
        total += lens[r];
    }
    int *all = malloc((total + size) * sizeof *all), *own = malloc(lens[rank] * sizeof *own);
    for (int i = 0; i < lens[rank]; i++) own[i] = rank * 100 + i;
    OK(MPI_Gatherv(own, lens[rank], MPI_INT, all, lens, at, MPI_INT, 0, MPI_COMM_WORLD));
    if (rank == 0)
        for (int r = 0; r < size; r++)
            for (int i = 0; i < lens[r]; i++) CHECK(all[at[r] + i] == r * 100 + i);
    memset(own, 0xff, lens[rank] * sizeof *own);
    OK(MPI_Scatterv(all, lens, at, MPI_INT, own, lens[rank], MPI_INT, 0, MPI_COMM_WORLD));
    for (int i = 0; i < lens[rank]; i++) CHECK(own[i] == rank * 100 + i);
    memset(all, 0xff, (total + size) * sizeof *all);
    OK(MPI_Allgatherv(own, lens[rank], MPI_INT, all, lens, at, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < lens[r]; i++) CHECK(all[at[r] + i] == r * 100 + i);
    /* To each as many as its rank says. */
    int *to = malloc(size * sizeof *to), *from = malloc(size * sizeof *from);
    int *to_at = malloc(size * sizeof *to), *from_at = malloc(size * sizeof *from);
    int *out = malloc((size * size + size) * sizeof *out), *in = malloc((size * (rank + 1) + 1) * sizeof *in);
    for (int r = 0, o = 0; r < size; r++) {
        to[r] = r + 1, from[r] = rank + 1, to_at[r] = o, from_at[r] = r * (rank + 1);
        for (int i = 0; i < to[r]; i++) out[o++] = rank * 1000 + r * 10 + i;
    }
    OK(MPI_Alltoallv(out, to, to_at, MPI_INT, in, from, from_at, MPI_INT, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i <= rank; i++) CHECK(in[from_at[r] + i] == r * 1000 + rank * 10 + i);
    free(lens), free(at), free(all), free(own), free(to), free(from), free(to_at), free(from_at), free(out), free(in);
}

static void reductions(int count) {
    long *own = malloc((count + 1) * sizeof *own), *sum = malloc((count + 1) * sizeof *sum);
    long ranks = (long)size * (size - 1) / 2;
    for (int i = 0; i < count; i++) own[i] = rank + i;
    OK(MPI_Allreduce(own, sum, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) CHECK(sum[i] == ranks + (long)i * size);
    for (int i = 0; i < count; i++) sum[i] = own[i];
    OK(MPI_Allreduce(MPI_IN_PLACE, sum, count, MPI_LONG, MPI_MAX, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) CHECK(sum[i] == size - 1 + i);
    for (int root = 0; root < size; root++) {
        memset(sum, 0, count * sizeof *sum);
        OK(MPI_Reduce(own, sum, count, MPI_LONG, MPI_SUM, root, MPI_COMM_WORLD));
        if (rank == root)
            for (int i = 0; i < count; i++) CHECK(sum[i] == ranks + (long)i * size);
    }
    OK(MPI_Scan(own, sum, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) CHECK(sum[i] == (long)rank * (rank + 1) / 2 + (long)i * (rank + 1));
    OK(MPI_Exscan(own, sum, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    if (rank > 0)
        for (int i = 0; i < count; i++) CHECK(sum[i] == (long)rank * (rank - 1) / 2 + (long)i * rank);
    long *all = malloc((count * size + 1) * sizeof *all);
    for (int i = 0; i < count * size; i++) all[i] = rank + i;
    OK(MPI_Reduce_scatter_block(all, sum, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
    for (int i = 0; i < count; i++) CHECK(sum[i] == ranks + (long)(rank * count + i) * size);
    free(own), free(sum), free(all);
}

/* Two 2 x 2 matrices multiplied: associative, and not commutative. */
static void multiply(void *left, void *right, int *count, MPI_Datatype *datatype) {
    long (*a)[4] = left, (*b)[4] = right;
    int bytes;
    OK(MPI_Type_size(*datatype, &bytes));
    CHECK(bytes == sizeof *a);
    for (int i = 0; i < *count; i++) {
        long c[4] = {a[i][0] * b[i][0] + a[i][1] * b[i][2], a[i][0] * b[i][1] + a[i][1] * b[i][3],
                     a[i][2] * b[i][0] + a[i][3] * b[i][2], a[i][2] * b[i][1] + a[i][3] * b[i][3]};
        memcpy(b[i], c, sizeof c);
    }
}

static void own_operation(void) {
    MPI_Op op;
    MPI_Datatype matrix;
    OK(MPI_Type_contiguous(4, MPI_LONG, &matrix));
    OK(MPI_Type_commit(&matrix));
    OK(MPI_Op_create(multiply, 0, &op));
    long own[4] = {1, rank + 1, 0, 1}, mine[4] = {rank % 2 ? 2 : 1, 1, 1, 0}, got[4], expected[4] = {1, 0, 0, 1};
    (void)own;
    for (int r = 0; r < size; r++) {
        long theirs[4] = {r % 2 ? 2 : 1, 1, 1, 0};
        int one = 1;
        long left[4];
        memcpy(left, expected, sizeof left);
        memcpy(expected, theirs, sizeof expected);
        MPI_Datatype of = matrix;
        multiply(left, expected, &one, &of);
    }
    OK(MPI_Allreduce(mine, got, 1, matrix, op, MPI_COMM_WORLD));
    CHECK(memcmp(got, expected, sizeof got) == 0);
    for (int root = 0; root < size; root++) {
        memset(got, 0, sizeof got);
        MPI_Request request;
        OK(MPI_Ireduce(mine, got, 1, matrix, op, root, MPI_COMM_WORLD, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(rank != root || memcmp(got, expected, sizeof got) == 0);
    }
    OK(MPI_Scan(mine, got, 1, matrix, op, MPI_COMM_WORLD));
    CHECK(rank != size - 1 || memcmp(got, expected, sizeof got) == 0);
    OK(MPI_Op_free(&op));
    OK(MPI_Type_free(&matrix));
    CHECK(op == MPI_OP_NULL && matrix == MPI_DATATYPE_NULL);
}

static void pairs(void) {
    struct { double value; int index; } own = {(rank * 7) % size, rank}, got;
    OK(MPI_Allreduce(&own, &got, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
    double most = 0;
    int where = 0;
    for (int r = 0; r < size; r++)
        if ((r * 7) % size > most) most = (r * 7) % size, where = r;
    CHECK(got.value == most && got.index == where);
}

static void at_the_same_time(void) {
    enum { MANY = 10 };
    int values[MANY], sums[MANY];
    MPI_Request requests[2 * MANY];
    for (int i = 0; i < MANY; i++) {
        values[i] = rank + i;
        OK(MPI_Iallreduce(&values[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[i]));
        OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[MANY + i]));
    }
    OK(MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) CHECK(sums[i] == size * (size - 1) / 2 + i * size);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        broadcasts(counts[i]);
        gathers(counts[i]);
        exchanges(counts[i]);
        reductions(counts[i]);
    }
    uneven();
    own_operation();
    pairs();
    at_the_same_time();
    OK(MPI_Finalize());
    return 0;
}
