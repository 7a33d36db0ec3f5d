/* What objects say of themselves and are called in Fortran, what programs attach to them by the functions of old, and what the
 * library tells of itself and of the machine. */
#include "check.h"

static MPI_Comm comm;

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

/* A handle is the same after it was an integer. */
#define SAME(Kind, handle) CHECK(MPI_##Kind##_fromint(MPI_##Kind##_toint(handle)) == (handle))

static void add_up(void *in, void *inout, int *len, MPI_Datatype *type) {
    (void)type;
    for (int i = 0; i < *len; i++) ((int *)inout)[i] += ((int *)in)[i];
}

static int told_of;

static void told(MPI_Session *session, int *code, ...) {
    CHECK(*session != MPI_SESSION_NULL);
    told_of = class_of(*code);
}

static void as_integers(void) {
    MPI_Datatype type;
    MPI_Group group;
    MPI_Info info;
    MPI_Request request;
    MPI_Message message;
    MPI_Op op;
    MPI_Win win;
    MPI_File file;
    MPI_Session session;
    MPI_Errhandler handler;
    char name[256];
    int word = 0, got = -1, commutes;
    SAME(Comm, MPI_COMM_NULL);
    SAME(Comm, MPI_COMM_WORLD);
    SAME(Comm, MPI_COMM_SELF);
    SAME(Comm, comm);
    SAME(Type, MPI_DATATYPE_NULL);
    SAME(Type, MPI_DOUBLE_COMPLEX);
    SAME(Type, MPI_BYTE);
    SAME(Op, MPI_OP_NULL);
    SAME(Op, MPI_SUM);
    SAME(Group, MPI_GROUP_EMPTY);
    SAME(Group, MPI_GROUP_NULL);
    SAME(Info, MPI_INFO_NULL);
    SAME(Info, MPI_INFO_ENV);
    SAME(Errhandler, MPI_ERRORS_RETURN);
    SAME(Win, MPI_WIN_NULL);
    SAME(File, MPI_FILE_NULL);
    SAME(Session, MPI_SESSION_NULL);
    SAME(Request, MPI_REQUEST_NULL);
    SAME(Message, MPI_MESSAGE_NULL);
    SAME(Message, MPI_MESSAGE_NO_PROC);
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    SAME(Type, type);
    OK(MPI_Type_free(&type));
    OK(MPI_Comm_group(comm, &group));
    SAME(Group, group);
    OK(MPI_Group_free(&group));
    OK(MPI_Info_create(&info));
    SAME(Info, info);
    OK(MPI_Info_free(&info));
    OK(MPI_Op_create(add_up, 1, &op));
    SAME(Op, op);
    OK(MPI_Op_commutative(op, &commutes));
    CHECK(commutes);
    OK(MPI_Op_free(&op));
    OK(MPI_Op_create(add_up, 0, &op));
    OK(MPI_Op_commutative(op, &commutes));
    CHECK(!commutes);
    OK(MPI_Op_free(&op));
    OK(MPI_Op_commutative(MPI_MAX, &commutes));
    CHECK(commutes);
    OK(MPI_Win_create(&word, sizeof word, 1, MPI_INFO_NULL, comm, &win));
    SAME(Win, win);
    OK(MPI_Win_free(&win));
    OK(MPI_Irecv(&got, 1, MPI_INT, rank, 1, comm, &request));
    SAME(Request, request);
    OK(MPI_Send(&rank, 1, MPI_INT, rank, 1, comm));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK(got == rank);
    OK(MPI_Isend(&rank, 1, MPI_INT, rank, 2, comm, &request));
    OK(MPI_Mprobe(rank, 2, comm, &message, MPI_STATUS_IGNORE));
    SAME(Message, message);
    OK(MPI_Mrecv(&got, 1, MPI_INT, &message, MPI_STATUS_IGNORE));
    OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    const char *directory = getenv("TMPDIR");
    snprintf(name, sizeof name, "%s/causeway-objects-%d-XXXXXX", directory ? directory : "/tmp", rank);
    int made = mkstemp(name);
    CHECK(made >= 0);
    OK(MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    SAME(File, file);
    OK(MPI_File_close(&file));
    OK(MPI_Session_create_errhandler(told, &handler));
    SAME(Errhandler, handler);
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session));
    SAME(Session, session);
    OK(MPI_Session_set_errhandler(session, handler));
    OK(MPI_Session_call_errhandler(session, MPI_ERR_SIZE));
    CHECK(told_of == MPI_ERR_SIZE);
    OK(MPI_Session_get_info(session, &info));
    OK(MPI_Info_free(&info));
    OK(MPI_Errhandler_free(&handler));
    OK(MPI_Session_finalize(&session));
}

