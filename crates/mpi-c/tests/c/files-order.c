/*
 * Shared pointers and atomic mode, checked against what any order of the accesses permits.
 *
 *   files-order records NAME   every rank writes and reads records at the shared pointer: none is lost, none comes twice
 *   files-order atomic NAME    registers of many pieces each: what is read is what one order of all accesses gives
 */
#include "check.h"

enum { RECORDS = 40, LONGEST = 2000, PIECE = 700, PIECES = 300, VALUES = 25 };

static MPI_File file;

/* A record: its length, rank and number, in 4 bytes each, and bytes that follow from these. */
static int record(unsigned char *into, int of, int number) {
    int head[3] = {12 + (of * 977 + number * 131) % (LONGEST - 12), of, number};
    memcpy(into, head, sizeof head);
    for (int i = 12; i < head[0]; i++) into[i] = (unsigned char)(of * 31 + number * 7 + i);
    return head[0];
}

static void records(const char *name) {
    static unsigned char mine[LONGEST];
    MPI_Status status;
    MPI_Offset end, total = 0, offset;
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int number = 0; number < RECORDS; number++) {
        int bytes = record(mine, rank, number);
        if (number % 3 == 2) {
            MPI_Request request;
            OK(MPI_File_iwrite_shared(file, mine, bytes, MPI_BYTE, &request));
            OK(MPI_Wait(&request, &status));
        } else {
            OK(MPI_File_write_shared(file, mine, bytes, MPI_BYTE, &status));
        }
        total += bytes;
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_OFFSET, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_File_get_position_shared(file, &offset));
    CHECK(offset == total);
    OK(MPI_File_sync(file));
    OK(MPI_File_get_size(file, &end));
    CHECK(end == total);
    if (rank == 0) {
        unsigned char *all = malloc((size_t)end), expected[LONGEST];
        int *next = calloc((size_t)size, sizeof *next);
        OK(MPI_File_read_at(file, 0, all, (int)end, MPI_BYTE, &status));
        for (MPI_Offset at = 0; at < end;) {
            int head[3];
            memcpy(head, all + at, sizeof head);
            CHECK(head[1] >= 0 && head[1] < size && head[2] == next[head[1]]++);
            CHECK(record(expected, head[1], head[2]) == head[0] && at + head[0] <= end);
            CHECK(memcmp(expected, all + at, (size_t)head[0]) == 0);
            at += head[0];
        }
        for (int i = 0; i < size; i++) CHECK(next[i] == RECORDS);
        free(all), free(next);
    }
    /* In order, twice, the second time split, in place of the first records. */
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    for (int turn = 0; turn < 2; turn++) {
        int numbers[8], count = 1 + rank % 8;
        for (int i = 0; i < count; i++) numbers[i] = turn * 100000 + rank * 100 + i;
        if (turn == 0) {
            OK(MPI_File_write_ordered(file, numbers, count, MPI_INT, &status));
        } else {
            OK(MPI_File_write_ordered_begin(file, numbers, count, MPI_INT));
            OK(MPI_File_write_ordered_end(file, numbers, &status));
        }
    }
    MPI_Offset written;
    OK(MPI_File_get_position_shared(file, &written));
    OK(MPI_File_sync(file));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_seek_shared(file, -written, MPI_SEEK_CUR));
    for (int turn = 0; turn < 2; turn++) {
        int numbers[8], count = 1 + rank % 8;
        if (turn == 0) {
            OK(MPI_File_read_ordered(file, numbers, count, MPI_INT, &status));
        } else {
            OK(MPI_File_read_ordered_begin(file, numbers, count, MPI_INT));
            OK(MPI_File_read_ordered_end(file, numbers, &status));
        }
        for (int i = 0; i < count; i++) CHECK(numbers[i] == turn * 100000 + rank * 100 + i);
    }
    /* Bytes that each rank takes some of until there are no more. */
    OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    MPI_Offset taken = 0;
    for (;;) {
        int count;
        OK(MPI_File_read_shared(file, mine, 333, MPI_BYTE, &status));
        OK(MPI_Get_count(&status, MPI_BYTE, &count));
        if (count == 0) break;
        taken += count;
    }
    OK(MPI_Allreduce(MPI_IN_PLACE, &taken, 1, MPI_OFFSET, MPI_SUM, MPI_COMM_WORLD));
    CHECK(taken == total);
    OK(MPI_File_close(&file));
}

