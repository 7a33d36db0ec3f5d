/* A receive with less room than its message has is MPI_ERR_TRUNCATE, whichever way it goes: it changes no memory behind its own, its status names the
 * message, the sender is told nothing, and the messages behind it come as they were sent. */
#include "check.h"

enum { TAG = 5, NEXT = 6, GO = 7, GUARD = 64 };
/* Ways to receive. */
enum { RECV, ANY, WAIT, TEST, WAITALL, WAITANY, WAITSOME, TESTALL, TESTSOME, PROBE, MPROBE, IMPROBE, PERSISTENT, WAYS };
/* Ways to send. */
enum { SEND, SSEND, ISEND, BSEND, STARTED, MODES };

static const int LENGTHS[] = {2, 100, 3000, 40000, 600000};
enum { MANY = sizeof LENGTHS / sizeof *LENGTHS, LONGEST = 600000 };

static MPI_Datatype strided, mixed;

/* Elements that differ from message to message. */
static int element(int message, int at) {
    return message * 7919 + at;
}

struct side {
    MPI_Comm comm;
    int other; /* the rank of the other side */
    int *memory, *sent;
    int message;
};

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

/* A datatype of so many ints, and the ints that an element of it spans. */
static int ints(MPI_Datatype type) {
    return type == MPI_INT ? 1 : 2;
}

static int span(MPI_Datatype type) {
    return type == MPI_INT ? 1 : type == strided ? 4 : 3;
}

static void fill(int *memory, int count) {
    for (int i = 0; i < count; i++) memory[i] = -1 - i;
}

/* The status of a receive with room for so many elements of a datatype. */
static void check_status(const struct side *at, const MPI_Status *status, int tag, int room, MPI_Datatype type) {
    int count;
    CHECK(status->MPI_SOURCE == at->other && status->MPI_TAG == tag);
    OK(MPI_Get_count(status, type, &count));
    CHECK(count == room);
}

/* What lies behind the room of a receive is as it was. */
static void check_memory(const struct side *at, int room, MPI_Datatype type) {
    int first = room * span(type);
    for (int i = first; i < first + GUARD; i++) CHECK(at->memory[i] == -1 - i);
    /* And in the gaps. */
    if (type != MPI_INT)
        for (int i = 1; i < first; i += span(type)) CHECK(at->memory[i] == -1 - i);
}

static void send_one(struct side *at, int mode, int count, int tag) {
    MPI_Request request = MPI_REQUEST_NULL;
    for (int i = 0; i < count; i++) at->sent[i] = element(at->message, i);
    at->message++;
    switch (mode) {
    case SEND: OK(MPI_Send(at->sent, count, MPI_INT, at->other, tag, at->comm)); break;
    case SSEND: OK(MPI_Ssend(at->sent, count, MPI_INT, at->other, tag, at->comm)); break;
    case ISEND: OK(MPI_Isend(at->sent, count, MPI_INT, at->other, tag, at->comm, &request)); break;
    case BSEND: OK(MPI_Bsend(at->sent, count, MPI_INT, at->other, tag, at->comm)); break;
    default:
        OK(MPI_Send_init(at->sent, count, MPI_INT, at->other, tag, at->comm, &request));
        OK(MPI_Start(&request));
    }
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    if (request != MPI_REQUEST_NULL) OK(MPI_Request_free(&request));
}