/* The fields of a status can be read and set one by one. */
static void statuses(void) {
    MPI_Status status;
    MPI_Count count;
    int found, got = 0;
    OK(MPI_Sendrecv(&rank, 1, MPI_INT, rank, 17, &got, 1, MPI_INT, rank, 17, comm, &status));
    OK(MPI_Status_get_source(&status, &found));
    CHECK(found == rank);
    OK(MPI_Status_get_tag(&status, &found));
    CHECK(found == 17);
    OK(MPI_Status_set_source(&status, 5));
    OK(MPI_Status_set_tag(&status, 6));
    OK(MPI_Status_set_error(&status, MPI_ERR_TRUNCATE));
    OK(MPI_Status_get_error(&status, &found));
    CHECK(found == MPI_ERR_TRUNCATE && status.MPI_ERROR == found && status.MPI_SOURCE == 5 && status.MPI_TAG == 6);
    OK(MPI_Status_set_elements_x(&status, MPI_DOUBLE, (MPI_Count)1 << 33));
    OK(MPI_Get_elements_x(&status, MPI_DOUBLE, &count));
    CHECK(count == (MPI_Count)1 << 33);
    OK(MPI_Get_count(&status, MPI_DOUBLE, &found));
    CHECK(found == MPI_UNDEFINED);
}

/* Classes, codes and texts of a program's own, and that they are gone. */
static void errors(void) {
    char text[MPI_MAX_ERROR_STRING];
    int class, code, len;
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_string(code, "of this program"));
    OK(MPI_Error_string(code, text, &len));
    CHECK(strcmp(text, "of this program") == 0 && class_of(code) == class);
    OK(MPI_Remove_error_string(code));
    OK(MPI_Error_string(code, text, &len));
    CHECK(len == 0);
    /* Not as long as it has a code. */
    CHECK(MPI_Remove_error_class(class) != MPI_SUCCESS);
    OK(MPI_Remove_error_code(code));
    OK(MPI_Remove_error_class(class));
    CHECK(MPI_Remove_error_class(class) != MPI_SUCCESS);
    CHECK(MPI_Remove_error_code(MPI_ERR_RANK) != MPI_SUCCESS);
}

static int deleted;

static int forget(MPI_Comm of, int key, void *value, void *state) {
    (void)of, (void)key;
    CHECK(state == &deleted);
    deleted += *(int *)value;
    return MPI_SUCCESS;
}

static void attached(void) {
    MPI_Comm twin;
    static int three = 3, *found;
    int key, flag;
    OK(MPI_Keyval_create(MPI_DUP_FN, forget, &key, &deleted));
    OK(MPI_Attr_get(comm, key, &found, &flag));
    CHECK(!flag);
    OK(MPI_Attr_put(comm, key, &three));
    OK(MPI_Comm_dup(comm, &twin));
    OK(MPI_Attr_get(twin, key, &found, &flag));
    CHECK(flag && found == &three);
    OK(MPI_Attr_delete(twin, key));
    OK(MPI_Attr_get(twin, key, &found, &flag));
    CHECK(!flag && deleted == 3);
    OK(MPI_Comm_delete_attr(comm, key));
    CHECK(deleted == 6);
    OK(MPI_Comm_free(&twin));
    CHECK(deleted == 6);
    OK(MPI_Keyval_free(&key));
    CHECK(key == MPI_KEYVAL_INVALID);
}

static void hints(void) {
    MPI_Comm twin;
    MPI_Info info, used;
    char value[16];
    int len = sizeof value, flag;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "mpi_assert_allow_overtaking", "true"));
    OK(MPI_Info_get_valuelen(info, "mpi_assert_allow_overtaking", &len, &flag));
    CHECK(flag && len == 4);
    OK(MPI_Info_get_valuelen(info, "nothing", &len, &flag));
    CHECK(!flag);
    OK(MPI_Comm_dup_with_info(comm, info, &twin));
    OK(MPI_Comm_get_info(twin, &used));
    len = sizeof value;
    OK(MPI_Info_get_string(used, "mpi_assert_allow_overtaking", &len, value, &flag));
    CHECK(!flag || strcmp(value, "true") == 0);
    OK(MPI_Info_free(&used));
    OK(MPI_Comm_set_info(twin, info));
    OK(MPI_Comm_free(&twin));
    OK(MPI_Info_free(&info));
}

