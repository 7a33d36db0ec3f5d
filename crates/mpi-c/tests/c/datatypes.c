/* Messages and collective operations of datatypes that are not contiguous. */
#include <stddef.h>

#include "check.h"

static void columns(void) {
    enum { ROWS = 50, COLUMNS = 40 };
    static double matrix[ROWS][COLUMNS], column[ROWS];
    MPI_Datatype type;
    MPI_Request request;
    MPI_Status status;
    int there = (rank + 1) % size, from = (rank + size - 1) % size, count;
    MPI_Aint lower, extent;
    OK(MPI_Type_vector(ROWS, 1, COLUMNS, MPI_DOUBLE, &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_get_extent(type, &lower, &extent));
    CHECK(lower == 0 && extent == (MPI_Aint)sizeof(double) * ((ROWS - 1) * COLUMNS + 1));
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLUMNS; j++) matrix[i][j] = rank * 10000 + i * 100 + j;
    OK(MPI_Isend(&matrix[0][3], 1, type, there, 0, MPI_COMM_WORLD, &request));
    OK(MPI_Recv(column, ROWS, MPI_DOUBLE, from, 0, MPI_COMM_WORLD, &status));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Get_count(&status, type, &count));
    CHECK(count == 1);
    for (int i = 0; i < ROWS; i++) CHECK(column[i] == from * 10000 + i * 100 + 3);
    OK(MPI_Isend(column, ROWS, MPI_DOUBLE, there, 1, MPI_COMM_WORLD, &request));
    OK(MPI_Recv(&matrix[0][5], 1, type, from, 1, MPI_COMM_WORLD, &status));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    int before = (rank + 2 * size - 2) % size;
    for (int i = 0; i < ROWS; i++) {
        CHECK(matrix[i][5] == before * 10000 + i * 100 + 3);
        CHECK(matrix[i][4] == rank * 10000 + i * 100 + 4);
    }
    OK(MPI_Bcast(&matrix[0][7], 1, type, 0, MPI_COMM_WORLD));
    for (int i = 0; i < ROWS; i++) CHECK(matrix[i][7] == i * 100 + 7);
    OK(MPI_Type_free(&type));
}

static void structures(void) {
    struct particle { char kind; double place[3]; int id; } out[10], in[10];
    MPI_Datatype plain, type, types[3] = {MPI_CHAR, MPI_DOUBLE, MPI_INT};
    MPI_Aint at[3] = {offsetof(struct particle, kind), offsetof(struct particle, place), offsetof(struct particle, id)};
    int lens[3] = {1, 3, 1}, there = (rank + 1) % size, from = (rank + size - 1) % size, elements, bytes;
    MPI_Status status;
    OK(MPI_Type_create_struct(3, lens, at, types, &plain));
    OK(MPI_Type_create_resized(plain, 0, sizeof(struct particle), &type));
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_size(type, &bytes));
    CHECK(bytes == 29);
    memset(in, 0, sizeof in);
    for (int i = 0; i < 10; i++) {
        out[i].kind = (char)('a' + i), out[i].id = rank * 10 + i;
        for (int j = 0; j < 3; j++) out[i].place[j] = rank + i + j * 0.5;
    }
    OK(MPI_Sendrecv(out, 10, type, there, 0, in, 10, type, from, 0, MPI_COMM_WORLD, &status));
    OK(MPI_Get_elements(&status, type, &elements));
    CHECK(elements == 50);
    for (int i = 0; i < 10; i++)
        CHECK(in[i].kind == 'a' + i && in[i].id == from * 10 + i && in[i].place[2] == from + i + 1.0);
    char packed[1000];
    int position = 0, size_needed;
    OK(MPI_Pack_size(10, type, MPI_COMM_WORLD, &size_needed));
    CHECK(size_needed >= 290 && size_needed <= (int)sizeof packed);
    OK(MPI_Pack(out, 10, type, packed, sizeof packed, &position, MPI_COMM_WORLD));
    int end = position;
    position = 0;
    memset(in, 0, sizeof in);
    OK(MPI_Unpack(packed, end, &position, in, 10, type, MPI_COMM_WORLD));
    CHECK(position == end);
    for (int i = 0; i < 10; i++) CHECK(in[i].kind == 'a' + i && in[i].id == rank * 10 + i);
    OK(MPI_Type_free(&type));
    OK(MPI_Type_free(&plain));
}

/* Packs one element of a datatype of ints, of which there must be so many, and ends the datatype. */
static void gather(MPI_Datatype type, const int *from, int *into, int many) {
    int position = 0, bytes;
    MPI_Aint lower, extent;
    OK(MPI_Type_commit(&type));
    OK(MPI_Type_size(type, &bytes));
    CHECK(bytes == many * (int)sizeof(int));
    OK(MPI_Type_get_extent(type, &lower, &extent));
    CHECK(lower == 0 && extent == 16 * (MPI_Aint)sizeof(int));
    OK(MPI_Pack(from, 1, type, into, bytes, &position, MPI_COMM_WORLD));
    CHECK(position == bytes);
    OK(MPI_Type_free(&type));
}

/* Parts of a matrix of 4 by 4. */
static void arrays(void) {
    int matrix[16], got[8], sizes[2] = {4, 4}, subsizes[2] = {2, 3}, starts[2] = {1, 0};
    int distributions[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
    int arguments[2] = {MPI_DISTRIBUTE_DFLT_DARG, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 2};
    MPI_Datatype type;
    for (int n = 0; n < 16; n++) matrix[n] = n;
    OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type));
    gather(type, matrix, got, 6);
    for (int n = 0; n < 6; n++) CHECK(got[n] == 4 + n / 3 * 4 + n % 3);
    OK(MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INT, &type));
    gather(type, matrix, got, 6);
    for (int n = 0; n < 6; n++) CHECK(got[n] == 1 + n / 2 * 4 + n % 2);
    /* The process of the grid's row 1 and column 0: rows 1 and 3, columns 0 and 1. */
    OK(MPI_Type_create_darray(4, 2, 2, sizes, distributions, arguments, grid, MPI_ORDER_C, MPI_INT, &type));
    gather(type, matrix, got, 4);
    CHECK(got[0] == 4 && got[1] == 5 && got[2] == 12 && got[3] == 13);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    arrays();
    columns();
    structures();
    OK(MPI_Finalize());
    return 0;
}
