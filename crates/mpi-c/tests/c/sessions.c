/* Sessions without MPI_Init, one behind the other, with communicators of their sets of processes. */
#include "check.h"

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
    OK(MPI_Comm_free(&comm));
    OK(MPI_Group_free(&group));
    OK(MPI_Session_finalize(&session));
    CHECK(session == MPI_SESSION_NULL);
}

int main(int argc, char **argv) {
    use("causeway://first");
    use("causeway://second");
    /* With MPI_Init as well, or without it. */
    if (argc > 1) {
        begin(&argc, &argv);
        use("causeway://third");
        OK(MPI_Barrier(MPI_COMM_WORLD));
        OK(MPI_Finalize());
    }
    return 0;
}
