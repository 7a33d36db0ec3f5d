/* Partitioned messages: partitions become ready in any order, and arrive one by one; sender and receiver have different ones. */
#include "check.h"

enum { TIMES = 3, ALL = 24 };

static void round_trip(int of_sender, int of_receiver) {
    int out[ALL], in[ALL], to = (rank + 1) % size, from = (rank + size - 1) % size, flag;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    OK(MPI_Precv_init(in, of_receiver, ALL / of_receiver, MPI_INT, from, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Psend_init(out, of_sender, ALL / of_sender, MPI_INT, to, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    for (int round = 0; round < TIMES; round++) {
        for (int i = 0; i < ALL; i++) out[i] = rank * 1000 + round * 100 + i, in[i] = -1;
        OK(MPI_Parrived(requests[0], 0, &flag));
        CHECK(flag);
        OK(MPI_Startall(2, requests));
        if (round == 0) {
            for (int p = of_sender - 1; p >= 0; p--) OK(MPI_Pready(p, requests[1]));
        } else if (round == 1) {
            OK(MPI_Pready_range(0, of_sender - 1, requests[1]));
        } else {
            int list[ALL];
            for (int p = 0; p < of_sender; p++) list[p] = (p + 1) % of_sender;
            OK(MPI_Pready_list(of_sender, list, requests[1]));
        }
        for (flag = 0; !flag;) OK(MPI_Parrived(requests[0], of_receiver - 1, &flag));
        CHECK(in[ALL - 1] == from * 1000 + round * 100 + ALL - 1);
        OK(MPI_Waitall(2, requests, statuses));
        for (int i = 0; i < ALL; i++) CHECK(in[i] == from * 1000 + round * 100 + i);
        CHECK(statuses[0].MPI_SOURCE == from && statuses[0].MPI_TAG == 3);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
}

/* One partition arrives before the next one is ready, which the receiver's reply triggers. */
static void one_by_one(void) {
    if (size < 2 || rank > 1) return;
    int data[2] = {rank ? -1 : 5, rank ? -1 : 6}, flag = 0;
    MPI_Request request;
    if (rank == 0) {
        OK(MPI_Psend_init(data, 2, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        OK(MPI_Start(&request));
        OK(MPI_Pready(1, request));
        OK(MPI_Recv(&flag, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(flag == 6);
        OK(MPI_Pready(0, request));
    } else {
        OK(MPI_Precv_init(data, 2, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
        OK(MPI_Start(&request));
        while (!flag) OK(MPI_Parrived(request, 1, &flag));
        OK(MPI_Parrived(request, 0, &flag));
        CHECK(!flag && data[1] == 6);
        OK(MPI_Send(&data[1], 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(data[0] == 5 && data[1] == 6);
    OK(MPI_Request_free(&request));
}

/* Every second int. */
static void strided(void) {
    int out[8], in[8], to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Datatype second;
    MPI_Request requests[2];
    OK(MPI_Type_create_resized(MPI_INT, 0, 8, &second));
    OK(MPI_Type_commit(&second));
    for (int i = 0; i < 8; i++) out[i] = rank * 10 + i, in[i] = -1;
    OK(MPI_Psend_init(out, 4, 1, second, to, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[0]));
    OK(MPI_Precv_init(in, 2, 2, second, from, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &requests[1]));
    OK(MPI_Startall(2, requests));
    OK(MPI_Pready_range(0, 3, requests[0]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 8; i++) CHECK(in[i] == (i % 2 ? -1 : from * 10 + i));
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    OK(MPI_Type_free(&second));
}

/* What the receiver of `behind_another` waits for. */
enum Other { MESSAGE, MESSAGE_AND_PARTS, BARRIER_LATER, BARRIER, OTHERS };

static void barrier(enum Other way, MPI_Comm comm) {
    MPI_Request request;
    if (way == BARRIER) {
        OK(MPI_Barrier(comm));
    } else {
        OK(MPI_Ibarrier(comm, &request));
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
}

/* The receiver waits for something else, which comes only once the sender is rid of all partitions: a receive that was started before the message was
 * described gets on meanwhile. */
static void behind_another(void) {
    enum { BYTES = 1 << 20, PARTS = 4 };
    static char data[PARTS * BYTES];
    int other = rank ^ 1, begun = 1, over = 0;
    MPI_Comm both;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &both));
    for (enum Other way = 0; way < OTHERS && other < size; way++) {
        MPI_Request part, message;
        int is_message = way == MESSAGE || way == MESSAGE_AND_PARTS;
        memset(data, rank % 2 ? 7 + (int)way : 0, sizeof data);
        if (rank % 2) {
            OK(MPI_Recv(&begun, 1, MPI_INT, other, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            OK(MPI_Psend_init(data, PARTS, BYTES, MPI_CHAR, other, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &part));
            OK(MPI_Start(&part));
            OK(MPI_Pready_range(0, PARTS - 1, part));
            OK(MPI_Wait(&part, MPI_STATUS_IGNORE));
            if (is_message) {
                OK(MPI_Send(&begun, 1, MPI_INT, other, 4, MPI_COMM_WORLD));
            } else {
                barrier(way, both);
            }
        } else {
            OK(MPI_Precv_init(data, PARTS, BYTES, MPI_CHAR, other, 3, MPI_COMM_WORLD, MPI_INFO_NULL, &part));
            OK(MPI_Start(&part));
            if (is_message) OK(MPI_Irecv(&over, 1, MPI_INT, other, 4, MPI_COMM_WORLD, &message));
            OK(MPI_Send(&begun, 1, MPI_INT, other, 2, MPI_COMM_WORLD));
            if (way == MESSAGE) {
                OK(MPI_Wait(&message, MPI_STATUS_IGNORE));
            } else if (way == MESSAGE_AND_PARTS) {
                MPI_Request all[2] = {part, message};
                int flag = 0;
                while (!flag) OK(MPI_Testall(2, all, &flag, MPI_STATUSES_IGNORE));
                part = all[0];
            } else {
                barrier(way, both);
            }
            OK(MPI_Wait(&part, MPI_STATUS_IGNORE));
            CHECK(over == 1 && data[0] == 7 + (int)way && data[sizeof data - 1] == 7 + (int)way);
        }
        OK(MPI_Request_free(&part));
    }
    OK(MPI_Comm_free(&both));
}

static void nobody(void) {
    int data = 0;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Precv_init(&data, 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    OK(MPI_Start(&request));
    OK(MPI_Wait(&request, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    OK(MPI_Request_free(&request));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    round_trip(1, 1);
    round_trip(4, 4);
    round_trip(8, 3);
    round_trip(2, 12);
    one_by_one();
    strided();
    behind_another();
    nobody();
    OK(MPI_Finalize());
    return 0;
}
