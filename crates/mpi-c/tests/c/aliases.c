/* Operations whose data to send are where their result is to be are refused, whatever their length, as MPI_IN_PLACE is for that; after that all others
 * work. Data that are between each other's are not refused. */
#include "check.h"

#define MOST 300000

static int *data, *other;
static MPI_Comm comm;

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

#define REFUSED(call) CHECK(class_of(call) == MPI_ERR_BUFFER)

static void reductions(int count) {
    MPI_Request request;
    int counts[16];
    for (int i = 0; i < size; i++) counts[i] = count / size;
    REFUSED(MPI_Allreduce(data, data, count, MPI_INT, MPI_SUM, comm));
    REFUSED(MPI_Iallreduce(data, data, count, MPI_INT, MPI_SUM, comm, &request));
    REFUSED(MPI_Allreduce_init(data, data, count, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request));
    REFUSED(MPI_Scan(data, data, count, MPI_INT, MPI_SUM, comm));
    REFUSED(MPI_Exscan(data, data, count, MPI_INT, MPI_SUM, comm));
    REFUSED(MPI_Reduce_scatter_block(data, data, count / size, MPI_INT, MPI_SUM, comm));
    REFUSED(MPI_Ireduce_scatter(data, data, counts, MPI_INT, MPI_SUM, comm, &request));
    REFUSED(MPI_Reduce_local(data, data, count, MPI_INT, MPI_SUM));
}

static void exchanges(int count) {
    MPI_Request request;
    int counts[16], places[16], bytes[16];
    MPI_Datatype types[16];
    for (int i = 0; i < size; i++) counts[i] = count, places[i] = i * count, bytes[i] = 4 * places[i], types[i] = MPI_INT;
    REFUSED(MPI_Alltoall(data, count, MPI_INT, data, count, MPI_INT, comm));
    REFUSED(MPI_Ialltoall(data, count, MPI_INT, data, count, MPI_INT, comm, &request));
    REFUSED(MPI_Alltoallv(data, counts, places, MPI_INT, data, counts, places, MPI_INT, comm));
    REFUSED(MPI_Alltoallw(data, counts, bytes, types, data, counts, bytes, types, comm));
}

/* The same addresses are given for data that lie between each other. */
static void between(void) {
    MPI_Datatype even, odd, parts[2];
    OK(MPI_Type_create_resized(MPI_INT, 0, 8, &even));
    int one = 1;
    OK(MPI_Type_create_indexed_block(1, 1, &one, MPI_INT, &parts[0]));
    OK(MPI_Type_create_resized(parts[0], 0, 8, &odd));
    OK(MPI_Type_commit(&even));
    OK(MPI_Type_commit(&odd));
    for (int i = 0; i < 2 * size; i++) data[i] = i % 2 ? -1 : 10 * rank + i / 2;
    OK(MPI_Alltoall(data, 1, even, data, 1, odd, comm));
    for (int i = 0; i < size; i++) CHECK(data[2 * i] == 10 * rank + i && data[2 * i + 1] == 10 * i + rank);
    OK(MPI_Type_free(&even));
    OK(MPI_Type_free(&odd));
    OK(MPI_Type_free(&parts[0]));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    data = calloc((size_t)size * MOST, sizeof *data);
    other = calloc((size_t)size * MOST, sizeof *other);
    CHECK(data && other);
    for (int count = size; count <= MOST; count *= 10) {
        for (int i = 0; i < count; i++) data[i] = rank + i, other[i] = 0;
        reductions(count);
        exchanges(count);
        OK(MPI_Allreduce(data, other, count, MPI_INT, MPI_SUM, comm));
        OK(MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_INT, MPI_SUM, comm));
        for (int i = 0; i < count; i++) CHECK(other[i] == size * i + size * (size - 1) / 2 && data[i] == other[i]);
        OK(MPI_Alltoall(MPI_IN_PLACE, count / size, MPI_INT, data, count / size, MPI_INT, comm));
        OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, data, count / size, MPI_INT, MPI_MAX, comm));
    }
    OK(MPI_Allreduce(data, data, 0, MPI_INT, MPI_SUM, comm));
    OK(MPI_Alltoall(data, 0, MPI_INT, data, 0, MPI_INT, comm));
    between();
    free(data);
    free(other);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Finalize());
    return 0;
}
