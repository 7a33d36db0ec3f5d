/* Null pointers where a call writes a value or reads a handle: an error of the class MPI_ERR_ARG that names the argument, and nothing is done. Besides, error handlers that
 * change the code, texts of the program's codes, and the datatypes that MPI_Compare_and_swap takes. */
#include "check.h"

static MPI_Comm comm;

static int class_of(int code) {
    int class;
    OK(MPI_Error_class(code, &class));
    return class;
}

#define REFUSED(call) CHECK(class_of(call) == MPI_ERR_ARG)

static void objects(void) {
    MPI_Group group, empty = MPI_GROUP_EMPTY;
    MPI_Datatype type;
    int value = 0, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Aint bound;
    REFUSED(MPI_Comm_size(comm, NULL));
    OK(MPI_Error_string(MPI_ERR_ARG, text, &length));
    CHECK(!is_ours() || strstr(text, "MPI_Comm_size: size is NULL"));
    REFUSED(MPI_Comm_rank(comm, NULL));
    REFUSED(MPI_Comm_group(comm, NULL));
    REFUSED(MPI_Comm_dup(comm, NULL));
    REFUSED(MPI_Comm_split(comm, 0, 0, NULL));
    REFUSED(MPI_Comm_create(comm, empty, NULL));
    REFUSED(MPI_Comm_get_info(comm, NULL));
    REFUSED(MPI_Comm_get_attr(comm, MPI_TAG_UB, &bound, NULL));
    OK(MPI_Comm_group(comm, &group));
    REFUSED(MPI_Group_size(group, NULL));
    REFUSED(MPI_Group_union(group, empty, NULL));
    REFUSED(MPI_Group_free(NULL));
    OK(MPI_Group_free(&group));
    REFUSED(MPI_Type_contiguous(2, MPI_INT, NULL));
    REFUSED(MPI_Type_vector(2, 1, 2, MPI_INT, NULL));
    REFUSED(MPI_Type_get_extent(MPI_INT, &bound, NULL));
    REFUSED(MPI_Type_get_extent(MPI_INT, NULL, &bound));
    REFUSED(MPI_Type_size(MPI_INT, NULL));
    REFUSED(MPI_Type_commit(NULL));
    OK(MPI_Type_contiguous(2, MPI_INT, &type));
    OK(MPI_Type_free(&type));
    REFUSED(MPI_Type_free(NULL));
    REFUSED(MPI_Info_create(NULL));
    REFUSED(MPI_Op_free(NULL));
    REFUSED(MPI_Win_create(&value, sizeof value, 1, MPI_INFO_NULL, comm, NULL));
    REFUSED(MPI_File_open(comm, "none", MPI_MODE_RDONLY, MPI_INFO_NULL, NULL));
    REFUSED(MPI_Initialized(NULL));
}

/* The error handler is MPI_COMM_SELF's: it cannot be the object's. */
static void handles(void) {
    REFUSED(MPI_Comm_free(NULL));
    REFUSED(MPI_Comm_disconnect(NULL));
    REFUSED(MPI_Win_free(NULL));
    REFUSED(MPI_File_close(NULL));
    REFUSED(MPI_Session_finalize(NULL));
}

static void requests(void) {
    int value = 0, flag;
    MPI_Request request = MPI_REQUEST_NULL;
    REFUSED(MPI_Isend(&value, 1, MPI_INT, rank, 0, comm, NULL));
    REFUSED(MPI_Irecv(&value, 1, MPI_INT, rank, 0, comm, NULL));
    REFUSED(MPI_Ibarrier(comm, NULL));
    REFUSED(MPI_Wait(NULL, MPI_STATUS_IGNORE));
    REFUSED(MPI_Test(&request, NULL, MPI_STATUS_IGNORE));
    REFUSED(MPI_Test(NULL, &flag, MPI_STATUS_IGNORE));
    REFUSED(MPI_Start(NULL));
    /* None of them was begun. */
    OK(MPI_Iprobe(rank, 0, comm, &flag, MPI_STATUS_IGNORE));
    CHECK(!flag);
    OK(MPI_Barrier(comm));
}

