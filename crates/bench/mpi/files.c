/*
 * Files, for `causeway bench mpi-io`. The environment's BENCH_FILE is the name of the file, which must not exist.
 *
 * tile: a rectangle for each rank of a two-dimensional array of elements of 32 bytes, as mpi-tile-io has them; `size` bytes a row.
 * nested: a cube of elements of 40 bytes in cells, of which each rank has a diagonal, as BT-IO has them; memory has a border.
 * open: opening and closing.
 *
 * Bytes depend on where they lie in the file, and on how often it was written: all are compared.
 */
#include "bench.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENT = 32, ROWS = 1024, CELL = 40, EDGE = 64, BORDER = 2, OPENS = 60, CHUNK = 1 << 20 };

static const char *name;
static MPI_File file;

/* What a rank has: elements of `memory`, whose data are those that it sees of the file. */
static struct part {
    MPI_Datatype memory, filetype;
    MPI_Aint reach;
    size_t bytes, all;
    char *room;
    int together, writes;
} part;

static void check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING + 64], why[MPI_MAX_ERROR_STRING];
    int len;
    if (code == MPI_SUCCESS)
        return;
    MPI_Error_string(code, why, &len);
    snprintf(text, sizeof text, "%s %s: %s", what, name, why);
    fail(text);
}

static char byte_at(size_t offset, int generation)
{
    return (char)(offset * 31 + offset / 4093 + (size_t)generation * 89);
}

static void access_file(struct work *work, long rounds)
{
    MPI_Status status;
    int count;
    (void)work;
    for (long i = 0; i < rounds; i++) {
        int code;
        if (part.writes && part.together)
            code = MPI_File_write_at_all(file, 0, part.room, 1, part.memory, &status);
        else if (part.writes)
            code = MPI_File_write_at(file, 0, part.room, 1, part.memory, &status);
        else if (part.together)
            code = MPI_File_read_at_all(file, 0, part.room, 1, part.memory, &status);
        else
            code = MPI_File_read_at(file, 0, part.room, 1, part.memory, &status);
        check(code, part.writes ? "writing" : "reading");
    }
    MPI_Get_count(&status, MPI_BYTE, &count);
    if ((size_t)count != part.bytes)
        fail("not all bytes were transferred");
    /* The round ends with the last rank. */
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The bytes that this rank's data must be, as a stream: what its view shows of the file. */
static void expected(char *stream, int generation)
{
    char *all = malloc(part.all);
    int position = 0;
    if (!all)
        fail("there is no memory");
    for (size_t i = 0; i < part.all; i++)
        all[i] = byte_at(i, generation);
    MPI_Pack(all, 1, part.filetype, stream, (int)part.bytes, &position, MPI_COMM_WORLD);
    free(all);
}

static void fill(const char *stream)
{
    int position = 0;
    MPI_Unpack(stream, (int)part.bytes, &position, part.room, 1, part.memory, MPI_COMM_WORLD);
}

static void compare(const char *stream)
{
    char *data = room(part.bytes);
    int position = 0;
    MPI_Pack(part.room, 1, part.memory, data, (int)part.bytes, &position, MPI_COMM_WORLD);
    if (memcmp(data, stream, part.bytes) != 0)
        fail("a rank reads other bytes than were written");
    free(data);
}

/* Rank 0 reads all of the file in its order. */
static void compare_all(int generation)
{
    check(MPI_File_sync(file), "synchronising");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_File plain;
        MPI_Status status;
        char *chunk = room(CHUNK);
        check(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &plain), "opening");
        for (size_t from = 0; from < part.all; from += CHUNK) {
            size_t len = part.all - from < CHUNK ? part.all - from : CHUNK;
            check(MPI_File_read_at(plain, (MPI_Offset)from, chunk, (int)len, MPI_BYTE, &status), "reading");
            for (size_t i = 0; i < len; i++)
                if (chunk[i] != byte_at(from + i, generation))
                    fail("the file has other bytes than were written");
        }
        MPI_File_close(&plain);
        free(chunk);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

static void run_part(struct work *work, const char *what, MPI_Datatype unit)
{
    char *stream = room(part.bytes);
    part.room = room((size_t)part.reach);
    MPI_Type_commit(&part.memory);
    MPI_Type_commit(&part.filetype);
    check(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file), "opening");
    check(MPI_File_set_size(file, (MPI_Offset)part.all), "making room in");
    check(MPI_File_set_view(file, 0, unit, part.filetype, "native", MPI_INFO_NULL), "setting the view of");
    for (int generation = 1; generation <= 2; generation++) {
        part.together = generation == 2;
        expected(stream, generation);
        for (int reads = 0; reads < 2; reads++) {
            char label[64];
            part.writes = !reads;
            if (reads)
                memset(part.room, 0, (size_t)part.reach);
            else
                fill(stream);
            double seconds = measure(access_file, work);
            if (reads)
                compare(stream);
            else
                compare_all(generation);
            snprintf(label, sizeof label, "%s/%s/%s", what, reads ? "read" : "write",
                     part.together ? "collective" : "independent");
            print_of_ranks(label, work->size, "bandwidth_mb_s", (double)part.all / 1e6 / seconds);
        }
    }
    MPI_File_close(&file);
    if (rank == 0)
        check(MPI_File_delete(name, MPI_INFO_NULL), "deleting");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&part.memory);
    MPI_Type_free(&part.filetype);
    free(part.room);
    free(stream);
}