static MPI_Datatype every_second(void) {
    MPI_Datatype vector, spread;
    OK(MPI_Type_vector(1, PIECE, PIECE, MPI_BYTE, &vector));
    OK(MPI_Type_create_resized(vector, 0, 2 * PIECE, &spread));
    OK(MPI_Type_commit(&spread));
    OK(MPI_Type_free(&vector));
    return spread;
}

/* Rank 0 writes register 0 and rank 1 register 1, with ascending values; the others read both. */
static void atomic(const char *name) {
    static unsigned char bytes[2 * PIECES * PIECE];
    int seen[4 * VALUES][2], count = 0, done = 0;
    MPI_Status status;
    MPI_Datatype second = every_second();
    OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (rank == 0) OK(MPI_File_write_at(file, 0, bytes, sizeof bytes, MPI_BYTE, &status));
    OK(MPI_File_set_atomicity(file, 1));
    if (rank < 2)
        OK(MPI_File_set_view(file, (MPI_Offset)rank * PIECE, MPI_BYTE, second, "native", MPI_INFO_NULL));
    else
        OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    if (rank < 2) {
        for (int value = 1; value <= VALUES; value++) {
            memset(bytes, value, PIECES * PIECE);
            OK(MPI_File_write_at(file, 0, bytes, PIECES * PIECE, MPI_BYTE, &status));
        }
        for (int reader = 2; reader < size; reader++) OK(MPI_Send(&done, 1, MPI_INT, reader, 0, MPI_COMM_WORLD));
    }
    while (rank >= 2 && count < 4 * VALUES) {
        int ended = 0, flag;
        for (int writer = 0; writer < 2; writer++) {
            OK(MPI_Iprobe(writer, 0, MPI_COMM_WORLD, &flag, &status));
            ended += flag;
        }
        OK(MPI_File_read_at(file, 0, bytes, sizeof bytes, MPI_BYTE, &status));
        for (int i = 0; i < 2 * PIECES * PIECE; i++) CHECK(bytes[i] == bytes[i / PIECE % 2 * PIECE]);
        for (int which = 0; which < 2; which++) {
            seen[count][which] = bytes[which * PIECE];
            CHECK(count == 0 || seen[count - 1][which] <= seen[count][which]);
        }
        count++;
        if (ended == 2) break;
    }
    for (int writer = 0; rank >= 2 && writer < 2; writer++)
        OK(MPI_Recv(&done, 1, MPI_INT, writer, 0, MPI_COMM_WORLD, &status));
    /* All that was seen, by all readers, fits one order. */
    int *counts = malloc(sizeof(int) * (size_t)size), *places = malloc(sizeof(int) * (size_t)size), total = 0, own = 2 * count;
    OK(MPI_Allgather(&own, 1, MPI_INT, counts, 1, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < size; i++) places[i] = total, total += counts[i];
    int *all = malloc(sizeof(int) * (size_t)(total + 1));
    OK(MPI_Allgatherv(seen, own, MPI_INT, all, counts, places, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < total; i += 2)
        for (int j = 0; j < i; j += 2) {
            int one = (all[i] > all[j]) - (all[i] < all[j]), other = (all[i + 1] > all[j + 1]) - (all[i + 1] < all[j + 1]);
            CHECK(one * other >= 0);
        }
    /* All write all of it together, some of them every second piece: one is the last one. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, rank % 2 ? second : MPI_BYTE, "native", MPI_INFO_NULL));
    memset(bytes, 100 + rank, sizeof bytes);
    OK(MPI_File_write_at_all(file, 0, bytes, rank % 2 ? PIECES * PIECE : 2 * PIECES * PIECE, MPI_BYTE, &status));
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    OK(MPI_File_read_at_all(file, 0, bytes, sizeof bytes, MPI_BYTE, &status));
    for (int i = 0; i < 2 * PIECES * PIECE; i++) CHECK(bytes[i] == bytes[i / PIECE % 2 * PIECE]);
    CHECK(bytes[0] >= 100 && bytes[PIECE] >= 100 && bytes[PIECE] % 2 == 0);
    CHECK(bytes[0] == bytes[PIECE] || bytes[0] % 2 == 1);
    free(counts), free(places), free(all);
    OK(MPI_Type_free(&second));
    OK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    CHECK(argc == 3);
    if (strcmp(argv[1], "records") == 0) records(argv[2]);
    else atomic(argv[2]);
    OK(MPI_Finalize());
    return 0;
}
