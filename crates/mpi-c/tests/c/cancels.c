/* A send that is cancelled is received, or it is not, and never both, whatever its receiver has done by then (MPI 5.0 §3.8.4). */
#include "check.h"
#include <unistd.h>

enum { LONG = 1 << 20 };

static char sent[LONG], got[LONG];

/* Rank 0 learns that its message is cancelled, or rank 1 receives it. */
static void each(int bytes, int sender_waits, int receiver_waits, int mode) {
    MPI_Request request;
    MPI_Status status;
    int cancelled = 0, found = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        sent[bytes - 1] = 7;
        if (mode == 0) OK(MPI_Isend(sent, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
        if (mode == 1) OK(MPI_Issend(sent, bytes, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
        usleep(sender_waits);
        OK(MPI_Cancel(&request));
        OK(MPI_Wait(&request, &status));
        OK(MPI_Test_cancelled(&status, &cancelled));
        OK(MPI_Send(&cancelled, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
    } else if (rank == 1) {
        usleep(receiver_waits);
        got[bytes - 1] = 0;
        OK(MPI_Irecv(got, bytes, MPI_BYTE, 0, 0, MPI_COMM_WORLD, &request));
        OK(MPI_Recv(&cancelled, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &status));
        if (cancelled) {
            OK(MPI_Test(&request, &found, &status));
            CHECK(!found);
            OK(MPI_Cancel(&request));
            OK(MPI_Wait(&request, &status));
            OK(MPI_Test_cancelled(&status, &found));
            CHECK(found);
        } else {
            OK(MPI_Wait(&request, &status));
            CHECK(got[bytes - 1] == 7);
        }
    }
}

/* One that was matched by a probe is received. */
static void probed(void) {
    MPI_Request request;
    MPI_Message message;
    MPI_Status status;
    int cancelled = 0, asked = 0;
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) {
        OK(MPI_Isend(sent, LONG, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request));
        OK(MPI_Recv(&asked, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &status));
        OK(MPI_Cancel(&request));
        OK(MPI_Send(&asked, 1, MPI_INT, 1, 1, MPI_COMM_WORLD));
        OK(MPI_Wait(&request, &status));
        OK(MPI_Test_cancelled(&status, &cancelled));
        CHECK(!cancelled);
    } else if (rank == 1) {
        OK(MPI_Mprobe(0, 0, MPI_COMM_WORLD, &message, &status));
        OK(MPI_Send(&asked, 1, MPI_INT, 0, 1, MPI_COMM_WORLD));
        OK(MPI_Recv(&asked, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &status));
        OK(MPI_Mrecv(got, LONG, MPI_BYTE, &message, &status));
    }
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    if (size > 1) {
        for (int mode = 0; mode < 2; mode++) {
            int lengths[] = {8, 100000, LONG};
            for (int i = 0; i < 3; i++) {
                each(lengths[i], 100000, 50000, mode);
                each(lengths[i], 0, 50000, mode);
                for (int wait = 0; wait < 400; wait += 25) each(lengths[i], wait, 100, mode);
            }
        }
        probed();
    }
    OK(MPI_Finalize());
    return 0;
}