static void find_name(void)
{
    name = getenv("BENCH_FILE");
    if (!name)
        fail("BENCH_FILE names no file");
}

void run_tile(struct work *work)
{
    int grid[2] = {0, 0}, columns = (int)(work->size / ELEMENT);
    MPI_Datatype element;
    find_name();
    MPI_Dims_create(ranks, 2, grid);
    int whole[2] = {grid[0] * ROWS, grid[1] * columns}, own[2] = {ROWS, columns};
    int start[2] = {rank / grid[1] * ROWS, rank % grid[1] * columns};
    MPI_Type_contiguous(ELEMENT, MPI_BYTE, &element);
    MPI_Type_commit(&element);
    MPI_Type_create_subarray(2, whole, own, start, MPI_ORDER_C, element, &part.filetype);
    MPI_Type_contiguous(ROWS * columns, element, &part.memory);
    part.bytes = (size_t)ROWS * work->size;
    part.reach = (MPI_Aint)part.bytes;
    part.all = part.bytes * (size_t)ranks;
    run_part(work, "tile", element);
    MPI_Type_free(&element);
}

enum { MOST_CELLS = 8 };

void run_nested(struct work *work)
{
    int cells = 1, lengths[MOST_CELLS];
    MPI_Datatype element, in_file[MOST_CELLS], in_memory[MOST_CELLS];
    MPI_Aint displacements[MOST_CELLS], places[MOST_CELLS];
    find_name();
    while (cells * cells < ranks)
        cells++;
    if (cells * cells != ranks || cells > MOST_CELLS || EDGE % cells != 0)
        fail("nested: the number of ranks has to be 1, 4, 16 or 64");
    int edge = EDGE / cells, wide = edge + 2 * BORDER;
    int whole[3] = {EDGE, EDGE, EDGE}, own[3] = {edge, edge, edge}, border[3] = {BORDER, BORDER, BORDER};
    int around[3] = {wide, wide, wide};
    MPI_Type_contiguous(CELL, MPI_BYTE, &element);
    MPI_Type_commit(&element);
    for (int cell = 0; cell < cells; cell++) {
        int start[3] = {cell * edge, (rank / cells + cell) % cells * edge, (rank % cells + cell) % cells * edge};
        MPI_Type_create_subarray(3, whole, own, start, MPI_ORDER_C, element, &in_file[cell]);
        MPI_Type_create_subarray(3, around, own, border, MPI_ORDER_C, element, &in_memory[cell]);
        lengths[cell] = 1;
        displacements[cell] = 0;
        places[cell] = (MPI_Aint)cell * wide * wide * wide * CELL;
    }
    MPI_Type_create_struct(cells, lengths, displacements, in_file, &part.filetype);
    MPI_Type_create_struct(cells, lengths, places, in_memory, &part.memory);
    for (int cell = 0; cell < cells; cell++) {
        MPI_Type_free(&in_file[cell]);
        MPI_Type_free(&in_memory[cell]);
    }
    part.bytes = (size_t)cells * (size_t)edge * (size_t)edge * (size_t)edge * CELL;
    part.reach = (MPI_Aint)cells * wide * wide * wide * CELL;
    part.all = (size_t)EDGE * EDGE * EDGE * CELL;
    work->size = (size_t)edge * CELL;
    run_part(work, "nested", element);
    MPI_Type_free(&element);
}

static int ascending(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

void run_open(struct work *work)
{
    double opened[OPENS], closed[OPENS];
    (void)work;
    find_name();
    for (int i = 0; i < OPENS; i++) {
        int mode = MPI_MODE_RDWR | (i == 0 ? MPI_MODE_CREATE : 0);
        MPI_Barrier(MPI_COMM_WORLD);
        double began = now();
        check(MPI_File_open(MPI_COMM_WORLD, name, mode, MPI_INFO_NULL, &file), "opening");
        double then = now();
        check(MPI_File_close(&file), "closing");
        opened[i] = then - began;
        closed[i] = now() - then;
    }
    qsort(opened, OPENS, sizeof *opened, ascending);
    qsort(closed, OPENS, sizeof *closed, ascending);
    print_of_ranks("open", 0, "latency_us", opened[OPENS / 2] * 1e6);
    print_of_ranks("close", 0, "latency_us", closed[OPENS / 2] * 1e6);
    if (rank == 0)
        check(MPI_File_delete(name, MPI_INFO_NULL), "deleting");
}
