/* What programs attach to communicators, windows and datatypes: copied with what is duplicated, deleted with what is freed, and
 * at the end what MPI_COMM_SELF has, the latest first. */
#include "check.h"

static int copies, deletes, ended;
static char extra;

static int refuses(int code, int class) {
    int of;
    OK(MPI_Error_class(code, &of));
    return of == class || !is_ours();
}

static int copy_type(MPI_Datatype type, int key, void *state, void *from, void *to, int *flag) {
    CHECK(type != MPI_DATATYPE_NULL && key != MPI_KEYVAL_INVALID && state == &extra);
    copies++;
    *(void **)to = (char *)from + 1;
    *flag = 1;
    return MPI_SUCCESS;
}

static int delete_type(MPI_Datatype type, int key, void *value, void *state) {
    CHECK(type != MPI_DATATYPE_NULL && key != MPI_KEYVAL_INVALID && value != NULL && state == &extra);
    deletes++;
    return MPI_SUCCESS;
}

static int refuse_copy(MPI_Datatype type, int key, void *state, void *from, void *to, int *flag) {
    (void)type, (void)key, (void)state, (void)from, (void)to, (void)flag;
    return MPI_ERR_OTHER;
}

static int delete_at_end(MPI_Comm comm, int key, void *value, void *state) {
    int flag, before = (int)(intptr_t)value;
    (void)key, (void)state;
    CHECK(comm == MPI_COMM_SELF);
    OK(MPI_Finalized(&flag));
    /* The library works as before. */
    CHECK(!flag && ended == before);
    OK(MPI_Barrier(MPI_COMM_SELF));
    ended++;
    return MPI_SUCCESS;
}

static void of_types(void) {
    MPI_Datatype type, twin;
    int key, plain, silent, failing, other, flag;
    static char value[4];
    void *found;
    OK(MPI_Type_create_keyval(copy_type, delete_type, &key, &extra));
    OK(MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, &plain, NULL));
    OK(MPI_Type_create_keyval(MPI_TYPE_NULL_COPY_FN, MPI_TYPE_NULL_DELETE_FN, &silent, NULL));
    OK(MPI_Type_contiguous(3, MPI_INT, &type));
    OK(MPI_Type_get_attr(type, key, &found, &flag));
    CHECK(!flag);
    OK(MPI_Type_set_attr(type, key, &value[0]));
    OK(MPI_Type_set_attr(type, plain, &value[1]));
    OK(MPI_Type_set_attr(type, silent, &value[2]));
    /* An existing value is deleted first. */
    OK(MPI_Type_set_attr(type, key, &value[2]));
    CHECK(deletes == 1 && copies == 0);
    OK(MPI_Type_dup(type, &twin));
    CHECK(copies == 1);
    OK(MPI_Type_get_attr(twin, key, &found, &flag));
    CHECK(flag && found == &value[3]);
    OK(MPI_Type_get_attr(twin, plain, &found, &flag));
    CHECK(flag && found == &value[1]);
    OK(MPI_Type_get_attr(twin, silent, &found, &flag));
    CHECK(!flag);
    OK(MPI_Type_delete_attr(twin, key));
    CHECK(deletes == 2);
    CHECK(refuses(MPI_Type_delete_attr(twin, key), MPI_ERR_KEYVAL));
    OK(MPI_Type_free(&twin));
    CHECK(deletes == 2);
    /* A key that is freed stays for the values that there are. */
    other = key;
    OK(MPI_Type_free_keyval(&key));
    CHECK(key == MPI_KEYVAL_INVALID);
    OK(MPI_Type_get_attr(type, other, &found, &flag));
    CHECK(flag && found == &value[2]);
    /* As delete functions do that free the key they get. */
    OK(MPI_Type_free_keyval(&(int){other}));
    /* If a copy function fails, no duplicate is made. */
    OK(MPI_Type_create_keyval(refuse_copy, MPI_TYPE_NULL_DELETE_FN, &failing, NULL));
    OK(MPI_Type_set_attr(type, failing, value));
    CHECK(MPI_Type_dup(type, &twin) != MPI_SUCCESS);
    OK(MPI_Type_free_keyval(&failing));
    deletes = 0;
    OK(MPI_Type_free(&type));
    CHECK(deletes == 1);
    CHECK(refuses(MPI_Type_get_attr(MPI_INT, other, &found, &flag), MPI_ERR_KEYVAL));
    /* Predefined datatypes have attributes, too. */
    OK(MPI_Type_set_attr(MPI_INT, plain, &value[3]));
    OK(MPI_Type_get_attr(MPI_INT, plain, &found, &flag));
    CHECK(flag && found == &value[3]);
    OK(MPI_Type_delete_attr(MPI_INT, plain));
    OK(MPI_Type_free_keyval(&plain));
    OK(MPI_Type_free_keyval(&silent));
}

static void of_the_wrong_kind(void) {
    int of_comm, of_win, flag;
    void *found;
    MPI_Datatype none = MPI_DATATYPE_NULL;
    OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &of_comm, NULL));
    OK(MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, &of_win, NULL));
    CHECK(refuses(MPI_Type_set_attr(MPI_INT, of_comm, &flag), MPI_ERR_KEYVAL));
    CHECK(refuses(MPI_Comm_set_attr(MPI_COMM_SELF, of_win, &flag), MPI_ERR_KEYVAL));
    CHECK(refuses(MPI_Type_free_keyval(&(int){of_comm}), MPI_ERR_KEYVAL));
    CHECK(refuses(MPI_Comm_get_attr(MPI_COMM_SELF, MPI_KEYVAL_INVALID, &found, &flag), MPI_ERR_KEYVAL));
    CHECK(refuses(MPI_Type_get_attr(MPI_INT, MPI_KEYVAL_INVALID, &found, &flag), MPI_ERR_KEYVAL));
    CHECK(refuses(MPI_Type_set_attr(none, of_comm, &flag), MPI_ERR_KEYVAL) ||
          refuses(MPI_Type_set_attr(none, of_comm, &flag), MPI_ERR_TYPE));
    CHECK(refuses(MPI_Comm_set_attr(MPI_COMM_SELF, MPI_TAG_UB, &flag), MPI_ERR_KEYVAL));
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_HOST, &found, &flag));
    CHECK(flag && *(int *)found == MPI_PROC_NULL);
    OK(MPI_Comm_free_keyval(&of_comm));
    OK(MPI_Win_free_keyval(&of_win));
}

int main(int argc, char **argv) {
    int keys[3];
    begin(&argc, &argv);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    of_types();
    of_the_wrong_kind();
    /* Set as 2, 1, 0: deleted as 0, 1, 2. */
    for (int i = 2; i >= 0; i--)
        OK(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, delete_at_end, &keys[i], NULL));
    for (int i = 2; i >= 0; i--)
        OK(MPI_Comm_set_attr(MPI_COMM_SELF, keys[i], (void *)(intptr_t)i));
    OK(MPI_Finalize());
    CHECK(ended == 3);
    return 0;
}
