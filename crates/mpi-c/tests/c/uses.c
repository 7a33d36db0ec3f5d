/* Reductions by an operation of the program, and others, in turn on fresh communicators: whatever builds the ranks are of, all of them make a communicator's memory at the same call, or do
 * without. */
#include "check.h"

static void add(void *in, void *inout, int *len, MPI_Datatype *datatype) {
    CHECK(*datatype == MPI_INT);
    for (int i = 0; i < *len; i++) ((int *)inout)[i] += ((int *)in)[i];
}

int main(int argc, char **argv) {
    MPI_Op op;
    begin(&argc, &argv);
    OK(MPI_Op_create(add, 1, &op));
    for (int before = 0; before < 3; before++) {
        MPI_Comm comm;
        OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        for (int i = 0; i < 6; i++) {
            int value = rank + i, sum = -1, part = -1, *blocks = calloc((size_t)size, sizeof *blocks);
            CHECK(blocks != NULL);
            for (int other = 0; other < size; other++) blocks[other] = other;
            OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, i % 3 == before ? op : MPI_SUM, comm));
            CHECK(sum == size * (size - 1) / 2 + size * i);
            OK(MPI_Reduce_scatter_block(blocks, &part, 1, MPI_INT, i % 2 ? op : MPI_SUM, comm));
            CHECK(part == size * rank);
            OK(MPI_Reduce(&value, &sum, 1, MPI_INT, op, 0, comm));
            CHECK(rank != 0 || sum == size * (size - 1) / 2 + size * i);
            free(blocks);
        }
        OK(MPI_Comm_free(&comm));
    }
    OK(MPI_Op_free(&op));
    OK(MPI_Finalize());
    return 0;
}
