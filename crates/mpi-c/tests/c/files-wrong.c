/* Arguments that are wrong at rank 0 alone: all ranks get an error, none waits for another, and the file can be used afterwards. */
#include "check.h"

static MPI_File file;
static char buffer[256];

/* An error everywhere, of this class at rank 0. */
static void fails(int code, int expected) {
    int class;
    CHECK(code != MPI_SUCCESS);
    OK(MPI_Error_class(code, &class));
    CHECK(rank != 0 || class == expected);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

int main(int argc, char **argv) {
    MPI_Datatype open, byte;
    MPI_Info info, own;
    MPI_Status status;
    begin(&argc, &argv);
    int is_wrong = rank == 0, count = is_wrong ? -1 : 1;
    CHECK(argc > 1);
    OK(MPI_Type_contiguous(4, MPI_CHAR, &open));
    byte = is_wrong ? open : MPI_BYTE;
    OK(MPI_Info_create(&own));
    info = own;
    if (is_wrong) OK(MPI_Info_free(&own));
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    fails(MPI_File_write_at_all(file, 0, buffer, count, MPI_INT, &status), MPI_ERR_COUNT);
    fails(MPI_File_write_at_all(file, 0, buffer, 1, byte, &status), MPI_ERR_TYPE);
    fails(MPI_File_read_at_all(file, 0, is_wrong ? NULL : buffer, 1, MPI_INT, &status), MPI_ERR_BUFFER);
    fails(MPI_File_write_all(file, buffer, count, MPI_INT, &status), MPI_ERR_COUNT);
    fails(MPI_File_write_ordered(file, buffer, count, MPI_INT, &status), MPI_ERR_COUNT);
    fails(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, is_wrong ? NULL : "native", MPI_INFO_NULL), MPI_ERR_ARG);
    fails(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", info), MPI_ERR_INFO);
    fails(MPI_File_set_info(file, info), MPI_ERR_INFO);
    /* One that cannot begin has no end; the others get the error at the end. */
    int code = MPI_File_write_at_all_begin(file, 0, buffer, count, MPI_INT);
    CHECK((code != MPI_SUCCESS) == is_wrong);
    if (!is_wrong) code = MPI_File_write_at_all_end(file, buffer, &status);
    fails(code, MPI_ERR_COUNT);
    /* A second one at rank 0. */
    OK(MPI_File_write_at_all_begin(file, 0, buffer, 1, MPI_INT));
    if (!is_wrong) OK(MPI_File_write_at_all_end(file, buffer, &status));
    code = MPI_File_write_at_all_begin(file, 0, buffer, 1, MPI_INT);
    CHECK((code != MPI_SUCCESS) == is_wrong);
    if (!is_wrong) code = MPI_File_write_at_all_end(file, buffer, &status);
    fails(code, MPI_ERR_OTHER);
    if (is_wrong) OK(MPI_File_write_at_all_end(file, buffer, &status));
    memset(buffer, rank + 1, sizeof buffer);
    OK(MPI_File_write_at_all(file, rank, buffer, 1, MPI_BYTE, &status));
    OK(MPI_File_read_at_all(file, 0, buffer, size, MPI_BYTE, &status));
    for (int i = 0; i < size; i++) CHECK(buffer[i] == i + 1);
    OK(MPI_File_close(&file));
    fails(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, info, &file), MPI_ERR_INFO);
    if (!is_wrong) OK(MPI_Info_free(&own));
    OK(MPI_Type_free(&open));
    OK(MPI_Finalize());
    return 0;
}
