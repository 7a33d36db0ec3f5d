/* Messages in all ways that a record of them has to pair: more receives than one of a tag, which are waited for in another order,
 * wildcards, probes, persistent requests, synchronous and buffered sends; and collective operations. */
#include "check.h"

int main(int argc, char **argv)
{
    int from[4] = {1, 2, 3, 4}, into[4] = {0};
    MPI_Request requests[4];
    begin(&argc, &argv);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int i = 0; i < 4; i++)
        MPI_Irecv(&into[i], 1, MPI_INT, last, 3, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < 4; i++)
        MPI_Send(&from[i], 1, MPI_INT, next, 3, MPI_COMM_WORLD);
    for (int i = 3; i >= 0; i--)
        MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    for (int i = 0; i < 4; i++)
        CHECK(into[i] == i + 1);
    MPI_Isend(from, 1, MPI_INT, next, 4, MPI_COMM_WORLD, requests);
    MPI_Recv(into, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(requests, MPI_STATUS_IGNORE);
    MPI_Message message;
    MPI_Issend(from, 2, MPI_INT, next, 5, MPI_COMM_WORLD, requests);
    MPI_Mprobe(last, 5, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(into, 2, MPI_INT, &message, MPI_STATUS_IGNORE);
    MPI_Wait(requests, MPI_STATUS_IGNORE);
    MPI_Send_init(from, 1, MPI_INT, next, 6, MPI_COMM_WORLD, &requests[0]);
    MPI_Recv_init(into, 1, MPI_INT, last, 6, MPI_COMM_WORLD, &requests[1]);
    for (int i = 0; i < 3; i++) {
        MPI_Startall(2, requests);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Sendrecv(from, 1, MPI_INT, next, 9, into, 1, MPI_INT, last, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(from, into, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(into[0] == size);
    /* The last two and, alone, the first: their ranks there are turned round. */
    MPI_Comm some;
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, -rank, &some);
    MPI_Allreduce(from, into, 1, MPI_INT, MPI_SUM, some);
    MPI_Comm_free(&some);
    MPI_Ibarrier(MPI_COMM_WORLD, requests);
    MPI_Wait(requests, MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
