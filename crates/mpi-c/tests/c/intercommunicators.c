/* Inter-communicators: made in every way, messages and every collective operation over them, made into others, merged. */
#include "check.h"

static MPI_Comm half, inter;
static int low, local, remote, own;

/* What process `r` of the group `is_low` has at place `i`. */
static int value(int is_low, int r, int i) { return is_low * 100000 + r * 1000 + i; }

static void begin_halves(void) {
    low = rank < (size + 1) / 2;
    OK(MPI_Comm_split(MPI_COMM_WORLD, low, rank, &half));
    int other = low ? (size + 1) / 2 : 0;
    OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, other, 12, &inter));
}

static void sizes(MPI_Comm comm) {
    int flag, many;
    MPI_Group group;
    OK(MPI_Comm_test_inter(comm, &flag));
    CHECK(flag);
    OK(MPI_Comm_size(comm, &local));
    OK(MPI_Comm_remote_size(comm, &remote));
    OK(MPI_Comm_rank(comm, &own));
    CHECK(local + remote == size);
    OK(MPI_Comm_remote_group(comm, &group));
    OK(MPI_Group_size(group, &many));
    CHECK(many == remote);
    OK(MPI_Group_free(&group));
}

static void messages(MPI_Comm comm) {
    MPI_Request requests[2];
    for (int r = 0; r < remote; r++) {
        int out = value(low, own, r), in = -1;
        MPI_Status status;
        OK(MPI_Isend(&out, 1, MPI_INT, r, 5, comm, &requests[0]));
        OK(MPI_Irecv(&in, 1, MPI_INT, r, 5, comm, &requests[1]));
        OK(MPI_Wait(&requests[1], &status));
        OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        CHECK(in == value(!low, r, own) && status.MPI_SOURCE == r && status.MPI_TAG == 5);
    }
}

static int root_of(int is_low, int root) {
    if (low != is_low) return root;
    return own == root ? MPI_ROOT : MPI_PROC_NULL;
}

/* Each process of each group is the root in turn. */
static void rooted(MPI_Comm comm, int count) {
    int *data = malloc((count + 1) * sizeof *data), *all = malloc((remote * count + 1) * sizeof *all);
    for (int is_low = 0; is_low < 2; is_low++) {
        int group = low == is_low ? local : remote;
        for (int r = 0; r < group; r++) {
            int root = root_of(is_low, r), is_root = root == MPI_ROOT;
            for (int i = 0; i < count; i++) data[i] = is_root ? value(low, own, i) : -1;
            OK(MPI_Bcast(data, count, MPI_INT, root, comm));
            if (low != is_low)
                for (int i = 0; i < count; i++) CHECK(data[i] == value(!low, r, i));
            for (int i = 0; i < count; i++) data[i] = value(low, own, i);
            OK(MPI_Gather(data, count, MPI_INT, all, count, MPI_INT, root, comm));
            if (is_root)
                for (int p = 0; p < remote; p++)
                    for (int i = 0; i < count; i++) CHECK(all[p * count + i] == value(!low, p, i));
            for (int i = 0; i < remote * count; i++) all[i] = i;
            for (int i = 0; i < count; i++) data[i] = -1;
            OK(MPI_Scatter(all, count, MPI_INT, data, count, MPI_INT, root, comm));
            if (low != is_low)
                for (int i = 0; i < count; i++) CHECK(data[i] == own * count + i);
            for (int i = 0; i < count; i++) data[i] = value(low, own, i);
            OK(MPI_Reduce(data, all, count, MPI_INT, MPI_SUM, root, comm));
            if (is_root)
                for (int i = 0; i < count; i++) {
                    int sum = 0;
                    for (int p = 0; p < remote; p++) sum += value(!low, p, i);
                    CHECK(all[i] == sum);
                }
        }
    }
    free(data), free(all);
}

