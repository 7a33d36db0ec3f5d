/* Which error handler a call's error goes to: that of the object that the call is about, also if it names it by a pointer or by a request,
 * or an argument. MPI_COMM_SELF's ends the program here. */
#include "check.h"

static int handled;

static void note(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    handled++;
}

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

static void by_pointer(void) {
    MPI_Win win;
    MPI_Session session = MPI_SESSION_NULL;
    MPI_Comm comm, bad;
    MPI_Group group;
    char memory[64];
    OK(MPI_Win_create(memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    OK(MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win));
    CHECK(class_of(MPI_Win_free(&win)) == MPI_ERR_RMA_SYNC);
    OK(MPI_Win_unlock(0, win));
    OK(MPI_Win_free(&win));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    comm = MPI_COMM_WORLD;
    CHECK(class_of(MPI_Comm_free(&comm)) == MPI_ERR_COMM);
    CHECK(class_of(MPI_Comm_disconnect(&comm)) == MPI_ERR_COMM);
    /* An info object that is none. */
    MPI_Info info;
    OK(MPI_Info_create(&info));
    bad = MPI_COMM_NULL;
    MPI_Info gone = info;
    OK(MPI_Info_free(&info));
    CHECK(class_of(MPI_Session_init(gone, MPI_ERRORS_RETURN, &session)) == MPI_ERR_INFO);
    OK(MPI_Comm_group(MPI_COMM_SELF, &group));
    CHECK(class_of(MPI_Comm_create_from_group(group, "tag", gone, MPI_ERRORS_RETURN, &bad)) == MPI_ERR_INFO);
    MPI_Errhandler own;
    OK(MPI_Session_create_errhandler((MPI_Session_errhandler_function *)note, &own));
    CHECK(class_of(MPI_Session_init(gone, own, &session)) == MPI_ERR_INFO && handled == 1);
    OK(MPI_Errhandler_free(&own));
    OK(MPI_Group_free(&group));
}

static void by_request(void) {
    MPI_Request request;
    int value = 0, flag;
    OK(MPI_Psend_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    CHECK(class_of(MPI_Pready(7, request)) == MPI_ERR_ARG);
    OK(MPI_Request_free(&request));
    OK(MPI_Precv_init(&value, 1, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    CHECK(class_of(MPI_Parrived(request, 7, &flag)) == MPI_ERR_ARG);
    OK(MPI_Request_free(&request));
    /* No buffer is attached. */
    OK(MPI_Bsend_init(&value, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &request));
    CHECK(class_of(MPI_Start(&request)) == MPI_ERR_BUFFER);
    OK(MPI_Request_free(&request));
    /* Wildcards are for receives. */
    CHECK(class_of(MPI_Send_init(&value, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &request)) == MPI_ERR_RANK);
    CHECK(class_of(MPI_Ssend_init(&value, 1, MPI_INT, rank, MPI_ANY_TAG, MPI_COMM_WORLD, &request)) == MPI_ERR_TAG);
}

/* Each handle of a handler that the program has is freed by itself. */
static void counted(void) {
    MPI_Errhandler own, other;
    MPI_Comm comm;
    OK(MPI_Comm_create_errhandler(note, &own));
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_errhandler(comm, own));
    OK(MPI_Comm_get_errhandler(comm, &other));
    CHECK(other == own);
    OK(MPI_Errhandler_free(&other));
    OK(MPI_Comm_free(&comm));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, own));
    OK(MPI_Errhandler_free(&own));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
}

static int copy_fails(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *flag) {
    (void)comm, (void)key, (void)extra, (void)value, (void)copy, (void)flag;
    return MPI_ERR_OTHER;
}

/* Hints are not passed on; a copy function that fails at one rank leaves nothing behind. */
static void duplicates(void) {
    MPI_Comm comm, twin;
    MPI_Info info;
    MPI_Request request;
    int many, key, sum;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_no_any_tag", "true"));
    OK(MPI_Comm_set_info(comm, info));
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_dup(comm, &twin));
    OK(MPI_Comm_get_info(twin, &info));
    OK(MPI_Info_get_nkeys(info, &many));
    CHECK(many == 0);
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_free(&twin));
    OK(MPI_Comm_create_keyval(copy_fails, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    if (rank == 0) OK(MPI_Comm_set_attr(comm, key, &key));
    for (int i = 0; i < 3; i++) {
        int code = MPI_Comm_dup(comm, &twin);
        CHECK((code != MPI_SUCCESS) == (rank == 0));
        if (rank) OK(MPI_Comm_free(&twin));
        code = MPI_Comm_idup(comm, &twin, &request);
        CHECK((code != MPI_SUCCESS) == (rank == 0));
        if (rank) {
            OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            OK(MPI_Comm_free(&twin));
        }
        OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
        CHECK(sum == size * (size - 1) / 2);
    }
    if (rank == 0) OK(MPI_Comm_delete_attr(comm, key));
    OK(MPI_Comm_free_keyval(&key));
    OK(MPI_Comm_free(&comm));
}

/* Messages on their way use the buffer together, until they are received. */
static void buffered(void) {
    enum { BYTES = 1 << 20 };
    static char room[2 * (BYTES + MPI_BSEND_OVERHEAD)], message[BYTES];
    void *base;
    int bytes;
    MPI_Comm comm;
    OK(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Buffer_attach(room, sizeof room));
    for (int i = 0; i < 3; i++) {
        OK(MPI_Bsend(message, BYTES, MPI_CHAR, 0, 5, comm));
        OK(MPI_Bsend(message, BYTES, MPI_CHAR, 0, 5, comm));
        CHECK(class_of(MPI_Bsend(message, BYTES, MPI_CHAR, 0, 5, comm)) == MPI_ERR_BUFFER);
        OK(MPI_Recv(message, BYTES, MPI_CHAR, 0, 5, comm, MPI_STATUS_IGNORE));
        OK(MPI_Bsend(message, BYTES, MPI_CHAR, 0, 5, comm));
        CHECK(class_of(MPI_Bsend(message, BYTES, MPI_CHAR, 0, 5, comm)) == MPI_ERR_BUFFER);
        for (int k = 0; k < 2; k++) OK(MPI_Recv(message, BYTES, MPI_CHAR, 0, 5, comm, MPI_STATUS_IGNORE));
    }
    OK(MPI_Buffer_detach(&base, &bytes));
    CHECK(base == room && bytes == (int)sizeof room);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    by_pointer();
    by_request();
    counted();
    duplicates();
    buffered();
    OK(MPI_Finalize());
    return 0;
}
