/* Far more small messages than are held for receives that come later: what the standard lets get on gets on
 * (MPI 5.0 §3.5, progress). */
#include "check.h"

/* LONG_MESSAGES of LONG_WORDS are more than 32 MiB, the most that is held. */
enum { MESSAGES = 10000, WORDS = 24, LONG_MESSAGES = 12000, LONG_WORDS = 768, PIECE = 100 };

/* All send to rank 0, which takes the messages of the last rank first. */
static void last_rank_first(void)
{
    static int data[LONG_WORDS];
    if (rank > 0)
        for (int i = 0; i < LONG_MESSAGES; i++) {
            data[0] = i;
            MPI_Send(data, LONG_WORDS, MPI_INT, 0, 1, MPI_COMM_WORLD);
        }
    for (int from = size - 1; rank == 0 && from > 0; from--)
        for (int i = 0; i < LONG_MESSAGES; i++) {
            MPI_Recv(data, LONG_WORDS, MPI_INT, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            CHECK(data[0] == i);
        }
}

/* Each rank has receives for all that the others send it, and sends in blocking calls. */
static void all_at_once(void)
{
    static int into[MESSAGES][WORDS];
    static MPI_Request requests[MESSAGES];
    int next = (rank + 1) % size, last = (rank + size - 1) % size, data[WORDS] = {0};
    for (int i = 0; i < MESSAGES; i++)
        MPI_Irecv(into[i], WORDS, MPI_INT, last, 2, MPI_COMM_WORLD, &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < MESSAGES; i++) {
        data[0] = i;
        MPI_Send(data, WORDS, MPI_INT, next, 2, MPI_COMM_WORLD);
    }
    MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MESSAGES; i++)
        CHECK(into[i][0] == i);
}

/* Messages that arrive in the opposite order of their receives. */
static void tags_backwards(void)
{
    int next = (rank + 1) % size, last = (rank + size - 1) % size, data[PIECE], into = -1;
    MPI_Request requests[PIECE];
    for (int i = 0; i < PIECE; i++) {
        data[i] = i;
        MPI_Isend(&data[i], 1, MPI_INT, next, i, MPI_COMM_WORLD, &requests[i]);
    }
    for (int i = PIECE - 1; i >= 0; i--) {
        MPI_Recv(&into, 1, MPI_INT, i % 3 ? last : MPI_ANY_SOURCE, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        CHECK(into == i);
    }
    MPI_Waitall(PIECE, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    last_rank_first();
    all_at_once();
    tags_backwards();
    MPI_Finalize();
    return 0;
}
