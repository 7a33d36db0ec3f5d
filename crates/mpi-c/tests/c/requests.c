/* Generalized requests; contents of datatypes; queries of the environment and the ABI. */
#include "check.h"

static int queried, freed, cancelled;

static int query(void *extra, MPI_Status *status) {
    queried++;
    OK(MPI_Status_set_elements(status, MPI_INT, *(int *)extra));
    OK(MPI_Status_set_cancelled(status, cancelled));
    status->MPI_SOURCE = 17, status->MPI_TAG = 4;
    return MPI_SUCCESS;
}

static int let_go(void *extra) {
    freed += *(int *)extra;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete) {
    (void)extra;
    CHECK(!complete);
    cancelled = 1;
    return MPI_SUCCESS;
}

static void generalized(void) {
    MPI_Request requests[2], request;
    MPI_Status status, statuses[2];
    int extra = 3, flag, count;
    OK(MPI_Grequest_start(query, let_go, cancel, &extra, &request));
    OK(MPI_Test(&request, &flag, &status));
    CHECK(!flag && queried == 0);
    OK(MPI_Grequest_complete(request));
    OK(MPI_Request_get_status(request, &flag, &status));
    CHECK(flag && queried == 1 && freed == 0);
    OK(MPI_Wait(&request, &status));
    OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK(request == MPI_REQUEST_NULL && count == 3 && status.MPI_SOURCE == 17 && freed == 3);
    /* Beside a message, and cancelled. */
    int out = rank, in = -1;
    OK(MPI_Grequest_start(query, let_go, cancel, &extra, &requests[0]));
    OK(MPI_Irecv(&in, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Send(&out, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD));
    OK(MPI_Cancel(&requests[0]));
    OK(MPI_Grequest_complete(requests[0]));
    OK(MPI_Waitall(2, requests, statuses));
    OK(MPI_Test_cancelled(&statuses[0], &flag));
    CHECK(flag && freed == 6 && statuses[0].MPI_TAG == 4 && statuses[1].MPI_SOURCE == in);
    /* Freed before it is complete. */
    OK(MPI_Grequest_start(query, let_go, cancel, &extra, &request));
    MPI_Request same = request;
    OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL && freed == 6);
    OK(MPI_Grequest_complete(same));
    CHECK(freed == 9);
}

static void contents(void) {
    MPI_Datatype vector, made[1], real, again, match, pair;
    int integers, addresses, datatypes, combiner, ints[3], size_of, len;
    MPI_Aint places[1];
    MPI_Count n_integers, n_addresses, n_counts, n_datatypes, counts[3];
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Type_vector(2, 3, 4, MPI_INT, &vector));
    OK(MPI_Type_get_envelope(vector, &integers, &addresses, &datatypes, &combiner));
    CHECK(integers == 3 && addresses == 0 && datatypes == 1 && combiner == MPI_COMBINER_VECTOR);
    OK(MPI_Type_get_contents(vector, 3, 0, 1, ints, places, made));
    CHECK(ints[0] == 2 && ints[1] == 3 && ints[2] == 4 && made[0] == MPI_INT);
    OK(MPI_Type_get_envelope_c(vector, &n_integers, &n_addresses, &n_counts, &n_datatypes, &combiner));
    CHECK(n_integers == 3 && n_counts == 0 && n_datatypes == 1);
    OK(MPI_Type_set_name(vector, "columns"));
    OK(MPI_Type_get_name(vector, name, &len));
    CHECK(strcmp(name, "columns") == 0 && len == 7);
    OK(MPI_Type_get_name(MPI_DOUBLE, name, &len));
    CHECK(strcmp(name, "MPI_DOUBLE") == 0);
    OK(MPI_Type_free(&vector));
    OK(MPI_Type_vector_c(2, 3, 4, MPI_INT, &vector));
    OK(MPI_Type_get_envelope_c(vector, &n_integers, &n_addresses, &n_counts, &n_datatypes, &combiner));
    CHECK(n_integers == 0 && n_counts == 3);
    OK(MPI_Type_get_contents_c(vector, 0, 0, 3, 1, ints, places, counts, made));
    CHECK(counts[0] == 2 && counts[2] == 4);
    OK(MPI_Type_free(&vector));
    OK(MPI_Type_get_envelope(MPI_INT, &integers, &addresses, &datatypes, &combiner));
    CHECK(combiner == MPI_COMBINER_NAMED);
    OK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &real));
    OK(MPI_Type_create_f90_real(15, MPI_UNDEFINED, &again));
    OK(MPI_Type_size(real, &size_of));
    OK(MPI_Type_get_envelope(real, &integers, &addresses, &datatypes, &combiner));
    CHECK(real == again && size_of == 8 && combiner == MPI_COMBINER_F90_REAL && integers == 2);
    OK(MPI_Type_match_size(MPI_TYPECLASS_REAL, 4, &match));
    OK(MPI_Type_size(match, &size_of));
    CHECK(size_of == 4);
    OK(MPI_Type_get_value_index(MPI_DOUBLE, MPI_INT, &pair));
    CHECK(pair == MPI_DOUBLE_INT);
}

