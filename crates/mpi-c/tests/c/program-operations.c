/* Operations of the program's on datatypes with gaps: the gaps of results are left alone, data may lie beyond the extent or before the first
 * byte, and a datatype may be freed while its operation goes on. */
#include "check.h"

enum { MANY = 3000 };

/* Adds the integers that lie where the datatype says. */
static void add(void *in, void *inout, int *count, MPI_Datatype *type) {
    int bytes, at = 0, more = 0;
    CHECK(MPI_Type_size(*type, &bytes) == MPI_SUCCESS);
    int each = bytes / (int)sizeof(int), total = *count * each;
    int *a = malloc(total * sizeof *a), *b = malloc(total * sizeof *b);
    OK(MPI_Pack(in, *count, *type, a, total * (int)sizeof *a, &at, MPI_COMM_SELF));
    OK(MPI_Pack(inout, *count, *type, b, total * (int)sizeof *b, &more, MPI_COMM_SELF));
    for (int i = 0; i < total; i++)
        b[i] += a[i];
    at = 0;
    OK(MPI_Unpack(b, total * (int)sizeof *b, &at, inout, *count, *type, MPI_COMM_SELF));
    free(a);
    free(b);
}

static int sent(int from, int i) { return 10 * from + i; }

static int sum_of(int ranks, int i) {
    int sum = 0;
    for (int from = 0; from < ranks; from++)
        sum += sent(from, i);
    return sum;
}

/* Every second integer: the others are the program's. */
static void gaps(MPI_Op op, int n) {
    static int from[2 * MANY], into[2 * MANY];
    MPI_Datatype type;
    MPI_Request request;
    OK(MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type));
    OK(MPI_Type_commit(&type));
    for (int form = 0; form < 8; form++) {
        int first = 0, many = n, ranks = size, counts[64];
        for (int i = 0; i < n; i++) {
            from[2 * i] = sent(rank, i);
            from[2 * i + 1] = 1000000;
            into[2 * i] = form == 1 ? from[2 * i] : -1;
            into[2 * i + 1] = -7 - rank;
        }
        switch (form) {
        case 0: OK(MPI_Allreduce(from, into, n, type, op, MPI_COMM_WORLD)); break;
        case 1: OK(MPI_Allreduce(MPI_IN_PLACE, into, n, type, op, MPI_COMM_WORLD)); break;
        case 2:
            OK(MPI_Ireduce(from, into, n, type, op, size - 1, MPI_COMM_WORLD, &request));
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            many = rank == size - 1 ? n : 0;
            break;
        case 3:
            OK(MPI_Scan(from, into, n, type, op, MPI_COMM_WORLD));
            ranks = rank + 1;
            break;
        case 4:
            OK(MPI_Exscan(from, into, n, type, op, MPI_COMM_WORLD));
            ranks = rank;
            many = rank ? n : 0;
            break;
        case 5:
            for (int i = 0; i < size; i++)
                counts[i] = n / size;
            OK(MPI_Reduce_scatter(from, into, counts, type, op, MPI_COMM_WORLD));
            many = n / size;
            first = rank * many;
            break;
        case 6:
            OK(MPI_Reduce_scatter_block(from, into, n / size, type, op, MPI_COMM_WORLD));
            many = n / size;
            first = rank * many;
            break;
        case 7:
            for (int i = 0; i < n; i++)
                into[2 * i] = sent(1, i);
            for (int i = 0; i < n; i++)
                from[2 * i] = sent(0, i);
            OK(MPI_Reduce_local(from, into, n, type, op));
            ranks = 2;
            break;
        }
        for (int i = 0; i < n; i++) {
            CHECK(into[2 * i + 1] == -7 - rank);
            CHECK(i >= many ? 1 : into[2 * i] == sum_of(ranks, first + i));
        }
    }
    OK(MPI_Type_free(&type));
}

/* The columns of a matrix, whose elements lie between those of the next columns; and elements before the address. */
static void columns(MPI_Op op) {
    enum { ROWS = 3, COLUMNS = 5 };
    int from[ROWS][COLUMNS], into[ROWS][COLUMNS], block[ROWS][COLUMNS];
    MPI_Datatype vector, column, before;
    OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_INT, &vector));
    OK(MPI_Type_create_resized(vector, 0, sizeof(int), &column));
    OK(MPI_Type_commit(&column));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) {
            from[i][j] = sent(rank, 10 * i + j);
            into[i][j] = -1;
        }
    OK(MPI_Allreduce(from, into, COLUMNS - 1, column, op, MPI_COMM_WORLD));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            CHECK(into[i][j] == (j < COLUMNS - 1 ? sum_of(size, 10 * i + j) : -1));
    if (size <= COLUMNS) {
        memset(block, 0xff, sizeof block);
        OK(MPI_Reduce_scatter_block(from, block, 1, column, op, MPI_COMM_WORLD));
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < COLUMNS; j++)
                CHECK(block[i][j] == (j == 0 ? sum_of(size, 10 * i + rank) : -1));
    }
    /* From the last row on upwards. */
    OK(MPI_Type_create_hvector(ROWS, 1, -(MPI_Aint)sizeof from[0], MPI_INT, &before));
    OK(MPI_Type_commit(&before));
    memset(into, 0xff, sizeof into);
    OK(MPI_Allreduce(from[ROWS - 1], into[ROWS - 1], 1, before, op, MPI_COMM_WORLD));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++)
            CHECK(into[i][j] == (j == 0 ? sum_of(size, 10 * i) : -1));
    OK(MPI_Type_free(&vector));
    OK(MPI_Type_free(&column));
    OK(MPI_Type_free(&before));
}

/* The function gets a handle that it can use, whether or not the program has freed its own, and used it for another type. */
static void freed(MPI_Op op, MPI_Datatype old) {
    int from[6] = {rank, 1, 2, 3, 4, 5}, into[6];
    MPI_Datatype type, other;
    MPI_Request request;
    OK(MPI_Type_contiguous(1, old, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Iallreduce(from, into, 1, type, op, MPI_COMM_WORLD, &request));
    OK(MPI_Type_free(&type));
    OK(MPI_Type_contiguous(77, MPI_CHAR, &other));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(into[0] == size * (size - 1) / 2);
    OK(MPI_Type_free(&other));
}

int main(int argc, char **argv) {
    MPI_Op adding, ordered;
    MPI_Datatype vector;
    begin(&argc, &argv);
    OK(MPI_Op_create(add, 1, &adding));
    OK(MPI_Op_create(add, 0, &ordered));
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &vector));
    for (int i = 0; i < 2; i++) {
        MPI_Op op = i ? ordered : adding;
        gaps(op, 2 * size);
        gaps(op, MANY);
        columns(op);
        freed(op, MPI_INT);
        freed(op, vector);
    }
    OK(MPI_Type_free(&vector));
    OK(MPI_Op_free(&adding));
    OK(MPI_Op_free(&ordered));
    OK(MPI_Finalize());
    return 0;
}