/* A receive of one message, which has enough room if `wanted` is MPI_SUCCESS. */
static void receive_one(struct side *at, int way, int is_early, int room, MPI_Datatype type, int tag, int wanted) {
    MPI_Request request = MPI_REQUEST_NULL, several[2];
    MPI_Status status, statuses[2];
    MPI_Message message;
    int code = MPI_SUCCESS, flag = 0, index, indices[2], done;
    status.MPI_ERROR = -77;
    if (is_early && way >= WAIT && way < PROBE) OK(MPI_Irecv(at->memory, room, type, at->other, tag, at->comm, &request));
    if (way == PERSISTENT) {
        OK(MPI_Recv_init(at->memory, room, type, at->other, tag, at->comm, &request));
        if (is_early) OK(MPI_Start(&request));
    }
    OK(MPI_Send(NULL, 0, MPI_INT, at->other, GO, at->comm));
    if (!is_early) {
        /* The message has come, or its announcement. */
        OK(MPI_Probe(at->other, tag, at->comm, MPI_STATUS_IGNORE));
        if (way >= WAIT && way < PROBE) OK(MPI_Irecv(at->memory, room, type, at->other, tag, at->comm, &request));
        if (way == PERSISTENT) OK(MPI_Start(&request));
    }
    several[0] = MPI_REQUEST_NULL;
    several[1] = request;
    switch (way) {
    case RECV: code = MPI_Recv(at->memory, room, type, at->other, tag, at->comm, &status); break;
    case ANY: code = MPI_Recv(at->memory, room, type, MPI_ANY_SOURCE, MPI_ANY_TAG, at->comm, &status); break;
    case TEST:
        while (!flag && code == MPI_SUCCESS) code = MPI_Test(&request, &flag, &status);
        break;
    case WAITALL:
    case TESTALL:
        while (!flag && code == MPI_SUCCESS) {
            code = way == WAITALL ? MPI_Waitall(2, several, statuses) : MPI_Testall(2, several, &flag, statuses);
            if (way == WAITALL) break;
        }
        if (code != MPI_SUCCESS) {
            CHECK(class_of(code) == MPI_ERR_IN_STATUS && statuses[0].MPI_ERROR == MPI_SUCCESS);
            code = statuses[1].MPI_ERROR;
        }
        status = statuses[1], request = several[1];
        break;
    case WAITANY:
        code = MPI_Waitany(2, several, &index, &status);
        CHECK(index == 1);
        request = several[1];
        break;
    case WAITSOME:
    case TESTSOME:
        do {
            code = way == WAITSOME ? MPI_Waitsome(2, several, &done, indices, statuses) : MPI_Testsome(2, several, &done, indices, statuses);
        } while (done == 0 && code == MPI_SUCCESS);
        CHECK(done == 1 && indices[0] == 1);
        if (code != MPI_SUCCESS) {
            CHECK(class_of(code) == MPI_ERR_IN_STATUS);
            code = statuses[0].MPI_ERROR;
        }
        status = statuses[0], request = several[1];
        break;
    case PROBE:
        OK(MPI_Probe(at->other, tag, at->comm, &status));
        code = MPI_Recv(at->memory, room, type, status.MPI_SOURCE, status.MPI_TAG, at->comm, &status);
        break;
    case MPROBE:
        OK(MPI_Mprobe(at->other, tag, at->comm, &message, &status));
        code = MPI_Mrecv(at->memory, room, type, &message, &status);
        CHECK(message == MPI_MESSAGE_NULL);
        break;
    case IMPROBE:
        while (!flag) OK(MPI_Improbe(MPI_ANY_SOURCE, tag, at->comm, &flag, &message, &status));
        OK(MPI_Imrecv(at->memory, room, type, &message, &request));
        code = MPI_Wait(&request, &status);
        break;
    default: code = MPI_Wait(&request, &status);
    }
    if (class_of(code) != wanted)
        fprintf(stderr, "rank %d: way %d, early %d, room %d, class %d instead of %d\n", rank, way, is_early, room, class_of(code), wanted);
    CHECK(class_of(code) == wanted);
    if (way == PERSISTENT) OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL);
    check_status(at, &status, tag, room, type);
    check_memory(at, room, type);
}

/* Two messages: the first is too long for its receive, the second is not. */
static void both_sides(struct side *at, int is_receiver) {
    MPI_Datatype types[] = {MPI_INT, strided, mixed};
    int turn = 0;
    for (int way = 0; way < WAYS; way++)
        for (int which = 0; which < MANY; which++)
            for (int kind = 0; kind < 3; kind++)
                for (int is_early = 0; is_early < 2; is_early++, turn++) {
                    int length = LENGTHS[which], mode = turn % MODES;
                    MPI_Datatype type = types[kind];
                    int rooms[] = {0, length / ints(type) / 2, length / ints(type) - 1};
                    for (int r = 0; r < 3; r++) {
                        int room = rooms[r];
                        /* Behind the probe for the first message nothing may be sent that a receive from any rank could take. */
                        if (is_receiver) {
                            fill(at->memory, length * 4 + GUARD);
                            receive_one(at, way, is_early, room, type, TAG, MPI_ERR_TRUNCATE);
                            fill(at->memory, length * 4 + GUARD);
                            receive_one(at, way, is_early, length / ints(type), type, NEXT, MPI_SUCCESS);
                            at->message += 2;
                            for (int i = 0; i < length; i++) {
                                int place = type == MPI_INT ? i : i / 2 * span(type) + i % 2 * 2;
                                CHECK(at->memory[place] == element(at->message - 1, i));
                            }
                        } else {
                            OK(MPI_Recv(NULL, 0, MPI_INT, at->other, GO, at->comm, MPI_STATUS_IGNORE));
                            send_one(at, mode, length, TAG);
                            OK(MPI_Recv(NULL, 0, MPI_INT, at->other, GO, at->comm, MPI_STATUS_IGNORE));
                            send_one(at, mode, length, NEXT);
                        }
                    }
                }
}

