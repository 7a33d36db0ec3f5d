/* Messages of all sizes and modes, in order, with wildcards, probes, requests of every kind. */
#include "check.h"

static int partner(void) { return rank % 2 == 0 ? (rank + 1 < size ? rank + 1 : rank) : rank - 1; }

static void fill(char *bytes, int len, int seed) {
    for (int i = 0; i < len; i++) bytes[i] = (char)(i * 7 + seed);
}

static int is_filled(const char *bytes, int len, int seed) {
    for (int i = 0; i < len; i++)
        if (bytes[i] != (char)(i * 7 + seed)) return 0;
    return 1;
}

static void sizes(void) {
    static const int lens[] = {0, 1, 8, 63, 64, 1000, 4096, 8191, 16384, 65536, 100001, 1 << 20, 5000000};
    for (unsigned k = 0; k < sizeof lens / sizeof *lens; k++) {
        int len = lens[k], there = partner(), count;
        char *out = malloc(len + 1), *in = malloc(len + 1);
        MPI_Status status;
        fill(out, len, rank);
        memset(in, 0, len + 1);
        MPI_Request requests[2];
        MPI_Status statuses[2];
        OK(MPI_Irecv(in, len, MPI_CHAR, there, 3, MPI_COMM_WORLD, &requests[0]));
        OK(MPI_Isend(out, len, MPI_CHAR, there, 3, MPI_COMM_WORLD, &requests[1]));
        OK(MPI_Waitall(2, requests, statuses));
        CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
        CHECK(statuses[0].MPI_SOURCE == there && statuses[0].MPI_TAG == 3);
        OK(MPI_Get_count(&statuses[0], MPI_CHAR, &count));
        CHECK(count == len && is_filled(in, len, there));
        if (there != rank) {
            if (rank % 2 == 0) {
                OK(MPI_Ssend(out, len, MPI_CHAR, there, 4, MPI_COMM_WORLD));
                OK(MPI_Recv(in, len, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
            } else {
                OK(MPI_Recv(in, len, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
                OK(MPI_Send(out, len, MPI_CHAR, there, 4, MPI_COMM_WORLD));
            }
            CHECK(status.MPI_SOURCE == there && status.MPI_TAG == 4);
            CHECK(is_filled(in, len, there));
        }
        OK(MPI_Barrier(MPI_COMM_WORLD));
        free(out);
        free(in);
    }
}

static void order(void) {
    /* Few enough to wait for their receives, whatever the library keeps for them. */
    enum { MANY = 90 };
    int there = partner();
    if (there == rank) {
        /* Alone. */
    } else if (rank % 2 == 0) {
        for (int i = 0; i < MANY; i++) OK(MPI_Send(&i, 1, MPI_INT, there, i % 3, MPI_COMM_WORLD));
    } else {
        int last[3] = {-1, -1, -1};
        /* Those with the tag 2 first: the others wait meanwhile. */
        for (int i = 0; i < MANY; i++) {
            int value, tag = i < MANY / 3 ? 2 : MPI_ANY_TAG;
            MPI_Status status;
            OK(MPI_Recv(&value, 1, MPI_INT, there, tag, MPI_COMM_WORLD, &status));
            CHECK(value % 3 == status.MPI_TAG && value > last[status.MPI_TAG]);
            last[status.MPI_TAG] = value;
        }
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void probes(void) {
    int there = partner(), flag = 0, count;
    double values[3] = {rank, rank + 0.5, rank + 0.25}, got[3];
    MPI_Status status;
    MPI_Message message;
    MPI_Request request;
    OK(MPI_Isend(values, 3, MPI_DOUBLE, there, 9, MPI_COMM_WORLD, &request));
    OK(MPI_Probe(there, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
    CHECK(status.MPI_TAG == 9 && status.MPI_SOURCE == there);
    OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
    CHECK(count == 3);
    while (!flag) OK(MPI_Improbe(MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, &flag, &message, &status));
    OK(MPI_Iprobe(there, 9, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Mrecv(got, 3, MPI_DOUBLE, &message, &status));
    CHECK(message == MPI_MESSAGE_NULL && got[2] == there + 0.25);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    /* One that is announced only, as it is large. */
    int len = 1 << 20;
    char *out = malloc(len), *in = malloc(len);
    fill(out, len, rank);
    OK(MPI_Isend(out, len, MPI_BYTE, there, 10, MPI_COMM_WORLD, &request));
    OK(MPI_Mprobe(there, 10, MPI_COMM_WORLD, &message, &status));
    MPI_Request receive;
    OK(MPI_Imrecv(in, len, MPI_BYTE, &message, &receive));
    OK(MPI_Wait(&receive, &status));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK(count == len && is_filled(in, len, there));
    free(out);
    free(in);
    OK(MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status));
    CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
    OK(MPI_Mrecv(NULL, 0, MPI_INT, &message, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && status.MPI_TAG == MPI_ANY_TAG);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void some_of_many(void) {
    enum { MANY = 20 };
    int there = partner(), values[MANY], out[MANY], done = 0, indices[MANY], many, index, flag;
    MPI_Request requests[MANY], sends[MANY];
    MPI_Status statuses[MANY], status;
    for (int i = 0; i < MANY; i++)
        OK(MPI_Irecv(&values[i], 1, MPI_INT, there, 100 + i, MPI_COMM_WORLD, &requests[i]));
    OK(MPI_Testany(MANY, requests, &index, &flag, &status));
    for (int i = MANY - 1; i >= 0; i--) {
        out[i] = i * i;
        OK(MPI_Isend(&out[i], 1, MPI_INT, there, 100 + i, MPI_COMM_WORLD, &sends[i]));
    }
    if (flag) done++;
    OK(MPI_Waitany(MANY, requests, &index, &status));
    CHECK(values[index] == index * index && status.MPI_TAG == 100 + index);
    done++;
    while (done < MANY) {
        OK(MPI_Waitsome(MANY, requests, &many, indices, statuses));
        CHECK(many > 0);
        for (int i = 0; i < many; i++) CHECK(values[indices[i]] == indices[i] * indices[i]);
        done += many;
    }
    OK(MPI_Waitsome(MANY, requests, &many, indices, statuses));
    CHECK(many == MPI_UNDEFINED);
    OK(MPI_Waitany(MANY, requests, &index, &status));
    CHECK(index == MPI_UNDEFINED && status.MPI_SOURCE == MPI_ANY_SOURCE);
    flag = 0;
    while (!flag) OK(MPI_Testall(MANY, sends, &flag, MPI_STATUSES_IGNORE));
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void persistent(void) {
    int there = partner(), out, in;
    MPI_Request requests[2];
    OK(MPI_Send_init(&out, 1, MPI_INT, there, 6, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Recv_init(&in, 1, MPI_INT, there, 6, MPI_COMM_WORLD, &requests[1]));
    for (int i = 0; i < 10; i++) {
        out = 100 * rank + i;
        OK(MPI_Startall(2, requests));
        OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        CHECK(in == 100 * there + i);
        CHECK(requests[0] != MPI_REQUEST_NULL);
    }
    OK(MPI_Request_free(&requests[0]));
    OK(MPI_Request_free(&requests[1]));
    CHECK(requests[0] == MPI_REQUEST_NULL);
}

static void cancelling(void) {
    int value, flag;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Irecv(&value, 1, MPI_INT, partner(), 77, MPI_COMM_WORLD, &request));
    OK(MPI_Cancel(&request));
    OK(MPI_Wait(&request, &status));
    OK(MPI_Test_cancelled(&status, &flag));
    CHECK(flag);
    OK(MPI_Barrier(MPI_COMM_WORLD));
}

static void exchanges(void) {
    int to = (rank + 1) % size, from = (rank + size - 1) % size, out = rank, in = -1;
    MPI_Status status;
    OK(MPI_Sendrecv(&out, 1, MPI_INT, to, 1, &in, 1, MPI_INT, from, 1, MPI_COMM_WORLD, &status));
    CHECK(in == from && status.MPI_SOURCE == from);
    OK(MPI_Sendrecv_replace(&out, 1, MPI_INT, to, 2, from, 2, MPI_COMM_WORLD, &status));
    CHECK(out == from);
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, MPI_PROC_NULL, 1, &in, 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &status));
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
    char space[4096];
    OK(MPI_Buffer_attach(space, sizeof space));
    out = 4 * rank;
    OK(MPI_Bsend(&out, 1, MPI_INT, to, 8, MPI_COMM_WORLD));
    out = -1;
    OK(MPI_Recv(&in, 1, MPI_INT, from, 8, MPI_COMM_WORLD, &status));
    CHECK(in == 4 * from);
    void *back;
    int len;
    OK(MPI_Buffer_detach(&back, &len));
    CHECK(back == space && len == sizeof space);
    /* To oneself. */
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, 0, 1, &in, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &status));
    CHECK(in == rank && status.MPI_SOURCE == 0);
}

static void is_truncated(const MPI_Status *status, int tag) {
    int count;
    OK(MPI_Get_count(status, MPI_INT, &count));
    CHECK(status->MPI_SOURCE == partner() && status->MPI_TAG == tag && count == 2);
}

static void truncation(void) {
    int values[4] = {1, 2, 3, 4}, few[2], class;
    MPI_Request request;
    MPI_Status status;
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Isend(values, 4, MPI_INT, partner(), 5, MPI_COMM_WORLD, &request));
    int code = MPI_Recv(few, 2, MPI_INT, partner(), 5, MPI_COMM_WORLD, &status);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_TRUNCATE);
    /* The status is that of the message, which may be held, or found by a receive that waits, of any kind. */
    is_truncated(&status, 5);
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int tag = 6; tag < 10; tag++) {
        int is_held = tag % 2, waits = tag < 8;
        MPI_Request receive;
        if (!is_held && !waits) OK(MPI_Irecv(few, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &receive));
        if (!is_held) OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Isend(values, 4, MPI_INT, partner(), tag, MPI_COMM_WORLD, &request));
        if (is_held) OK(MPI_Barrier(MPI_COMM_WORLD));
        if (is_held && !waits) OK(MPI_Irecv(few, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &receive));
        memset(&status, 0, sizeof status);
        code = waits ? MPI_Recv(few, 2, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status) : MPI_Wait(&receive, &status);
        OK(MPI_Error_class(code, &class));
        CHECK(class == MPI_ERR_TRUNCATE);
        is_truncated(&status, tag);
        OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    code = MPI_Send(values, 1, MPI_INT, size, 5, MPI_COMM_WORLD);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_RANK);
    code = MPI_Send(values, -1, MPI_INT, 0, 5, MPI_COMM_WORLD);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_COUNT);
    code = MPI_Send(values, 1, MPI_INT, 0, -5, MPI_COMM_WORLD);
    OK(MPI_Error_class(code, &class));
    CHECK(class == MPI_ERR_TAG);
    char text[MPI_MAX_ERROR_STRING];
    int len;
    OK(MPI_Error_string(code, text, &len));
    CHECK(len > 0 && (int)strlen(text) == len);
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    sizes();
    order();
    probes();
    some_of_many();
    persistent();
    cancelling();
    exchanges();
    truncation();
    OK(MPI_Finalize());
    return 0;
}