static void forgive(MPI_Comm *of, int *code, ...) {
    (void)of;
    *code = MPI_SUCCESS;
}

static void other(MPI_Comm *of, int *code, ...) {
    (void)of;
    *code = MPI_ERR_INTERN;
}

/* The call returns the code that the handler leaves. */
static void changed(void) {
    MPI_Errhandler forgiving, changing;
    OK(MPI_Comm_create_errhandler(forgive, &forgiving));
    OK(MPI_Comm_create_errhandler(other, &changing));
    OK(MPI_Comm_set_errhandler(comm, forgiving));
    OK(MPI_Send(NULL, 0, MPI_INT, size, 0, comm));
    OK(MPI_Comm_set_errhandler(comm, changing));
    CHECK(MPI_Send(NULL, 0, MPI_INT, size, 0, comm) == MPI_ERR_INTERN);
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Errhandler_free(&forgiving));
    OK(MPI_Errhandler_free(&changing));
}

static int failing;

static int copy(MPI_Comm of, int key, void *extra, void *from, void *into, int *flag) {
    (void)of, (void)key, (void)extra, (void)from, (void)into;
    *flag = 0;
    return failing;
}

/* The text of a code of the program's is the one that it has given it, also after an error with this code. */
static void texts(void) {
    int class, key, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm none;
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &failing));
    OK(MPI_Add_error_string(failing, "too hot"));
    OK(MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL));
    OK(MPI_Comm_set_attr(comm, key, NULL));
    CHECK(MPI_Comm_dup(comm, &none) == failing);
    OK(MPI_Error_string(failing, text, &length));
    CHECK(strcmp(text, "too hot") == 0 && length == 7);
    OK(MPI_Comm_delete_attr(comm, key));
    OK(MPI_Comm_free_keyval(&key));
}

/* Only one element of a predefined type whose equal values have equal bytes is compared. */
static void compared(void) {
    char from[64] = {1}, with[64] = {0}, into[64], *base;
    MPI_Win win;
    MPI_Datatype four, refused[] = {MPI_FLOAT, MPI_DOUBLE, MPI_LONG_DOUBLE, MPI_C_DOUBLE_COMPLEX, MPI_2INT, MPI_DATATYPE_NULL};
    MPI_Datatype taken[] = {MPI_BYTE, MPI_CHAR, MPI_C_BOOL, MPI_SHORT, MPI_INT, MPI_INT64_T, MPI_AINT, MPI_COUNT};
    enum { REFUSED_TYPES = sizeof refused / sizeof *refused, TAKEN_TYPES = sizeof taken / sizeof *taken };
    OK(MPI_Type_contiguous(4, MPI_BYTE, &four));
    OK(MPI_Type_commit(&four));
    refused[REFUSED_TYPES - 1] = four;
    OK(MPI_Win_allocate(64, 1, MPI_INFO_NULL, comm, &base, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    memset(base, 0, 64);
    OK(MPI_Win_lock_all(0, win));
    for (int i = 0; i < REFUSED_TYPES; i++) CHECK(class_of(MPI_Compare_and_swap(from, with, into, refused[i], rank, 0, win)) == MPI_ERR_TYPE);
    OK(MPI_Win_flush_all(win));
    CHECK(base[0] == 0);
    for (int i = 0; i < TAKEN_TYPES; i++) {
        OK(MPI_Compare_and_swap(from, with, into, taken[i], rank, 0, win));
        OK(MPI_Win_flush_all(win));
        CHECK(base[0] == 1 && into[0] == 0);
        memset(base, 0, 64);
        OK(MPI_Win_sync(win));
    }
    OK(MPI_Win_unlock_all(win));
    OK(MPI_Win_free(&win));
    OK(MPI_Type_free(&four));
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    objects();
    handles();
    requests();
    changed();
    texts();
    compared();
    OK(MPI_Comm_free(&comm));
    OK(MPI_Finalize());
    return 0;
}
