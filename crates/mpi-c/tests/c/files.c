/*
 * Files (MPI 5.0 chapter 14), against what a file has to hold by the definition of views.
 *
 *   files          with a file of the operating system's
 *   files NAME     with this file, which must not exist
 */
#include "check.h"

static char name[256], nowhere[64] = "/nowhere/at/all";
static int is_plain = 1;
static MPI_Info hints = MPI_INFO_NULL;

/* The byte that a rank writes as the n-th of its data. */
static unsigned char byte_of(int of, int n) { return (unsigned char)(of * 37 + n * 11 + 1); }

static MPI_File open_file(int mode) {
    MPI_File file;
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, mode, hints, &file) == MPI_SUCCESS);
    return file;
}

static MPI_File fresh(void) {
    MPI_File file = open_file(MPI_MODE_RDWR | MPI_MODE_CREATE);
    CHECK(MPI_File_set_size(file, 0) == MPI_SUCCESS);
    return file;
}

static int count_of(MPI_Status *status, MPI_Datatype type) {
    int count;
    MPI_Get_count(status, type, &count);
    return count;
}

/* The first bytes of the file, as others find them. */
static unsigned char *whole_of(MPI_Offset bytes) {
    unsigned char *whole = malloc(bytes);
    if (is_plain) {
        FILE *plain = fopen(name, "rb");
        CHECK(plain && fread(whole, 1, bytes, plain) == (size_t)bytes);
        fclose(plain);
        return whole;
    }
    MPI_File other;
    MPI_Status status;
    int count;
    CHECK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &other) == MPI_SUCCESS);
    CHECK(MPI_File_read_at(other, 0, whole, (int)bytes, MPI_BYTE, &status) == MPI_SUCCESS);
    MPI_Get_count(&status, MPI_BYTE, &count);
    CHECK(count == bytes);
    MPI_File_close(&other);
    return whole;
}

