/*
 * Files on the parallel file system, which the test reads by the client library: byte n of an array is byte_at(n).
 *
 *   files-parallel tiles NAME [KEY VALUE]...   writes an array of ROWS lines of COLUMNS bytes, a rank a block of its columns
 *   files-parallel passes NAME [KEY VALUE]...  makes a file that is removed when it is closed
 *   files-parallel loses NAME                  writes until that fails, and prints the class
 *   files-parallel refused NAME                opens what cannot be opened, and prints the class and the text
 */
#include "check.h"

enum { ROWS = 96, COLUMNS = 5040, HALO = 3 };

static unsigned char byte_at(long n) { return (unsigned char)(n * 7 + n / 251); }

/* A rank's columns. */
static int first(int of) { return (int)((long)COLUMNS * of / size); }

/* Writes rows from..to of this rank's columns, from memory with a border around them, and reads them again. */
static void tile(MPI_File file, int from, int to, int together) {
    int width = first(rank + 1) - first(rank), rows = to - from;
    int wide[2] = {rows + 2 * HALO, width + 2 * HALO}, inner[2] = {rows, width}, halo[2] = {HALO, HALO};
    int array[2] = {ROWS, COLUMNS}, place[2] = {from, first(rank)};
    size_t bytes = (size_t)wide[0] * wide[1];
    unsigned char *memory = malloc(bytes), *back = malloc(bytes);
    MPI_Datatype filetype, buffer;
    MPI_Status status;
    int count;
    OK(MPI_Type_create_subarray(2, array, inner, place, MPI_ORDER_C, MPI_BYTE, &filetype));
    OK(MPI_Type_create_subarray(2, wide, inner, halo, MPI_ORDER_C, MPI_BYTE, &buffer));
    OK(MPI_Type_commit(&filetype));
    OK(MPI_Type_commit(&buffer));
    memset(memory, 0xee, bytes);
    memset(back, 0xee, bytes);
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < width; column++)
            memory[(row + HALO) * wide[1] + column + HALO] =
                byte_at((long)(from + row) * COLUMNS + first(rank) + column);
    OK(MPI_File_set_view(file, 0, MPI_BYTE, filetype, "native", MPI_INFO_NULL));
    if (together) {
        OK(MPI_File_write_at_all(file, 0, memory, 1, buffer, &status));
        OK(MPI_File_read_at_all(file, 0, back, 1, buffer, &status));
    } else {
        OK(MPI_File_write_at(file, 0, memory, 1, buffer, &status));
        OK(MPI_File_read_at(file, 0, back, 1, buffer, &status));
    }
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(count == rows * width);
    /* The border was not touched. */
    CHECK(memcmp(memory, back, bytes) == 0);
    OK(MPI_Type_free(&filetype));
    OK(MPI_Type_free(&buffer));
    free(memory), free(back);
}

static MPI_Info with_hints(int hints, char **words) {
    MPI_Info info;
    OK(MPI_Info_create(&info));
    for (int i = 0; i + 1 < hints; i += 2) OK(MPI_Info_set(info, words[i], words[i + 1]));
    return info;
}

static void passes(const char *name, int hints, char **words) {
    MPI_File file;
    MPI_Info info = with_hints(hints, words);
    int mode = MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL;
    OK(MPI_File_open(MPI_COMM_WORLD, name, mode | MPI_MODE_DELETE_ON_CLOSE, info, &file));
    OK(MPI_File_close(&file));
    /* Again: it is gone. */
    OK(MPI_File_open(MPI_COMM_WORLD, name, mode | MPI_MODE_DELETE_ON_CLOSE, info, &file));
    OK(MPI_File_close(&file));
    OK(MPI_Info_free(&info));
}

static void tiles(const char *name, int hints, char **words) {
    MPI_File file;
    MPI_Info info = with_hints(hints, words), used;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file));
    OK(MPI_File_set_size(file, 0));
    OK(MPI_File_get_info(file, &used));
    for (int i = 0; i + 1 < hints; i += 2) {
        char value[64];
        int found;
        /* It says where the file is, not how it is accessed. */
        if (strcmp(words[i], "causeway_config") == 0) continue;
        OK(MPI_Info_get(used, words[i], 63, value, &found));
        CHECK(found && strcmp(value, words[i + 1]) == 0);
    }
    OK(MPI_Info_free(&used));
    OK(MPI_Info_free(&info));
    /* Rows by each rank alone, then by all together; rows of some ranks are long enough to be handed over as they lie. */
    tile(file, 0, ROWS / 2, 0);
    tile(file, ROWS / 2, ROWS, 1);
    OK(MPI_File_close(&file));
}

static int failed(int code, const char *what) {
    int class, len;
    char text[MPI_MAX_ERROR_STRING];
    if (code == MPI_SUCCESS) return 0;
    OK(MPI_Error_class(code, &class));
    OK(MPI_Error_string(code, text, &len));
    printf("rank %d, %s: %s: %s\n", rank, what, class == MPI_ERR_IO ? "MPI_ERR_IO" : class == MPI_ERR_BAD_FILE ?
           "MPI_ERR_BAD_FILE" : class == MPI_ERR_ACCESS ? "MPI_ERR_ACCESS" : class == MPI_ERR_NO_SUCH_FILE ?
           "MPI_ERR_NO_SUCH_FILE" : "another class", text);
    return 1;
}

/* All ranks write together until a server is gone. */
static void loses(const char *name) {
    MPI_File file;
    MPI_Status status;
    enum { BYTES = 1 << 20 };
    char *bytes = calloc(1, BYTES);
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file));
    for (int round = 0;; round++) {
        MPI_Offset at = (MPI_Offset)rank * BYTES;
        if (failed(MPI_File_write_at_all(file, at, bytes, BYTES, MPI_BYTE, &status), "write")) break;
        if (round == 0 && rank == 0) {
            printf("written\n");
            fflush(stdout);
        }
    }
    int closed = MPI_File_close(&file);
    failed(closed, "close");
    free(bytes);
}

static void refused(const char *name) {
    MPI_File file;
    CHECK(failed(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open"));
    if (rank == 0) CHECK(failed(MPI_File_delete(name, MPI_INFO_NULL), "delete"));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc > 2);
    if (strcmp(argv[1], "tiles") == 0) tiles(argv[2], argc - 3, argv + 3);
    if (strcmp(argv[1], "passes") == 0) passes(argv[2], argc - 3, argv + 3);
    if (strcmp(argv[1], "loses") == 0) loses(argv[2]);
    if (strcmp(argv[1], "refused") == 0) refused(argv[2]);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