static void for_all(MPI_Comm comm, int count) {
    int many = remote > local ? remote : local;
    size_t room = many * many * (count + 1) * sizeof(int);
    int *out = malloc(room), *in = malloc(room);
    OK(MPI_Barrier(comm));
    for (int i = 0; i < count; i++) out[i] = value(low, own, i);
    OK(MPI_Allgather(out, count, MPI_INT, in, count, MPI_INT, comm));
    for (int p = 0; p < remote; p++)
        for (int i = 0; i < count; i++) CHECK(in[p * count + i] == value(!low, p, i));
    MPI_Request request;
    memset(in, 0xff, count * sizeof *in);
    OK(MPI_Iallreduce(out, in, count, MPI_INT, MPI_SUM, comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < count; i++) {
        int sum = 0;
        for (int p = 0; p < remote; p++) sum += value(!low, p, i);
        CHECK(in[i] == sum);
    }
    for (int p = 0; p < remote; p++)
        for (int i = 0; i < count; i++) out[p * count + i] = value(low, own, p * 10 + i % 10);
    OK(MPI_Alltoall(out, count, MPI_INT, in, count, MPI_INT, comm));
    for (int p = 0; p < remote; p++)
        for (int i = 0; i < count; i++) CHECK(in[p * count + i] == value(!low, p, own * 10 + i % 10));
    /* Both groups have so many elements in all. */
    int total = local * remote, *counts = malloc(local * sizeof *counts);
    for (int p = 0; p < local; p++) counts[p] = remote;
    for (int i = 0; i < total; i++) out[i] = value(low, own, i);
    OK(MPI_Reduce_scatter(out, in, counts, MPI_INT, MPI_SUM, comm));
    for (int i = 0; i < remote; i++) {
        int sum = 0;
        for (int p = 0; p < remote; p++) sum += value(!low, p, own * remote + i);
        CHECK(in[i] == sum);
    }
    free(out), free(in), free(counts);
}

static void everything(MPI_Comm comm) {
    static const int counts[] = {0, 1, 7, 3000, 50000};
    sizes(comm);
    messages(comm);
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        rooted(comm, counts[i]);
        for_all(comm, counts[i]);
    }
}

static void errors(void) {
    OK(MPI_Comm_set_errhandler(inter, MPI_ERRORS_RETURN));
    int in = 0, out = 0, class;
    OK(MPI_Error_class(MPI_Scan(&in, &out, 1, MPI_INT, MPI_SUM, inter), &class));
    CHECK(class == MPI_ERR_COMM);
    OK(MPI_Error_class(MPI_Bcast(&in, 1, MPI_INT, remote, inter), &class));
    CHECK(class == MPI_ERR_ROOT);
    OK(MPI_Error_class(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, &in, 0, MPI_INT, inter), &class));
    CHECK(class == MPI_ERR_BUFFER);
    /* A wrong argument of a leader is an error everywhere. */
    MPI_Comm none;
    OK(MPI_Comm_set_errhandler(half, MPI_ERRORS_RETURN));
    CHECK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, size, 1, &none) != MPI_SUCCESS);
    OK(MPI_Error_class(MPI_Send(&in, 1, MPI_INT, remote, 0, inter), &class));
    CHECK(class == MPI_ERR_RANK);
}

static void others(void) {
    MPI_Comm copy, split, created, merged;
    int result, many, mine;
    OK(MPI_Comm_dup(inter, &copy));
    OK(MPI_Comm_compare(inter, copy, &result));
    CHECK(result == MPI_CONGRUENT);
    sizes(copy);
    messages(copy);
    OK(MPI_Comm_free(&copy));
    /* In the reverse order. */
    OK(MPI_Comm_split(inter, 0, -own, &split));
    sizes(split);
    CHECK(own == local - 1 - rank % ((size + 1) / 2));
    messages(split);
    rooted(split, 3);
    OK(MPI_Comm_free(&split));
    sizes(inter);
    /* Those of even ranks. */
    MPI_Group group, even;
    int range[1][3] = {{0, local - 1, 2}};
    OK(MPI_Comm_group(inter, &group));
    OK(MPI_Group_range_incl(group, 1, range, &even));
    OK(MPI_Comm_create(inter, even, &created));
    CHECK((created != MPI_COMM_NULL) == (own % 2 == 0));
    if (created != MPI_COMM_NULL) {
        OK(MPI_Comm_remote_size(created, &many));
        CHECK(many == (remote + 1) / 2);
        OK(MPI_Barrier(created));
        OK(MPI_Comm_free(&created));
    }
    OK(MPI_Group_free(&group));
    OK(MPI_Group_free(&even));
    OK(MPI_Intercomm_merge(inter, low, &merged));
    OK(MPI_Comm_size(merged, &many));
    OK(MPI_Comm_rank(merged, &mine));
    CHECK(many == size && mine == (low ? remote + own : own));
    int sum = 0;
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, merged));
    CHECK(sum == size * (size - 1) / 2);
    OK(MPI_Comm_free(&merged));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int flag;
    OK(MPI_Comm_test_inter(MPI_COMM_WORLD, &flag));
    CHECK(!flag);
    if (size > 1) {
        begin_halves();
        everything(inter);
        others();
        errors();
        OK(MPI_Comm_free(&inter));
        MPI_Group world, mine, other;
        OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
        OK(MPI_Comm_group(half, &mine));
        OK(MPI_Group_difference(world, mine, &other));
        OK(MPI_Intercomm_create_from_groups(mine, 0, other, 0, "causeway://test", MPI_INFO_NULL,
                                            MPI_ERRORS_RETURN, &inter));
        sizes(inter);
        rooted(inter, 2);
        OK(MPI_Comm_free(&inter));
        OK(MPI_Group_free(&world));
        OK(MPI_Group_free(&mine));
        OK(MPI_Group_free(&other));
        OK(MPI_Comm_free(&half));
    }
    OK(MPI_Finalize());
    return 0;
}