/* Offsets, own pointers, and sizes. */
static void pointers(void) {
    MPI_File file = fresh();
    MPI_Status status;
    MPI_Offset offset;
    int numbers[16], back[16];
    for (int i = 0; i < 16; i++) numbers[i] = rank * 100 + i;
    CHECK(MPI_File_write_at(file, (MPI_Offset)rank * 64, numbers, 16, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(count_of(&status, MPI_INT) == 16);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    int other = (rank + 1) % size;
    CHECK(MPI_File_seek(file, other * 16, MPI_SEEK_SET) == MPI_SUCCESS);
    MPI_File_read(file, back, 8, MPI_INT, &status);
    MPI_File_read(file, back + 8, 8, MPI_INT, &status);
    for (int i = 0; i < 16; i++) CHECK(back[i] == other * 100 + i);
    MPI_File_get_position(file, &offset);
    CHECK(offset == other * 16 + 16);
    MPI_File_seek(file, -4, MPI_SEEK_END);
    CHECK(MPI_File_read(file, back, 16, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(count_of(&status, MPI_INT) == 4 && back[3] == (size - 1) * 100 + 15);
    MPI_File_get_size(file, &offset);
    CHECK(offset == size * 64);
    MPI_File_get_byte_offset(file, 3, &offset);
    CHECK(offset == 12);
    CHECK(MPI_File_seek(file, -1, MPI_SEEK_SET) != MPI_SUCCESS);
    MPI_Offset position, largest = INT64_MAX;
    MPI_File_get_position(file, &position);
    CHECK(MPI_File_seek(file, largest, MPI_SEEK_SET) == MPI_SUCCESS && MPI_File_seek(file, 1, MPI_SEEK_CUR) != MPI_SUCCESS);
    CHECK(MPI_File_seek(file, position, MPI_SEEK_SET) == MPI_SUCCESS);
    CHECK(MPI_File_preallocate(file, 8192) == MPI_SUCCESS);
    MPI_File_get_size(file, &offset);
    CHECK(offset == 8192);
    MPI_Request requests[2];
    MPI_File_iwrite_at(file, rank * 4, numbers, 4, MPI_INT, &requests[0]);
    MPI_File_iread_at(file, rank * 4, back, 4, MPI_INT, &requests[1]);
    MPI_Status statuses[2];
    MPI_Waitall(2, requests, statuses);
    CHECK(count_of(&statuses[0], MPI_INT) == 4 && count_of(&statuses[1], MPI_INT) == 4);
    CHECK(memcmp(numbers, back, 16) == 0);
    CHECK(MPI_File_close(&file) == MPI_SUCCESS && file == MPI_FILE_NULL);
}

/* Each rank sees every size-th piece: together they see all. The file is compared byte by byte. */
static void interleaved(int piece, int pieces, int how) {
    MPI_File file = fresh();
    MPI_Datatype filetype, vector;
    MPI_Status status;
    int bytes = piece * pieces, gap = 3;
    MPI_Type_vector(pieces, piece, piece * size, MPI_BYTE, &vector);
    MPI_Type_create_resized(vector, 0, (MPI_Aint)bytes * size, &filetype);
    MPI_Type_commit(&filetype);
    CHECK(MPI_File_set_view(file, gap + rank * piece, MPI_BYTE, filetype, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    unsigned char *data = malloc(2 * bytes), *back = calloc(2, bytes);
    for (int i = 0; i < 2 * bytes; i++) data[i] = byte_of(rank, i);
    if (how == 0) {
        CHECK(MPI_File_write_all(file, data, 2 * bytes, MPI_BYTE, &status) == MPI_SUCCESS);
    } else if (how == 1) {
        CHECK(MPI_File_write_at_all_begin(file, 0, data, bytes, MPI_BYTE) == MPI_SUCCESS);
        CHECK(MPI_File_write_at_all_end(file, data, &status) == MPI_SUCCESS);
        CHECK(MPI_File_write_at_all(file, bytes, data + bytes, bytes, MPI_BYTE, &status) == MPI_SUCCESS);
    } else {
        MPI_Request request;
        CHECK(MPI_File_iwrite_at_all(file, 0, data, 2 * bytes, MPI_BYTE, &request) == MPI_SUCCESS);
        MPI_Wait(&request, &status);
    }
    if (how != 1) CHECK(count_of(&status, MPI_BYTE) == 2 * bytes);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Offset end;
    MPI_File_get_size(file, &end);
    CHECK(end == gap + 2 * bytes * size);
    unsigned char *whole = whole_of(end);
    for (int i = 0; i < 2 * bytes * size; i++) {
        int turn = i / (piece * size), of = i / piece % size, n = turn * piece + i % piece;
        CHECK(whole[gap + i] == byte_of(of, n));
    }
    MPI_File_seek(file, 0, MPI_SEEK_SET);
    CHECK(MPI_File_read_all(file, back, 2 * bytes, MPI_BYTE, &status) == MPI_SUCCESS);
    CHECK(count_of(&status, MPI_BYTE) == 2 * bytes && memcmp(data, back, 2 * bytes) == 0);
    /* A buffer that is not contiguous, behind the middle. */
    MPI_Datatype spread;
    MPI_Type_vector(bytes, 1, 2, MPI_BYTE, &spread);
    MPI_Type_commit(&spread);
    unsigned char *wide = calloc(2, bytes);
    CHECK(MPI_File_read_at_all(file, bytes, wide, 1, spread, &status) == MPI_SUCCESS);
    for (int i = 0; i < bytes; i++) CHECK(wide[2 * i] == data[bytes + i]);
    /* Beyond the end there is less. */
    CHECK(MPI_File_read_at_all(file, 2 * bytes - 2, back, 10, MPI_BYTE, &status) == MPI_SUCCESS);
    CHECK(count_of(&status, MPI_BYTE) == 2);
    MPI_File_seek(file, 0, MPI_SEEK_END);
    MPI_Offset at;
    MPI_File_get_position(file, &at);
    CHECK(at == 2 * bytes);
    MPI_Type_free(&spread);
    MPI_Type_free(&vector);
    MPI_Type_free(&filetype);
    free(data), free(back), free(whole), free(wide);
    MPI_File_close(&file);
}

/* File types whose data go on behind the next one's beginning: one at a time, as HDF5 transfers them, together and alone. */
static void reaching(void) {
    MPI_Datatype pieces, type;
    MPI_Aint displacements[2] = {4 * rank, 4000 + 4 * rank};
    MPI_Status status;
    unsigned char data[16], back[16];
    for (int i = 0; i < 16; i++) data[i] = byte_of(rank, i);
    OK(MPI_Type_create_hindexed_block(2, 4, displacements, MPI_BYTE, &pieces));
    OK(MPI_Type_create_resized(pieces, 0, 4 * size, &type));
    OK(MPI_Type_commit(&type));
    MPI_File file = fresh();
    OK(MPI_File_set_view(file, 0, MPI_BYTE, type, "native", MPI_INFO_NULL));
    OK(MPI_File_write_all(file, data, 8, MPI_BYTE, &status));
    CHECK(count_of(&status, MPI_BYTE) == 8);
    OK(MPI_File_write_at_all(file, 8, data + 8, 8, MPI_BYTE, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    memset(back, 0, sizeof back);
    for (int tile = 0; tile < 2; tile++) OK(MPI_File_read_at(file, 8 * tile, back + 8 * tile, 8, MPI_BYTE, &status));
    CHECK(memcmp(back, data, sizeof data) == 0);
    unsigned char *whole = whole_of(4000 + 8 * size);
    for (int at = 0; at < 8 * size; at++) {
        int tile = at / (4 * size), of = at % (4 * size) / 4;
        for (int piece = 0; piece < 2; piece++) CHECK(whole[4000 * piece + at] == byte_of(of, 8 * tile + 4 * piece + at % 4));
    }
    free(whole);
    /* More than one are not in the file's order: other libraries may do that. */
    if (is_ours()) {
        int class, code = MPI_File_read_at_all(file, 4, back, 8, MPI_BYTE, &status);
        OK(MPI_Error_class(code, &class));
        CHECK(class == MPI_ERR_UNSUPPORTED_OPERATION);
    }
    MPI_File_close(&file);
    MPI_Type_free(&pieces);
    MPI_Type_free(&type);
}

static void shared_pointer(void) {
    MPI_File file = fresh();
    MPI_Status status;
    MPI_Offset offset;
    int mine[3] = {rank, rank, rank}, *all = malloc(sizeof(int) * 3 * size), seen[64] = {0};
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
    CHECK(MPI_File_write_shared(file, mine, 3, MPI_INT, &status) == MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_get_position_shared(file, &offset);
    CHECK(offset == 3 * size);
    MPI_File_read_at_all(file, 0, all, 3 * size, MPI_INT, &status);
    for (int i = 0; i < size; i++) {
        CHECK(all[3 * i] == all[3 * i + 1] && all[3 * i] == all[3 * i + 2]);
        seen[all[3 * i]]++;
    }
    for (int i = 0; i < size; i++) CHECK(seen[i] == 1);
    /* In order: as many as the rank says. */
    CHECK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET) == MPI_SUCCESS);
    int *ordered = malloc(sizeof(int) * (size + 1));
    for (int i = 0; i <= size; i++) ordered[i] = rank * 1000 + i;
    CHECK(MPI_File_write_ordered(file, ordered, rank + 1, MPI_INT, &status) == MPI_SUCCESS);
    CHECK(count_of(&status, MPI_INT) == rank + 1);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    memset(ordered, 0, sizeof(int) * (size + 1));
    CHECK(MPI_File_read_ordered_begin(file, ordered, rank + 1, MPI_INT) == MPI_SUCCESS);
    CHECK(MPI_File_read_ordered_end(file, ordered, &status) == MPI_SUCCESS);
    for (int i = 0; i <= rank; i++) CHECK(ordered[i] == rank * 1000 + i);
    free(all), free(ordered);
    MPI_File_close(&file);
}

static void representations(void) {
    MPI_File file = fresh();
    MPI_Status status;
    MPI_Aint extent;
    CHECK(MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_File_get_type_extent(file, MPI_LONG, &extent);
    CHECK(extent == 4);
    long numbers[2] = {rank + 1, -2}, back[2] = {0, 0};
    CHECK(MPI_File_write_at(file, 2 * rank, numbers, 2, MPI_LONG, &status) == MPI_SUCCESS);
    CHECK(count_of(&status, MPI_LONG) == 2);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    int other = (rank + 1) % size;
    CHECK(MPI_File_read_at(file, 2 * other, back, 2, MPI_LONG, &status) == MPI_SUCCESS);
    CHECK(back[0] == other + 1 && back[1] == -2);
    unsigned char bytes[8];
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_File_read_at(file, 0, bytes, 8, MPI_BYTE, &status);
    CHECK(memcmp(bytes, "\0\0\0\1\377\377\377\376", 8) == 0);
    /* A pair has 8 bytes there, and here 12 in 16. */
    struct {
        long value;
        int index;
    } pair[3] = {{rank, 5}, {-7, 6}, {rank + 9, 7}}, found[3] = {{0, 0}};
    CHECK(MPI_File_set_view(file, 0, MPI_LONG_INT, MPI_LONG_INT, "external32", MPI_INFO_NULL) == MPI_SUCCESS);
    CHECK(MPI_File_write_at(file, 3 * rank, pair, 3, MPI_LONG_INT, &status) == MPI_SUCCESS);
    MPI_File_sync(file);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int at = 0; at < 3; at++)
        CHECK(MPI_File_read_at(file, 3 * other + at, &found[at], 1, MPI_LONG_INT, &status) == MPI_SUCCESS);
    CHECK(found[0].value == other && found[1].value == -7 && found[2].value == other + 9 && found[2].index == 7);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    MPI_Offset disp;
    MPI_Datatype etype, filetype;
    char datarep[MPI_MAX_DATAREP_STRING];
    MPI_File_get_view(file, &disp, &etype, &filetype, datarep);
    CHECK(disp == 0 && etype == MPI_BYTE && filetype == MPI_BYTE && strcmp(datarep, "native") == 0);
    int class;
    MPI_Error_class(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "odd", MPI_INFO_NULL), &class);
    CHECK(class == MPI_ERR_UNSUPPORTED_DATAREP);
    MPI_File_close(&file);
}

static int handled;

static void handler(MPI_File *file, int *code, ...) {
    (void)file, (void)code;
    handled++;
}

static int class_of(int code) {
    int class;
    MPI_Error_class(code, &class);
    return class;
}

static void modes_and_errors(void) {
    MPI_File file;
    MPI_Status status;
    char byte = 1;
    CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, nowhere, MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) ==
          MPI_ERR_NO_SUCH_FILE);
    CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY | MPI_MODE_CREATE, MPI_INFO_NULL, &file)) ==
          MPI_ERR_AMODE);
    CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_EXCL, MPI_INFO_NULL,
                                 &file)) == MPI_ERR_FILE_EXISTS);
    if (size > 1) {
        /* Modes that differ make no file. */
        char other[sizeof name + 8];
        snprintf(other, sizeof other, "%s-other", name);
        int differs = MPI_MODE_CREATE | (rank == 0 ? MPI_MODE_RDWR : MPI_MODE_WRONLY);
        CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, other, differs, MPI_INFO_NULL, &file)) == MPI_ERR_NOT_SAME);
        CHECK(class_of(MPI_File_open(MPI_COMM_WORLD, other, MPI_MODE_RDONLY, MPI_INFO_NULL, &file)) ==
              MPI_ERR_NO_SUCH_FILE);
    }
    file = open_file(MPI_MODE_RDONLY);
    CHECK(class_of(MPI_File_write_at(file, 0, &byte, 1, MPI_BYTE, &status)) == MPI_ERR_READ_ONLY);
    MPI_Errhandler own, found;
    MPI_File_create_errhandler(handler, &own);
    MPI_File_get_errhandler(file, &found);
    CHECK(found == MPI_ERRORS_RETURN);
    MPI_File_set_errhandler(file, own);
    MPI_Errhandler_free(&own);
    MPI_File_write_at(file, 0, &byte, 1, MPI_BYTE, &status);
    MPI_File_call_errhandler(file, MPI_ERR_IO);
    CHECK(handled == 2);
    int mode, flag;
    MPI_File_get_amode(file, &mode);
    CHECK(mode == MPI_MODE_RDONLY);
    MPI_Group group;
    MPI_File_get_group(file, &group);
    MPI_Group_size(group, &flag);
    CHECK(flag == size);
    MPI_Group_free(&group);
    MPI_File_close(&file);
    file = open_file(MPI_MODE_RDWR | MPI_MODE_APPEND);
    MPI_Offset end, at;
    MPI_File_get_size(file, &end);
    MPI_File_get_position(file, &at);
    CHECK(at == end);
    CHECK(MPI_File_set_atomicity(file, 1) == MPI_SUCCESS);
    MPI_File_get_atomicity(file, &flag);
    CHECK(flag == 1);
    /* Atomic: all of one's bytes. */
    unsigned char mine[512], seen[512];
    memset(mine, rank + 1, sizeof mine);
    CHECK(MPI_File_write_at(file, 0, mine, sizeof mine, MPI_BYTE, &status) == MPI_SUCCESS);
    CHECK(MPI_File_read_at(file, 0, seen, sizeof seen, MPI_BYTE, &status) == MPI_SUCCESS);
    for (size_t i = 1; i < sizeof seen; i++) CHECK(seen[i] == seen[0]);
    MPI_Info info;
    char value[64];
    MPI_File_get_info(file, &info);
    MPI_Info_get(info, "cb_buffer_size", 63, value, &flag);
    CHECK(flag);
    MPI_Info_free(&info);
    MPI_File_close(&file);
    file = open_file(MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL);
    CHECK(class_of(MPI_File_write(file, &byte, 1, MPI_BYTE, &status)) == MPI_ERR_UNSUPPORTED_OPERATION);
    CHECK(MPI_File_write_shared(file, &byte, 1, MPI_BYTE, &status) == MPI_SUCCESS);
    CHECK(class_of(MPI_File_read_shared(file, &byte, 1, MPI_BYTE, &status)) == MPI_ERR_ACCESS);
    CHECK(class_of(MPI_File_set_view(file, 3, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL)) == MPI_ERR_DISP);
    CHECK(MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL) == MPI_SUCCESS);
    MPI_File_close(&file);
    file = open_file(MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE);
    CHECK(MPI_File_read_at(file, 0, &byte, 0, MPI_BYTE, &status) == MPI_SUCCESS && count_of(&status, MPI_BYTE) == 0);
    MPI_File_close(&file);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(class_of(MPI_File_delete(name, MPI_INFO_NULL)) == MPI_ERR_NO_SUCH_FILE);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (argc > 1) {
        is_plain = 0;
        snprintf(name, sizeof name, "%s", argv[1]);
        snprintf(nowhere, sizeof nowhere, "causeway:/nowhere/at/all");
    } else if (rank == 0) {
        const char *directory = getenv("TMPDIR");
        snprintf(name, sizeof name, "%s/causeway-files-XXXXXX", directory ? directory : "/tmp");
        int made = mkstemp(name);
        CHECK(made >= 0);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    pointers();
    /* As the library likes, each for itself, together, and together in small windows by one process. */
    const char *wishes[4][3] = {{NULL}, {"false"}, {"true"}, {"true", "4096", "1"}};
    const char *keys[3] = {"collective_buffering", "cb_buffer_size", "cb_nodes"};
    for (int wish = 0; wish < 4; wish++) {
        MPI_Info_create(&hints);
        for (int key = 0; key < 3; key++)
            if (wishes[wish][key]) MPI_Info_set(hints, keys[key], wishes[wish][key]);
        interleaved(1, 5, 0);
        interleaved(7, 300, 0);
        interleaved(64, 40, 1);
        interleaved(13, 20, 2);
        interleaved(40000, 3, 0);
        reaching();
        MPI_Info_free(&hints);
    }
    hints = MPI_INFO_NULL;
    shared_pointer();
    representations();
    modes_and_errors();
    MPI_Finalize();
    return 0;
}
