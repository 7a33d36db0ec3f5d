/* Every operation that has counts, in all of its forms: blocking, nonblocking and persistent, and in place. Two programs are made
 * of it: one for the functions whose counts are of type int, and one for those whose names end in `_c`. These define COUNT, DISP,
 * EXTENT and F, which makes a function's whole name. */
#include "check.h"
#include <unistd.h>

static MPI_Comm comm;
static int before, behind;

/* Element `at` of process `of`'s block for process `for_whom`. */
static int value(int of, int for_whom, int at) {
    return of * 10007 + for_whom * 101 + at % 89;
}

static void *room(size_t bytes) {
    void *memory = malloc(bytes + 1);
    CHECK(memory);
    return memory;
}

/* All forms of a collective operation: `prepare` is done before each, `verify` behind it. */
#define FORMS(NAME, name, prepare, verify, ...)                                                 \
    do {                                                                                        \
        MPI_Request request_;                                                                   \
        prepare;                                                                                \
        OK(F(NAME)(__VA_ARGS__));                                                               \
        verify;                                                                                 \
        prepare;                                                                                \
        OK(F(I##name)(__VA_ARGS__, &request_));                                                 \
        OK(MPI_Wait(&request_, MPI_STATUS_IGNORE));                                             \
        verify;                                                                                 \
        prepare;                                                                                \
        OK(F(NAME##_init)(__VA_ARGS__, MPI_INFO_NULL, &request_));                              \
        for (int round_ = 0; round_ < 2; round_++) {                                            \
            prepare;                                                                            \
            OK(MPI_Start(&request_));                                                           \
            OK(MPI_Wait(&request_, MPI_STATUS_IGNORE));                                         \
            verify;                                                                             \
        }                                                                                       \
        OK(MPI_Request_free(&request_));                                                        \
    } while (0)

/* Blocks for, or of, all processes: `n` elements each, or of different lengths with a gap behind each. */
struct blocks {
    int *data;
    COUNT *counts;
    DISP *at, *bytes;
    MPI_Datatype *types;
    int elements;
};

static struct blocks blocks(int many, int n, int vary) {
    struct blocks made = {NULL, room(many * sizeof(COUNT)), room(many * sizeof(DISP)), room(many * sizeof(DISP)),
                          room(many * sizeof(MPI_Datatype)), 0};
    for (int r = 0; r < many; r++) {
        made.counts[r] = vary ? n + r % 3 : n;
        made.at[r] = made.elements;
        made.bytes[r] = made.elements * (DISP)sizeof(int);
        made.types[r] = MPI_INT;
        made.elements += (int)made.counts[r] + vary;
    }
    made.data = room(made.elements * sizeof(int));
    return made;
}

static void let_go(struct blocks *made) {
    free(made->data), free(made->counts), free(made->at), free(made->bytes), free(made->types);
}

static void clear(struct blocks *made) {
    for (int i = 0; i < made->elements; i++) made->data[i] = -1;
}

/* Fills block `r` as process `of` has it for process `for_whom`, and looks whether it is so. */
static void fill(struct blocks *made, int r, int of, int for_whom) {
    for (int i = 0; i < made->counts[r]; i++) made->data[made->at[r] + i] = value(of, for_whom, i);
}

static void is(const struct blocks *made, int r, int of, int for_whom) {
    for (int i = 0; i < made->counts[r]; i++) CHECK(made->data[made->at[r] + i] == value(of, for_whom, i));
    /* No byte behind it is written. */
    int end = (int)(made->at[r] + made->counts[r]), next = r + 1 < size ? (int)made->at[r + 1] : made->elements;
    for (int i = end; i < next; i++) CHECK(made->data[i] == -1);
}

static void gathering(int n, int vary) {
    struct blocks all = blocks(size, n, vary);
    COUNT mine = all.counts[rank];
    int *own = room(mine * sizeof(int)), root = n % size;
    for (int i = 0; i < mine; i++) own[i] = value(rank, 7, i);
#define OWN (clear(&all), fill(&all, rank, rank, 7))
#define IF_ROOT(what) do { if (rank == root) what; } while (0)
#define EVERY for (int r = 0; r < size; r++) is(&all, r, r, 7)
    if (vary) {
        FORMS(Allgatherv, allgatherv, clear(&all), EVERY, own, mine, MPI_INT, all.data, all.counts, all.at, MPI_INT, comm);
        FORMS(Allgatherv, allgatherv, OWN, EVERY, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data, all.counts, all.at, MPI_INT, comm);
        FORMS(Gatherv, gatherv, clear(&all), IF_ROOT(EVERY), own, mine, MPI_INT, all.data, all.counts, all.at, MPI_INT, root, comm);
        FORMS(Gatherv, gatherv, OWN, IF_ROOT(EVERY), rank == root ? MPI_IN_PLACE : own, mine, MPI_INT, all.data, all.counts,
              all.at, MPI_INT, root, comm);
    } else {
        FORMS(Allgather, allgather, clear(&all), EVERY, own, mine, MPI_INT, all.data, n, MPI_INT, comm);
        FORMS(Allgather, allgather, OWN, EVERY, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all.data, n, MPI_INT, comm);
        FORMS(Gather, gather, clear(&all), IF_ROOT(EVERY), own, mine, MPI_INT, all.data, n, MPI_INT, root, comm);
        FORMS(Gather, gather, OWN, IF_ROOT(EVERY), rank == root ? MPI_IN_PLACE : own, mine, MPI_INT, all.data, n, MPI_INT, root,
              comm);
    }
    free(own);
    let_go(&all);
}

static void scattering(int n, int vary) {
    struct blocks all = blocks(size, n, vary);
    COUNT mine = all.counts[rank];
    int *own = room(mine * sizeof(int)), root = (n + 1) % size;
    clear(&all);
    for (int r = 0; r < size; r++) fill(&all, r, root, r);
#define NONE memset(own, 255, mine * sizeof(int))
#define MINE for (int i = 0; i < mine; i++) CHECK(own[i] == value(root, rank, i))
/* In place, the root's own block stays where it is. */
#define MINE_OR_ROOT do { if (rank != root) MINE; } while (0)
    if (vary) {
        FORMS(Scatterv, scatterv, NONE, MINE, all.data, all.counts, all.at, MPI_INT, own, mine, MPI_INT, root, comm);
        FORMS(Scatterv, scatterv, NONE, MINE_OR_ROOT, all.data, all.counts, all.at, MPI_INT, rank == root ? MPI_IN_PLACE : own,
              mine, MPI_INT, root, comm);
    } else {
        FORMS(Scatter, scatter, NONE, MINE, all.data, n, MPI_INT, own, mine, MPI_INT, root, comm);
        FORMS(Scatter, scatter, NONE, MINE_OR_ROOT, all.data, n, MPI_INT, rank == root ? MPI_IN_PLACE : own, mine, MPI_INT, root,
              comm);
    }
    for (int r = 0; r < size; r++) is(&all, r, root, r);
#define DATA for (int i = 0; i < mine; i++) own[i] = rank == root ? value(root, rank, i) : -1
#define FROM_ROOT for (int i = 0; i < mine; i++) CHECK(own[i] == value(root, root, i))
    if (!vary) FORMS(Bcast, bcast, DATA, FROM_ROOT, own, n, MPI_INT, root, comm);
    free(own);
    let_go(&all);
}

/* From every process to every other one. In place, two processes exchange as many elements as both say. */
static void exchanging(int n, int vary) {
    struct blocks out = blocks(size, n, vary), in = blocks(size, n, vary);
    /* Process r's block for this process determines the received length. */
    for (int r = 0; r < size && vary; r++) in.counts[r] = out.counts[rank];
    struct blocks inward = blocks(size, vary ? n + 3 : n, vary);
    for (int r = 0; r < size && vary; r++) inward.counts[r] = out.counts[rank];
    clear(&out);
    for (int r = 0; r < size; r++) fill(&out, r, rank, r);
#define FROM_ALL for (int r = 0; r < size; r++) is(&inward, r, r, rank)
#define SAME clear(&in); for (int r = 0; r < size; r++) fill(&in, r, rank, r)
#define IN_PLACE for (int r = 0; r < size; r++) is(&in, r, r, rank)
    if (vary) {
        FORMS(Alltoallv, alltoallv, clear(&inward), FROM_ALL, out.data, out.counts, out.at, MPI_INT, inward.data, inward.counts,
              inward.at, MPI_INT, comm);
        FORMS(Alltoallw, alltoallw, clear(&inward), FROM_ALL, out.data, out.counts, out.bytes, out.types, inward.data,
              inward.counts, inward.bytes, inward.types, comm);
        for (int r = 0; r < size; r++) in.counts[r] = n;
        FORMS(Alltoallv, alltoallv, SAME, IN_PLACE, MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in.data, in.counts, in.at,
              MPI_INT, comm);
        FORMS(Alltoallw, alltoallw, SAME, IN_PLACE, MPI_IN_PLACE, NULL, NULL, NULL, in.data, in.counts, in.bytes, in.types, comm);
    } else {
        FORMS(Alltoall, alltoall, clear(&inward), FROM_ALL, out.data, n, MPI_INT, inward.data, n, MPI_INT, comm);
        FORMS(Alltoall, alltoall, SAME, IN_PLACE, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, in.data, n, MPI_INT, comm);
    }
    let_go(&out), let_go(&in), let_go(&inward);
}

/* The sum of what `many` processes from rank 0 on have as element `at`. */
static int sum(int many, int at) {
    return many * (many - 1) / 2 + many * (at % 89);
}

static void reducing(int n) {
    COUNT *parts = room(size * sizeof *parts), mine;
    int start = 0, total = 0, root = n % size;
    for (int r = 0; r < size; r++) {
        parts[r] = n + r % 2;
        if (r == rank) start = total;
        total += (int)parts[r];
    }
    mine = parts[rank];
    int blocks_of_n = n * size, longest = total > blocks_of_n ? total : blocks_of_n;
    int *from = room(longest * sizeof(int)), *to = room(longest * sizeof(int));
    for (int i = 0; i < longest; i++) from[i] = rank + i % 89;
#define EMPTY for (int i = 0; i < longest; i++) to[i] = -5
#define TAKEN memcpy(to, from, longest * sizeof(int))
#define SUMS(first, many, of) for (int i = 0; i < (many); i++) CHECK(to[i] == sum(of, (first) + i))
    FORMS(Allreduce, allreduce, EMPTY, SUMS(0, n, size), from, to, n, MPI_INT, MPI_SUM, comm);
    FORMS(Allreduce, allreduce, TAKEN, SUMS(0, n, size), MPI_IN_PLACE, to, n, MPI_INT, MPI_SUM, comm);
    FORMS(Reduce, reduce, EMPTY, IF_ROOT(SUMS(0, n, size)), from, to, n, MPI_INT, MPI_SUM, root, comm);
    FORMS(Reduce, reduce, TAKEN, IF_ROOT(SUMS(0, n, size)), rank == root ? MPI_IN_PLACE : to, to, n, MPI_INT, MPI_SUM, root,
          comm);
    FORMS(Scan, scan, EMPTY, SUMS(0, n, rank + 1), from, to, n, MPI_INT, MPI_SUM, comm);
    FORMS(Scan, scan, TAKEN, SUMS(0, n, rank + 1), MPI_IN_PLACE, to, n, MPI_INT, MPI_SUM, comm);
    /* The result of rank 0 is not defined. */
    FORMS(Exscan, exscan, EMPTY, SUMS(0, rank ? n : 0, rank), from, to, n, MPI_INT, MPI_SUM, comm);
    FORMS(Exscan, exscan, TAKEN, SUMS(0, rank ? n : 0, rank), MPI_IN_PLACE, to, n, MPI_INT, MPI_SUM, comm);
    FORMS(Reduce_scatter, reduce_scatter, EMPTY, SUMS(start, mine, size), from, to, parts, MPI_INT, MPI_SUM, comm);
    FORMS(Reduce_scatter, reduce_scatter, TAKEN, SUMS(start, mine, size), MPI_IN_PLACE, to, parts, MPI_INT, MPI_SUM, comm);
    FORMS(Reduce_scatter_block, reduce_scatter_block, EMPTY, SUMS(rank * n, n, size), from, to, n, MPI_INT, MPI_SUM, comm);
    FORMS(Reduce_scatter_block, reduce_scatter_block, TAKEN, SUMS(rank * n, n, size), MPI_IN_PLACE, to, n, MPI_INT, MPI_SUM,
          comm);
    TAKEN;
    OK(F(Reduce_local)(from, to, n, MPI_INT, MPI_SUM));
    for (int i = 0; i < n; i++) CHECK(to[i] == 2 * from[i]);
    free(parts), free(from), free(to);
}

/* In a ring: a block sent backward arrives from the process behind. */
static void neighbours(int n) {
    MPI_Comm ring;
    int dims[1] = {size}, periods[1] = {1};
    OK(MPI_Cart_create(comm, 1, dims, periods, 0, &ring));
    int *out = room(2 * n * sizeof(int)), *in = room((2 * n + 1) * sizeof(int));
    COUNT counts[2] = {n, n};
    DISP at[2] = {n + 1, 0}, from[2] = {0, n};
    MPI_Aint bytes[2] = {(n + 1) * sizeof(int), 0}, sent[2] = {0, n * sizeof(int)};
    MPI_Datatype types[2] = {MPI_INT, MPI_INT};
    for (int i = 0; i < n; i++) out[i] = value(rank, 1, i), out[n + i] = value(rank, 2, i);
#define UNSET memset(in, 255, (2 * n + 1) * sizeof(int))
/* Of the process before, what it sends behind it, at `first`; of the other one what it sends before it. */
#define AROUND(first, second, of_before, of_behind)                                             \
    for (int i = 0; i < n; i++)                                                                 \
        CHECK(in[(first) + i] == value(before, of_before, i) && in[(second) + i] == value(behind, of_behind, i))
    FORMS(Neighbor_allgather, neighbor_allgather, UNSET, AROUND(0, n, 1, 1), out, n, MPI_INT, in, n, MPI_INT, ring);
    FORMS(Neighbor_allgatherv, neighbor_allgatherv, UNSET, AROUND(n + 1, 0, 1, 1), out, n, MPI_INT, in, counts, at, MPI_INT, ring);
    FORMS(Neighbor_alltoall, neighbor_alltoall, UNSET, AROUND(0, n, 2, 1), out, n, MPI_INT, in, n, MPI_INT, ring);
    FORMS(Neighbor_alltoallv, neighbor_alltoallv, UNSET, AROUND(n + 1, 0, 2, 1), out, counts, from, MPI_INT, in, counts, at,
          MPI_INT, ring);
    FORMS(Neighbor_alltoallw, neighbor_alltoallw, UNSET, AROUND(n + 1, 0, 2, 1), out, counts, sent, types, in, counts, bytes,
          types, ring);
    free(out), free(in);
    OK(MPI_Comm_free(&ring));
}

/* Each mode of sending, blocking, nonblocking and persistent, with each way to receive. */
static void messages(int n) {
    enum { MODES = 4 };
    int *out = room(n * sizeof(int)), *in = room(n * sizeof(int));
    size_t buffered = n * sizeof(int) + 4 * MPI_BSEND_OVERHEAD;
    void *attached = room(buffered), *detached;
    MPI_Request send, receive;
    MPI_Message message;
    MPI_Status status;
    COUNT got, room_of_it;
    for (int i = 0; i < n; i++) out[i] = value(rank, 3, i);
#define FRESH memset(in, 255, n * sizeof(int))
#define CAME(elements)                                                                          \
    do {                                                                                        \
        for (int i_ = 0; i_ < n; i_++) CHECK(in[i_] == value(before, 3, i_));                   \
        OK(F(Get_count)(&status, MPI_INT, &got));                                               \
        CHECK(got == (elements) && status.MPI_SOURCE == before);                                \
        OK(F(Get_elements)(&status, MPI_INT, &got));                                            \
        CHECK(got == (elements));                                                               \
    } while (0)
    OK(F(Comm_attach_buffer)(comm, attached, (COUNT)buffered));
    for (int mode = 0; mode < MODES; mode++) {
        FRESH;
        OK(F(Irecv)(in, n, MPI_INT, before, mode, comm, &receive));
        /* A ready send needs its receive posted. */
        OK(MPI_Barrier(comm));
        switch (mode) {
        case 0: OK(F(Send)(out, n, MPI_INT, behind, mode, comm)); break;
        case 1: OK(F(Bsend)(out, n, MPI_INT, behind, mode, comm)); break;
        case 2: OK(F(Ssend)(out, n, MPI_INT, behind, mode, comm)); break;
        default: OK(F(Rsend)(out, n, MPI_INT, behind, mode, comm));
        }
        OK(MPI_Wait(&receive, &status));
        CAME(n);
        OK(MPI_Comm_flush_buffer(comm));
        FRESH;
        OK(F(Irecv)(in, n, MPI_INT, before, mode, comm, &receive));
        OK(MPI_Barrier(comm));
        switch (mode) {
        case 0: OK(F(Isend)(out, n, MPI_INT, behind, mode, comm, &send)); break;
        case 1: OK(F(Ibsend)(out, n, MPI_INT, behind, mode, comm, &send)); break;
        case 2: OK(F(Issend)(out, n, MPI_INT, behind, mode, comm, &send)); break;
        default: OK(F(Irsend)(out, n, MPI_INT, behind, mode, comm, &send));
        }
        OK(MPI_Wait(&receive, &status));
        OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        CAME(n);
        OK(MPI_Comm_flush_buffer(comm));
        OK(F(Recv_init)(in, n, MPI_INT, before, mode, comm, &receive));
        switch (mode) {
        case 0: OK(F(Send_init)(out, n, MPI_INT, behind, mode, comm, &send)); break;
        case 1: OK(F(Bsend_init)(out, n, MPI_INT, behind, mode, comm, &send)); break;
        case 2: OK(F(Ssend_init)(out, n, MPI_INT, behind, mode, comm, &send)); break;
        default: OK(F(Rsend_init)(out, n, MPI_INT, behind, mode, comm, &send));
        }
        for (int round = 0; round < 2; round++) {
            FRESH;
            OK(MPI_Start(&receive));
            OK(MPI_Barrier(comm));
            OK(MPI_Start(&send));
            OK(MPI_Wait(&receive, &status));
            OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            CAME(n);
            OK(MPI_Comm_flush_buffer(comm));
        }
        OK(MPI_Request_free(&send));
        OK(MPI_Request_free(&receive));
    }
    OK(F(Comm_detach_buffer)(comm, &detached, &room_of_it));
    CHECK(detached == attached && room_of_it == (COUNT)buffered);
    FRESH;
    OK(F(Isend)(out, n, MPI_INT, behind, 9, comm, &send));
    OK(MPI_Mprobe(before, 9, comm, &message, &status));
    OK(F(Mrecv)(in, n, MPI_INT, &message, &status));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CAME(n);
    FRESH;
    OK(F(Isend)(out, n, MPI_INT, behind, 9, comm, &send));
    OK(MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &message, MPI_STATUS_IGNORE));
    OK(F(Imrecv)(in, n, MPI_INT, &message, &receive));
    OK(MPI_Wait(&receive, &status));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CAME(n);
    FRESH;
    OK(F(Isend)(out, n, MPI_INT, behind, 9, comm, &send));
    OK(F(Recv)(in, n, MPI_INT, before, 9, comm, &status));
    OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CAME(n);
    FRESH;
    OK(F(Sendrecv)(out, n, MPI_INT, behind, 4, in, n, MPI_INT, before, 4, comm, &status));
    CAME(n);
    FRESH;
    OK(F(Isendrecv)(out, n, MPI_INT, behind, 4, in, n, MPI_INT, before, 4, comm, &receive));
    OK(MPI_Wait(&receive, &status));
    CAME(n);
    memcpy(in, out, n * sizeof(int));
    OK(F(Sendrecv_replace)(in, n, MPI_INT, behind, 5, before, 5, comm, &status));
    CAME(n);
    memcpy(in, out, n * sizeof(int));
    OK(F(Isendrecv_replace)(in, n, MPI_INT, behind, 5, before, 5, comm, &receive));
    OK(MPI_Wait(&receive, &status));
    CAME(n);
    OK(F(Buffer_attach)(attached, (COUNT)buffered));
    OK(F(Bsend)(out, n, MPI_INT, behind, 6, comm));
    FRESH;
    OK(F(Recv)(in, n, MPI_INT, before, 6, comm, &status));
    CAME(n);
    OK(MPI_Buffer_flush());
    OK(F(Buffer_detach)(&detached, &room_of_it));
    CHECK(detached == attached && room_of_it == (COUNT)buffered);
    OK(F(Status_set_elements)(&status, MPI_INT, 11));
    OK(F(Get_count)(&status, MPI_INT, &got));
    CHECK(got == 11);
    free(out), free(in), free(attached);
}

/* What a datatype is made of lies there where the numbers say: packed and unpacked, only these elements are written. */
static void one_type(MPI_Datatype type, int many, const int *at) {
    enum { ROOM = 64 };
    int whole[ROOM], back[ROOM], is_part[ROOM] = {0}, packed[ROOM];
    char external[4 * ROOM];
    COUNT bytes, position = 0, of_it, pack_room;
    EXTENT lb, extent, true_lb, true_extent, needed, place = 0;
    MPI_Count large, large_lb;
    OK(MPI_Type_commit(&type));
    OK(F(Type_size)(type, &bytes));
    CHECK(bytes == (COUNT)(many * sizeof(int)));
    OK(MPI_Type_size_x(type, &large));
    CHECK(large == bytes);
    OK(F(Type_get_extent)(type, &lb, &extent));
    OK(MPI_Type_get_extent_x(type, &large_lb, &large));
    CHECK(large == extent && large_lb == lb);
    OK(F(Type_get_true_extent)(type, &true_lb, &true_extent));
    OK(MPI_Type_get_true_extent_x(type, &large_lb, &large));
    CHECK(large == true_extent && large_lb == true_lb);
    int first = at[0], last = at[0];
    for (int i = 0; i < ROOM; i++) whole[i] = value(rank, 1, i), back[i] = -1;
    for (int i = 0; i < many; i++) {
        is_part[at[i]] = 1;
        first = at[i] < first ? at[i] : first, last = at[i] > last ? at[i] : last;
    }
    CHECK(true_lb == (EXTENT)(first * sizeof(int)) && true_extent == (EXTENT)((last + 1 - first) * sizeof(int)));
    OK(F(Pack_size)(1, type, comm, &pack_room));
    CHECK(pack_room >= bytes);
    OK(F(Pack)(whole, 1, type, packed, sizeof packed, &position, comm));
    CHECK(position == bytes);
    for (int i = 0; i < many; i++) CHECK(packed[i] == whole[at[i]]);
    of_it = position, position = 0;
    OK(F(Unpack)(packed, of_it, &position, back, 1, type, comm));
    CHECK(position == of_it);
    for (int i = 0; i < ROOM; i++) CHECK(back[i] == (is_part[i] ? whole[i] : -1));
    /* (MPICH 5.0.2 ends the process in the first of these calls for such types.) */
    if (!is_ours()) {
        OK(MPI_Type_free(&type));
        return;
    }
    OK(F(Pack_external_size)("external32", 1, type, &needed));
    CHECK(needed == (EXTENT)(many * 4));
    OK(F(Pack_external)("external32", whole, 1, type, external, sizeof external, &place));
    CHECK(place == needed);
    place = 0;
    memset(back, 255, sizeof back);
    OK(F(Unpack_external)("external32", external, needed, &place, back, 1, type));
    CHECK(place == needed);
    for (int i = 0; i < ROOM; i++) CHECK(back[i] == (is_part[i] ? whole[i] : -1));
    OK(MPI_Type_free(&type));
}

static void datatypes(void) {
    MPI_Datatype type;
    COUNT lengths[2] = {2, 1}, places[2] = {4, 1}, both[2] = {3, 9};
    EXTENT bytes[2] = {16, 4};
    MPI_Datatype types[2] = {MPI_INT, MPI_FLOAT};
    OK(F(Type_contiguous)(3, MPI_INT, &type));
    one_type(type, 3, (int[]){0, 1, 2});
    OK(F(Type_vector)(2, 2, 3, MPI_INT, &type));
    one_type(type, 4, (int[]){0, 1, 3, 4});
    OK(F(Type_create_hvector)(2, 1, 20, MPI_INT, &type));
    one_type(type, 2, (int[]){0, 5});
    OK(F(Type_indexed)(2, lengths, places, MPI_INT, &type));
    one_type(type, 3, (int[]){4, 5, 1});
    OK(F(Type_create_hindexed)(2, lengths, bytes, MPI_INT, &type));
    one_type(type, 3, (int[]){4, 5, 1});
    OK(F(Type_create_indexed_block)(2, 2, both, MPI_INT, &type));
    one_type(type, 4, (int[]){3, 4, 9, 10});
    OK(F(Type_create_hindexed_block)(2, 2, bytes, MPI_INT, &type));
    one_type(type, 4, (int[]){4, 5, 1, 2});
    OK(F(Type_create_struct)(2, lengths, bytes, types, &type));
    one_type(type, 3, (int[]){4, 5, 1});
    OK(F(Type_create_resized)(MPI_INT, 0, 12, &type));
    one_type(type, 1, (int[]){0});
    OK(F(Type_create_subarray)(2, (COUNT[]){3, 4}, (COUNT[]){2, 2}, (COUNT[]){1, 1}, MPI_ORDER_C, MPI_INT, &type));
    one_type(type, 4, (int[]){5, 6, 9, 10});
    OK(F(Type_create_darray)(2, 1, 1, (COUNT[]){6}, (int[]){MPI_DISTRIBUTE_CYCLIC}, (int[]){1}, (int[]){2}, MPI_ORDER_C, MPI_INT,
                             &type));
    one_type(type, 3, (int[]){1, 3, 5});
}

static void windows(int n) {
    int *memory, *other, out = rank + 1, *got = room(n * sizeof(int)), *from = room(n * sizeof(int));
    MPI_Win win;
    MPI_Request request;
    MPI_Aint bytes;
    DISP unit;
    for (int i = 0; i < n; i++) from[i] = value(rank, 5, i);
    OK(F(Win_allocate)(n * sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &memory, &win));
    OK(MPI_Win_lock_all(0, win));
    OK(F(Put)(from, n, MPI_INT, behind, 0, n, MPI_INT, win));
    OK(MPI_Win_flush_all(win));
    OK(MPI_Barrier(comm));
    OK(F(Get)(got, n, MPI_INT, rank, 0, n, MPI_INT, win));
    OK(MPI_Win_flush(rank, win));
    for (int i = 0; i < n; i++) CHECK(got[i] == value(before, 5, i));
    OK(MPI_Barrier(comm));
    OK(F(Accumulate)(from, n, MPI_INT, behind, 0, n, MPI_INT, MPI_SUM, win));
    OK(MPI_Win_flush_all(win));
    OK(MPI_Barrier(comm));
    OK(F(Rget)(got, n, MPI_INT, behind, 0, n, MPI_INT, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < n; i++) CHECK(got[i] == 2 * from[i]);
    OK(MPI_Barrier(comm));
    OK(F(Rput)(from, n, MPI_INT, behind, 0, n, MPI_INT, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush(behind, win));
    OK(F(Get_accumulate)(from, n, MPI_INT, got, n, MPI_INT, behind, 0, n, MPI_INT, MPI_REPLACE, win));
    OK(MPI_Win_flush(behind, win));
    for (int i = 0; i < n; i++) CHECK(got[i] == from[i]);
    OK(F(Raccumulate)(from, n, MPI_INT, behind, 0, n, MPI_INT, MPI_SUM, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Win_flush(behind, win));
    OK(F(Rget_accumulate)(NULL, 0, MPI_INT, got, n, MPI_INT, behind, 0, n, MPI_INT, MPI_NO_OP, win, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < n; i++) CHECK(got[i] == 2 * from[i]);
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    OK(F(Win_create)(from, n * sizeof(int), sizeof(int), MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_fence(0, win));
    OK(F(Get)(got, n, MPI_INT, behind, 0, n, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    for (int i = 0; i < n; i++) CHECK(got[i] == value(behind, 5, i));
    OK(MPI_Win_free(&win));
    MPI_Comm near;
    int many, me;
    OK(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &near));
    OK(MPI_Comm_size(near, &many));
    OK(MPI_Comm_rank(near, &me));
    OK(F(Win_allocate_shared)(sizeof(int), sizeof(int), MPI_INFO_NULL, near, &memory, &win));
    OK(MPI_Win_fence(0, win));
    *memory = out;
    OK(MPI_Win_fence(0, win));
    OK(F(Win_shared_query)(win, (me + 1) % many, &bytes, &unit, &other));
    CHECK(bytes == sizeof(int) && unit == sizeof(int));
    CHECK(many < size || *other == behind + 1);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_free(&near));
    free(got), free(from);
}

/* Every way to write and read: by offsets, own and shared pointers, alone and together, at once and in two parts. */
static void files(int n) {
    enum { WRITES = 8, READS = 8 };
    char name[256];
    MPI_File file;
    MPI_Request request;
    MPI_Status status;
    EXTENT extent;
    COUNT got;
    int *out = room(n * sizeof(int)), *in = room(n * sizeof(int)), *all = room((size_t)n * size * sizeof(int));
    if (rank == 0) {
        const char *directory = getenv("TMPDIR");
        snprintf(name, sizeof name, "%s/causeway-counts-XXXXXX", directory ? directory : "/tmp");
        int made = mkstemp(name);
        CHECK(made >= 0);
        close(made);
    }
    OK(MPI_Bcast(name, sizeof name, MPI_CHAR, 0, comm));
    OK(MPI_File_open(comm, name, MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    OK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    OK(F(File_get_type_extent)(file, MPI_INT, &extent));
    CHECK(extent == sizeof(int));
    MPI_Offset mine = (MPI_Offset)rank * n;
#define WAITED OK(MPI_Wait(&request, &status))
    for (int way = 0; way < WRITES; way++) {
        for (int i = 0; i < n; i++) out[i] = value(rank, way, i);
        OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
        switch (way) {
        case 0: OK(F(File_write_at)(file, mine, out, n, MPI_INT, &status)); break;
        case 1: OK(F(File_write_at_all)(file, mine, out, n, MPI_INT, &status)); break;
        case 2: OK(F(File_iwrite_at)(file, mine, out, n, MPI_INT, &request)); WAITED; break;
        case 3: OK(F(File_iwrite_at_all)(file, mine, out, n, MPI_INT, &request)); WAITED; break;
        case 4: OK(F(File_write)(file, out, n, MPI_INT, &status)); break;
        case 5: OK(F(File_write_all)(file, out, n, MPI_INT, &status)); break;
        case 6: OK(F(File_iwrite)(file, out, n, MPI_INT, &request)); WAITED; break;
        default: OK(F(File_iwrite_all)(file, out, n, MPI_INT, &request)); WAITED;
        }
        OK(F(Get_count)(&status, MPI_INT, &got));
        CHECK(got == n);
        /* The same once more, in two parts. */
        OK(MPI_File_seek(file, mine, MPI_SEEK_SET));
        if (way % 2) {
            OK(F(File_write_at_all_begin)(file, mine, out, n, MPI_INT));
            OK(MPI_File_write_at_all_end(file, out, &status));
        } else {
            OK(F(File_write_all_begin)(file, out, n, MPI_INT));
            OK(MPI_File_write_all_end(file, out, &status));
        }
        OK(F(Get_count)(&status, MPI_INT, &got));
        CHECK(got == n);
        OK(MPI_File_sync(file));
        OK(MPI_Barrier(comm));
        OK(MPI_File_sync(file));
        MPI_Offset theirs = (MPI_Offset)before * n;
        OK(MPI_File_seek(file, theirs, MPI_SEEK_SET));
        memset(in, 255, n * sizeof(int));
        switch (way % READS) {
        case 0: OK(F(File_read_at)(file, theirs, in, n, MPI_INT, &status)); break;
        case 1: OK(F(File_read_at_all)(file, theirs, in, n, MPI_INT, &status)); break;
        case 2: OK(F(File_iread_at)(file, theirs, in, n, MPI_INT, &request)); WAITED; break;
        case 3: OK(F(File_iread_at_all)(file, theirs, in, n, MPI_INT, &request)); WAITED; break;
        case 4: OK(F(File_read)(file, in, n, MPI_INT, &status)); break;
        case 5: OK(F(File_read_all)(file, in, n, MPI_INT, &status)); break;
        case 6: OK(F(File_iread)(file, in, n, MPI_INT, &request)); WAITED; break;
        default: OK(F(File_iread_all)(file, in, n, MPI_INT, &request)); WAITED;
        }
        OK(F(Get_count)(&status, MPI_INT, &got));
        CHECK(got == n);
        for (int i = 0; i < n; i++) CHECK(in[i] == value(before, way, i));
        OK(MPI_File_seek(file, theirs, MPI_SEEK_SET));
        memset(in, 255, n * sizeof(int));
        if (way % 2) {
            OK(F(File_read_at_all_begin)(file, theirs, in, n, MPI_INT));
            OK(MPI_File_read_at_all_end(file, in, &status));
        } else {
            OK(F(File_read_all_begin)(file, in, n, MPI_INT));
            OK(MPI_File_read_all_end(file, in, &status));
        }
        for (int i = 0; i < n; i++) CHECK(in[i] == value(before, way, i));
        OK(MPI_Barrier(comm));
    }
    /* In the order of ranks, and in any order: what a process writes with the shared pointer lies together. */
    for (int way = 0; way < 4; way++) {
        for (int i = 0; i < n; i++) out[i] = value(rank, 20 + way, i);
        OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        switch (way) {
        case 0: OK(F(File_write_ordered)(file, out, n, MPI_INT, &status)); break;
        case 1:
            OK(F(File_write_ordered_begin)(file, out, n, MPI_INT));
            OK(MPI_File_write_ordered_end(file, out, &status));
            break;
        case 2: OK(F(File_write_shared)(file, out, n, MPI_INT, &status)); break;
        default: OK(F(File_iwrite_shared)(file, out, n, MPI_INT, &request)); WAITED;
        }
        OK(MPI_File_sync(file));
        OK(MPI_Barrier(comm));
        OK(MPI_File_sync(file));
        OK(MPI_File_read_at(file, 0, all, n * size, MPI_INT, &status));
        for (int r = 0; r < size && n > 0; r++) {
            int *block = all + (size_t)r * n, of = r;
            if (way > 1)
                for (of = 0; of < size && value(of, 20 + way, 0) != block[0];) of++;
            CHECK(of < size);
            for (int i = 0; i < n; i++) CHECK(block[i] == value(of, 20 + way, i));
        }
        OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
        memset(in, 255, n * sizeof(int));
        switch (way) {
        case 0: OK(F(File_read_ordered)(file, in, n, MPI_INT, &status)); break;
        case 1:
            OK(F(File_read_ordered_begin)(file, in, n, MPI_INT));
            OK(MPI_File_read_ordered_end(file, in, &status));
            break;
        case 2: OK(F(File_read_shared)(file, in, n, MPI_INT, &status)); break;
        default: OK(F(File_iread_shared)(file, in, n, MPI_INT, &request)); WAITED;
        }
        OK(F(Get_count)(&status, MPI_INT, &got));
        CHECK(got == n);
        int block = rank;
        if (way > 1)
            for (block = 0; block < size && n > 0 && in[0] != all[(size_t)block * n];) block++;
        CHECK(block < size);
        CHECK(memcmp(in, all + (size_t)block * n, n * sizeof(int)) == 0);
        OK(MPI_Barrier(comm));
    }
    OK(MPI_File_close(&file));
    if (rank == 0) OK(MPI_File_delete(name, MPI_INFO_NULL));
    free(out), free(in), free(all);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    before = (rank + size - 1) % size, behind = (rank + 1) % size;
    /* None, one, what lies in one line, in one packet, in many. */
    static const int counts[] = {0, 1, 9, 1000, 40000};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int n = counts[i];
        for (int vary = 0; vary < 2; vary++) gathering(n, vary), scattering(n, vary), exchanging(n, vary);
        reducing(n);
        neighbours(n);
        messages(n);
        windows(n);
        files(n);
    }
    datatypes();
    OK(MPI_Comm_free(&comm));
    OK(MPI_Finalize());
    return 0;
}