static void external(void) {
    int out[2] = {1, 0x01020304}, in[2] = {0, 0};
    unsigned char bytes[16];
    MPI_Aint len, at = 0;
    OK(MPI_Pack_external_size("external32", 2, MPI_INT, &len));
    CHECK(len == 8);
    OK(MPI_Pack_external("external32", out, 2, MPI_INT, bytes, sizeof bytes, &at));
    CHECK(at == 8 && bytes[3] == 1 && bytes[4] == 1 && bytes[7] == 4);
    at = 0;
    OK(MPI_Unpack_external("external32", bytes, 8, &at, in, 2, MPI_INT));
    CHECK(at == 8 && in[0] == 1 && in[1] == 0x01020304);
}

static void told(int argc, char **argv) {
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL];
    int flag, len = sizeof value;
    OK(MPI_Info_create_env(argc, argv, &info));
    OK(MPI_Info_get_string(info, "command", &len, value, &flag));
    CHECK(flag && strstr(value, "requests"));
    OK(MPI_Info_free(&info));
    OK(MPI_Abi_get_info(&info));
    len = sizeof value;
    OK(MPI_Info_get_string(info, "mpi_aint_size", &len, value, &flag));
    CHECK(flag && strcmp(value, "8") == 0);
    OK(MPI_Info_free(&info));
}

/* A communicator's own buffer, beside that of the process. */
static void buffers(void) {
    enum { ROOM = 1000 + MPI_BSEND_OVERHEAD };
    static char small[10 + MPI_BSEND_OVERHEAD], large[ROOM], data[1000], got[1000];
    MPI_Comm comm;
    MPI_Request request;
    void *address;
    int len, class;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Buffer_attach(small, sizeof small));
    OK(MPI_Comm_attach_buffer(comm, large, ROOM));
    data[999] = rank;
    OK(MPI_Error_class(MPI_Bsend(data, 1000, MPI_CHAR, rank, 0, MPI_COMM_WORLD), &class));
    CHECK(class == MPI_ERR_BUFFER);
    OK(MPI_Bsend(data, 1000, MPI_CHAR, (rank + 1) % size, 0, comm));
    OK(MPI_Recv(got, 1000, MPI_CHAR, (rank + size - 1) % size, 0, comm, MPI_STATUS_IGNORE));
    CHECK(got[999] == (rank + size - 1) % size);
    OK(MPI_Comm_iflush_buffer(comm, &request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Buffer_iflush(&request));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    OK(MPI_Comm_flush_buffer(comm));
    OK(MPI_Comm_detach_buffer(comm, &address, &len));
    CHECK(address == large && len == ROOM);
    OK(MPI_Buffer_detach(&address, &len));
    CHECK(address == small && len == (int)sizeof small);
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    generalized();
    contents();
    external();
    buffers();
    told(argc, argv);
    OK(MPI_Finalize());
    return 0;
}