/* Both send, and one of them has too little room. */
static void exchanges(struct side *at, int is_short) {
    MPI_Status status;
    for (int which = 0; which < MANY; which++)
        for (int form = 0; form < 4; form++) {
            int length = LENGTHS[which], room = is_short ? length / 2 : length, code;
            /* In place, the short side sends what it has room for. */
            int is_replaced = form % 2;
            int sends = is_replaced ? room : length, comes = is_replaced && !is_short ? length / 2 : length;
            MPI_Request request;
            fill(at->memory, length * 4 + GUARD);
            for (int i = 0; i < length; i++) at->sent[i] = element(which, i);
            if (is_replaced) memcpy(at->memory, at->sent, sends * sizeof(int));
            switch (form) {
            case 0:
                code = MPI_Sendrecv(at->sent, sends, MPI_INT, at->other, TAG, at->memory, room, MPI_INT, at->other, TAG, at->comm, &status);
                break;
            case 1: code = MPI_Sendrecv_replace(at->memory, room, MPI_INT, at->other, TAG, at->other, TAG, at->comm, &status); break;
            case 2:
                OK(MPI_Isendrecv(at->sent, sends, MPI_INT, at->other, TAG, at->memory, room, MPI_INT, at->other, TAG, at->comm, &request));
                code = MPI_Wait(&request, &status);
                break;
            default:
                OK(MPI_Isendrecv_replace(at->memory, room, MPI_INT, at->other, TAG, at->other, TAG, at->comm, &request));
                code = MPI_Wait(&request, &status);
            }
            CHECK(class_of(code) == (is_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
            check_status(at, &status, TAG, is_short ? room : comes, MPI_INT);
            check_memory(at, room, MPI_INT);
            for (int i = 0; !is_short && i < comes; i++) CHECK(at->memory[i] == element(which, i));
            int next = -1;
            OK(MPI_Sendrecv(&which, 1, MPI_INT, at->other, TAG, &next, 1, MPI_INT, at->other, TAG, at->comm, MPI_STATUS_IGNORE));
            CHECK(next == which);
        }
}

/* A partitioned receive with less room than the send has, started several times, and one that fits. The sender completes each time. */
static void partitions(struct side *at, int is_receiver) {
    enum { PARTS = 4, STARTS = 3 };
    for (int which = 0; which < MANY; which++)
        for (int is_short = 1; is_short >= 0; is_short--) {
            int each = (LENGTHS[which] + PARTS - 1) / PARTS, room = is_short ? each / 2 : each;
            MPI_Request request;
            MPI_Status status;
            if (is_receiver)
                OK(MPI_Precv_init(at->memory, PARTS, room, MPI_INT, at->other, TAG, at->comm, MPI_INFO_NULL, &request));
            else
                OK(MPI_Psend_init(at->sent, PARTS, each, MPI_INT, at->other, TAG, at->comm, MPI_INFO_NULL, &request));
            for (int start = 0; start < STARTS; start++) {
                fill(at->memory, each * PARTS + GUARD);
                for (int i = 0; i < each * PARTS; i++) at->sent[i] = element(start, i);
                OK(MPI_Start(&request));
                if (is_receiver) {
                    CHECK(class_of(MPI_Wait(&request, &status)) == (is_short ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
                    check_status(at, &status, TAG, room * PARTS, MPI_INT);
                    check_memory(at, room * PARTS, MPI_INT);
                    for (int i = 0; !is_short && i < each * PARTS; i++) CHECK(at->memory[i] == element(start, i));
                } else {
                    OK(MPI_Pready_range(0, PARTS - 1, request));
                    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
                }
                int next = which;
                if (is_receiver)
                    OK(MPI_Recv(&next, 1, MPI_INT, at->other, TAG, at->comm, MPI_STATUS_IGNORE));
                else
                    OK(MPI_Send(&next, 1, MPI_INT, at->other, TAG, at->comm));
                CHECK(next == which);
            }
            OK(MPI_Request_free(&request));
        }
}

/* Messages of a process to itself. */
static void to_itself(struct side *at) {
    MPI_Datatype types[] = {MPI_INT, strided, mixed};
    for (int which = 0; which < MANY; which++)
        for (int kind = 0; kind < 3; kind++)
            for (int form = 0; form < 6; form++) {
                int length = LENGTHS[which], room = length / ints(types[kind]) / 2;
                MPI_Request sending, receiving = MPI_REQUEST_NULL;
                MPI_Message message;
                MPI_Status status;
                int code = MPI_SUCCESS;
                fill(at->memory, length * 4 + GUARD);
                for (int i = 0; i < length; i++) at->sent[i] = element(which, i);
                if (form == 1) OK(MPI_Irecv(at->memory, room, types[kind], at->other, TAG, at->comm, &receiving));
                if (form == 5) OK(MPI_Irecv(at->memory, room, types[kind], MPI_ANY_SOURCE, MPI_ANY_TAG, at->comm, &receiving));
                OK(MPI_Isend(at->sent, length, MPI_INT, at->other, TAG, at->comm, &sending));
                switch (form) {
                case 0: code = MPI_Recv(at->memory, room, types[kind], at->other, TAG, at->comm, &status); break;
                case 2:
                    OK(MPI_Probe(at->other, TAG, at->comm, &status));
                    code = MPI_Recv(at->memory, room, types[kind], MPI_ANY_SOURCE, TAG, at->comm, &status);
                    break;
                case 3:
                    OK(MPI_Mprobe(at->other, TAG, at->comm, &message, &status));
                    code = MPI_Mrecv(at->memory, room, types[kind], &message, &status);
                    break;
                case 4:
                    OK(MPI_Irecv(at->memory, room, types[kind], at->other, TAG, at->comm, &receiving));
                    code = MPI_Wait(&receiving, &status);
                    break;
                default: code = MPI_Wait(&receiving, &status);
                }
                OK(MPI_Wait(&sending, MPI_STATUS_IGNORE));
                CHECK(class_of(code) == MPI_ERR_TRUNCATE);
                check_status(at, &status, TAG, room, types[kind]);
                check_memory(at, room, types[kind]);
                OK(MPI_Sendrecv(at->sent, length, MPI_INT, at->other, TAG, at->memory, length, MPI_INT, at->other, TAG, at->comm, &status));
                check_status(at, &status, TAG, length, MPI_INT);
                CHECK(memcmp(at->memory, at->sent, length * sizeof(int)) == 0);
            }
}

static void between(MPI_Comm comm, int other, int is_receiver) {
    struct side at = {comm, other, calloc(LONGEST * 4 + GUARD, sizeof(int)), calloc(LONGEST * 4, sizeof(int)), 0};
    CHECK(at.memory && at.sent);
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    both_sides(&at, is_receiver);
    exchanges(&at, is_receiver);
    partitions(&at, is_receiver);
    free(at.memory);
    free(at.sent);
}

int main(int argc, char **argv) {
    int one_each[] = {1, 1};
    MPI_Aint distances[] = {0, 8};
    MPI_Datatype of_both[] = {MPI_INT, MPI_INT}, whole;
    begin(&argc, &argv);
    /* Two ints, and a gap between them and behind them; the same without one behind them. */
    OK(MPI_Type_vector(2, 1, 2, MPI_INT, &whole));
    OK(MPI_Type_create_resized(whole, 0, 16, &strided));
    OK(MPI_Type_create_struct(2, one_each, distances, of_both, &mixed));
    OK(MPI_Type_commit(&strided));
    OK(MPI_Type_commit(&mixed));
    OK(MPI_Type_free(&whole));
    /* As many as there can be at a time. */
    int room = LONGEST * (int)sizeof(int) + MPI_BSEND_OVERHEAD;
    void *attached = malloc(room);
    OK(MPI_Buffer_attach(attached, room));
    struct side own = {MPI_COMM_SELF, 0, calloc(LONGEST * 4 + GUARD, sizeof(int)), calloc(LONGEST * 4, sizeof(int)), 0};
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    to_itself(&own);
    if (size > 1) {
        MPI_Comm half, inter;
        int is_odd = rank % 2, partner = rank ^ 1;
        if (partner < size) between(MPI_COMM_WORLD, partner, is_odd);
        OK(MPI_Comm_split(MPI_COMM_WORLD, is_odd, rank, &half));
        OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !is_odd, 0, &inter));
        if (partner < size) between(inter, rank / 2, !is_odd);
        OK(MPI_Comm_free(&half));
        OK(MPI_Comm_free(&inter));
    }
    OK(MPI_Buffer_detach(&attached, &room));
    free(attached), free(own.memory), free(own.sent);
    OK(MPI_Type_free(&strided));
    OK(MPI_Type_free(&mixed));
    OK(MPI_Finalize());
    return 0;
}