static void groups(void) {
    MPI_Group world, first, rest, both, gone;
    int many, ranges[1][3] = {{0, (size - 1) / 2, 1}}, place, zero = 0;
    OK(MPI_Comm_group(comm, &world));
    OK(MPI_Group_range_incl(world, 1, ranges, &first));
    OK(MPI_Group_range_excl(world, 1, ranges, &rest));
    OK(MPI_Group_size(rest, &many));
    CHECK(many == size - (size - 1) / 2 - 1);
    OK(MPI_Group_intersection(first, rest, &gone));
    OK(MPI_Group_size(gone, &many));
    CHECK(many == 0 && gone == MPI_GROUP_EMPTY);
    OK(MPI_Group_intersection(world, first, &both));
    OK(MPI_Group_compare(both, first, &many));
    CHECK(many == MPI_IDENT);
    OK(MPI_Group_translate_ranks(first, 1, &zero, rest, &place));
    CHECK(place == MPI_UNDEFINED);
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&first));
    OK(MPI_Group_free(&both));
    if (rest != MPI_GROUP_EMPTY) OK(MPI_Group_free(&rest));
}

static void places(void) {
    int dims[1] = {size}, periods[1] = {1}, place, *index = calloc(size, sizeof *index), *edges = calloc(size, sizeof *edges);
    OK(MPI_Cart_map(comm, 1, dims, periods, &place));
    CHECK(place >= 0 && place < size);
    for (int r = 0; r < size; r++) index[r] = r + 1, edges[r] = (r + 1) % size;
    OK(MPI_Graph_map(comm, size, index, edges, &place));
    CHECK(place >= 0 && place < size);
    /* Of fewer nodes, some have none. */
    dims[0] = 1;
    OK(MPI_Cart_map(comm, 1, dims, periods, &place));
    CHECK(place == 0 || place == MPI_UNDEFINED);
    free(index), free(edges);
}

static void told_by_the_library(void) {
    char name[MPI_MAX_PROCESSOR_NAME];
    int version, subversion, len, set;
    MPI_Info info;
    void *memory;
    int array[10];
    MPI_Aint first, last;
    OK(MPI_Get_version(&version, &subversion));
    CHECK(version == MPI_VERSION && subversion == MPI_SUBVERSION);
    OK(MPI_Abi_get_version(&version, &subversion));
    CHECK(version == MPI_ABI_VERSION && subversion == MPI_ABI_SUBVERSION);
    OK(MPI_Get_processor_name(name, &len));
    CHECK(len > 0 && (int)strlen(name) == len);
    OK(MPI_Get_hw_resource_info(&info));
    OK(MPI_Info_free(&info));
    double start = MPI_Wtime();
    CHECK(MPI_Wtime() >= start && MPI_Wtick() > 0 && MPI_Wtick() < 1);
    OK(MPI_Pcontrol(1, "of", "any", 4));
    OK(MPI_Alloc_mem(1 << 20, MPI_INFO_NULL, &memory));
    memset(memory, 1, 1 << 20);
    OK(MPI_Free_mem(memory));
    OK(MPI_Alloc_mem(0, MPI_INFO_NULL, &memory));
    OK(MPI_Free_mem(memory));
    OK(MPI_Get_address(&array[2], &first));
    OK(MPI_Get_address(&array[9], &last));
    CHECK(MPI_Aint_diff(last, first) == 7 * (MPI_Aint)sizeof(int));
    CHECK(MPI_Aint_add(first, 7 * sizeof(int)) == last);
    /* Values of Fortran's logical type that were set are returned. */
    int yes = 1, no = 0, said_yes = 7, said_no = 7;
    OK(MPI_Abi_get_fortran_booleans(sizeof(int), &said_yes, &said_no, &set));
    if (!set) {
        OK(MPI_Abi_set_fortran_booleans(sizeof(int), &yes, &no));
        OK(MPI_Abi_get_fortran_booleans(sizeof(int), &said_yes, &said_no, &set));
        CHECK(set && said_yes == 1 && said_no == 0);
    }
}

/* Datatypes of Fortran's kinds are the same for the same wishes. */
static void kinds(void) {
    MPI_Datatype one, other;
    int bytes;
    OK(MPI_Type_create_f90_integer(4, &one));
    OK(MPI_Type_create_f90_integer(4, &other));
    OK(MPI_Type_size(one, &bytes));
    CHECK(one == other && bytes >= 2);
    OK(MPI_Type_create_f90_integer(18, &one));
    OK(MPI_Type_size(one, &bytes));
    CHECK(bytes == 8);
    OK(MPI_Type_create_f90_complex(6, MPI_UNDEFINED, &one));
    OK(MPI_Type_size(one, &bytes));
    CHECK(bytes == 8);
    OK(MPI_Type_create_f90_complex(15, 300, &one));
    OK(MPI_Type_size(one, &bytes));
    CHECK(bytes == 16);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(MPI_Type_create_f90_integer(10000, &one) != MPI_SUCCESS);
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    as_integers();
    statuses();
    attached();
    hints();
    groups();
    places();
    told_by_the_library();
    kinds();
    errors();
    OK(MPI_Comm_free(&comm));
    OK(MPI_Finalize());
    return 0;
}
