/* Sessions without MPI_Init, one behind the other, with communicators of their sets of processes. */
#include "check.h"
#include <pthread.h>

/* Buffered messages go into the communicator's buffer, or else into its session's: 40 bytes have room in that alone. */
static void buffer(MPI_Session session, MPI_Comm comm) {
    static char room[4096 + MPI_BSEND_OVERHEAD], small[16 + MPI_BSEND_OVERHEAD];
    int from, to, class, sent[10], got[10], length;
    MPI_Comm twin;
    MPI_Request request;
    void *old;
    OK(MPI_Comm_size(comm, &size));
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    CHECK(!is_ours() || MPI_Bsend(sent, 10, MPI_INT, to, 0, comm) != MPI_SUCCESS);
    OK(MPI_Comm_dup(comm, &twin));
    OK(MPI_Session_attach_buffer(session, room, sizeof room));
    OK(MPI_Error_class(MPI_Session_attach_buffer(session, room, sizeof room), &class));
    CHECK(class == MPI_ERR_BUFFER || !is_ours());
    OK(MPI_Comm_attach_buffer(comm, small, sizeof small));
    CHECK(!is_ours() || MPI_Bsend(sent, 10, MPI_INT, to, 0, comm) != MPI_SUCCESS);
    for (int i = 0; i < 10; i++)
        sent[i] = rank * 100 + i;
    OK(MPI_Bsend(sent, 10, MPI_INT, to, 7, twin));
    OK(MPI_Bsend(sent, 4, MPI_INT, to, 8, comm));
    OK(MPI_Recv(got, 10, MPI_INT, from, 7, twin, MPI_STATUS_IGNORE));
    OK(MPI_Recv(got, 4, MPI_INT, from, 8, comm, MPI_STATUS_IGNORE));
    CHECK(got[9] == from * 100 + 9);
    OK(MPI_Session_flush_buffer(session));
    OK(MPI_Session_iflush_buffer(session, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Session_detach_buffer(session, &old, &length));
    CHECK(old == room && length == (int)sizeof room);
    OK(MPI_Error_class(MPI_Session_detach_buffer(session, &old, &length), &class));
    CHECK(class == MPI_ERR_BUFFER || !is_ours());
    /* Freed with the communicator. */
    OK(MPI_Comm_attach_buffer(twin, room, sizeof room));
    OK(MPI_Comm_free(&twin));
    OK(MPI_Comm_detach_buffer(comm, &old, &length));
    CHECK(old == small);
}

static void use(const char *tag) {
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;
    MPI_Info info;
    MPI_Errhandler handler;
    int many, len = 0, flag, sum, class, is_world = 0;
    char name[MPI_MAX_PSET_NAME_LEN], value[32];
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    OK(MPI_Session_get_num_psets(session, MPI_INFO_NULL, &many));
    CHECK(many >= 2);
    for (int i = 0; i < many; i++) {
        len = 0;
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, NULL));
        CHECK(len > 1 && len <= (int)sizeof name);
        OK(MPI_Session_get_nth_pset(session, MPI_INFO_NULL, i, &len, name));
        is_world |= strcmp(name, "mpi://WORLD") == 0;
    }
    CHECK(is_world);
    OK(MPI_Error_class(MPI_Group_from_session_pset(session, "mpi://NOWHERE", &group), &class));
    CHECK(class == MPI_ERR_ARG);
    OK(MPI_Session_get_errhandler(session, &handler));
    CHECK(handler == MPI_ERRORS_RETURN);
    OK(MPI_Group_from_session_pset(session, "mpi://self", &group));
    OK(MPI_Group_free(&group));
    OK(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    OK(MPI_Group_size(group, &size));
    OK(MPI_Session_get_pset_info(session, "mpi://WORLD", &info));
    len = sizeof value;
    OK(MPI_Info_get_string(info, "mpi_size", &len, value, &flag));
    CHECK(flag && atoi(value) == size);
    OK(MPI_Info_free(&info));
    OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm));
    OK(MPI_Comm_rank(comm, &rank));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, comm));
    CHECK(sum == size * (size - 1) / 2);
    buffer(session, comm);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
    CHECK(session == MPI_SESSION_NULL);
}

static void *thread_is_main(void *flag) {
    OK(MPI_Is_thread_main(flag));
    return NULL;
}

/* What threads may do is what a session asks for, and what it is told. */
static void threads(void) {
    MPI_Session session;
    MPI_Info info, asked;
    char value[64];
    int len = sizeof value, flag, of_other = 1;
    pthread_t other;
    OK(MPI_Info_create(&asked));
    OK(MPI_Info_set(asked, "thread_level", "MPI_THREAD_MULTIPLE"));
    OK(MPI_Session_init(asked, MPI_ERRORS_RETURN, &session));
    OK(MPI_Info_free(&asked));
    OK(MPI_Session_get_info(session, &info));
    OK(MPI_Info_get_string(info, "thread_level", &len, value, &flag));
    CHECK(flag && strcmp(value, "MPI_THREAD_MULTIPLE") == 0);
    len = sizeof value;
    OK(MPI_Info_get_string(info, "mpi_memory_alloc_kinds", &len, value, &flag));
    CHECK(flag && strcmp(value, "mpi,system") == 0);
    OK(MPI_Info_free(&info));
    OK(MPI_Is_thread_main(&flag));
    CHECK(flag);
    CHECK(pthread_create(&other, NULL, thread_is_main, &of_other) == 0);
    CHECK(pthread_join(other, NULL) == 0 && !of_other);
    OK(MPI_Session_finalize(&session));
}

/* The thread that calls MPI_Init is the main one, whichever it is. */
static void *world(void *none) {
    int flag;
    begin(NULL, NULL);
    OK(MPI_Is_thread_main(&flag));
    CHECK(flag);
    return none;
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 2) {
        pthread_t main_thread;
        int flag;
        CHECK(pthread_create(&main_thread, NULL, world, NULL) == 0);
        CHECK(pthread_join(main_thread, NULL) == 0);
        OK(MPI_Is_thread_main(&flag));
        CHECK(!flag);
        OK(MPI_Finalize());
        return 0;
    }
    use("causeway://first");
    use("causeway://second");
    /* With MPI_Init as well, or without it. */
    if (argc > 1) {
        begin(&argc, &argv);
        use("causeway://third");
        threads();
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Finalize());
        /* The world's end is not that of the sessions. */
        use("causeway://fourth");
        use("causeway://fifth");
    }
    return 0;
}
