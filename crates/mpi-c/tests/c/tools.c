/* The tool information interface (MPI 5.0 chapter 15), before and after MPI_Init. */
#include "check.h"

static void settings(void) {
    int many, index, count, found, len = 8, verbosity, bind, scope;
    char name[64], text[8];
    MPI_Datatype type;
    MPI_T_cvar_handle handle;
    unsigned long long value = 0;
    OK(MPI_T_cvar_get_num(&many));
    CHECK(many > 0);
    for (index = 0; index < many; index++) {
        int name_len = sizeof name;
        OK(MPI_T_cvar_get_info(index, name, &name_len, &verbosity, &type, NULL, text, &len, &bind, &scope));
        CHECK((int)strlen(name) == name_len - 1 && type == MPI_UNSIGNED_LONG_LONG && bind == MPI_T_BIND_NO_OBJECT);
        /* The buffer had room for the beginning of the description only. */
        CHECK(strlen(text) == 7 && len > 8);
        len = 8;
        OK(MPI_T_cvar_get_index(name, &found));
        CHECK(found == index);
        OK(MPI_T_cvar_handle_alloc(index, NULL, &handle, &count));
        CHECK(count == 1);
        OK(MPI_T_cvar_read(handle, &value));
        OK(MPI_T_cvar_write(handle, &value));
        OK(MPI_T_cvar_handle_free(&handle));
        CHECK(handle == MPI_T_CVAR_HANDLE_NULL);
    }
    CHECK(MPI_T_cvar_get_index("none", &found) == MPI_T_ERR_INVALID_NAME);
    CHECK(MPI_T_cvar_get_info(many, name, &len, NULL, NULL, NULL, NULL, NULL, NULL, NULL) == MPI_T_ERR_INVALID_INDEX);
    CHECK(MPI_T_cvar_read(MPI_T_CVAR_HANDLE_NULL, &value) == MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_T_cvar_get_index("causeway_file_buffer", &found));
    OK(MPI_T_cvar_handle_alloc(found, NULL, &handle, &count));
    value = 65536;
    OK(MPI_T_cvar_write(handle, &value));
    value = 0;
    OK(MPI_T_cvar_read(handle, &value));
    CHECK(value == 65536);
}

static unsigned long long measured(MPI_T_pvar_session session, MPI_T_pvar_handle handle) {
    unsigned long long value;
    OK(MPI_T_pvar_read(session, handle, &value));
    return value;
}

static void measures(void) {
    MPI_T_pvar_session session, other;
    MPI_T_pvar_handle sent, bytes;
    int index, count, number[100] = {0};
    OK(MPI_T_pvar_session_create(&session));
    OK(MPI_T_pvar_session_create(&other));
    OK(MPI_T_pvar_get_index("causeway_messages_sent", MPI_T_PVAR_CLASS_COUNTER, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &sent, &count));
    CHECK(MPI_T_pvar_get_index("causeway_messages_sent", MPI_T_PVAR_CLASS_LEVEL, &index) == MPI_T_ERR_INVALID_NAME);
    OK(MPI_T_pvar_get_index("causeway_bytes_sent", MPI_T_PVAR_CLASS_AGGREGATE, &index));
    OK(MPI_T_pvar_handle_alloc(session, index, NULL, &bytes, &count));
    CHECK(MPI_T_pvar_start(session, sent) == MPI_T_ERR_PVAR_NO_STARTSTOP);
    OK(MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES));
    CHECK(MPI_T_pvar_reset(session, sent) == MPI_T_ERR_PVAR_NO_WRITE);
    CHECK(MPI_T_pvar_read(other, sent, number) == MPI_T_ERR_INVALID_HANDLE);
    unsigned long long messages = measured(session, sent), before = measured(session, bytes);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int i = 0; i < 10; i++)
        OK(MPI_Sendrecv_replace(number, 100, MPI_INT, next, 1, previous, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (size > 1) {
        CHECK(measured(session, sent) - messages == 10);
        CHECK(measured(session, bytes) - before == 4000);
    }
    OK(MPI_T_pvar_handle_free(session, &sent));
    CHECK(sent == MPI_T_PVAR_HANDLE_NULL);
    OK(MPI_T_pvar_session_free(&session));
    CHECK(MPI_T_pvar_read(other, bytes, number) == MPI_T_ERR_INVALID_HANDLE);
    OK(MPI_T_pvar_session_free(&other));
    CHECK(other == MPI_T_PVAR_SESSION_NULL);
}

static void categories_and_events(void) {
    int many, variables, measured, inner, index, indices[16], changed;
    OK(MPI_T_category_get_num(&many));
    CHECK(many > 0);
    OK(MPI_T_category_get_index("messages", &index));
    OK(MPI_T_category_get_info(index, NULL, NULL, NULL, NULL, &variables, &measured, &inner));
    CHECK(variables > 0 && measured > 0 && inner == 0);
    OK(MPI_T_category_get_pvars(index, 16, indices));
    CHECK(indices[0] == 0);
    OK(MPI_T_category_changed(&changed));
    OK(MPI_T_event_get_num(&many));
    CHECK(many == 0);
    OK(MPI_T_source_get_num(&many));
    CHECK(many == 0);
    CHECK(MPI_T_event_get_index("none", &index) == MPI_T_ERR_INVALID_NAME);
}

int main(int argc, char **argv) {
    int provided, many;
    CHECK(MPI_T_cvar_get_num(&many) == MPI_T_ERR_NOT_INITIALIZED);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    settings();
    begin(&argc, &argv);
    OK(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    settings();
    measures();
    categories_and_events();
    OK(MPI_T_finalize());
    MPI_Finalize();
    OK(MPI_T_cvar_get_num(&many));
    OK(MPI_T_finalize());
    CHECK(MPI_T_finalize() == MPI_T_ERR_NOT_INITIALIZED);
    return 0;
}
