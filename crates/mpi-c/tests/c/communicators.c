/* Groups and communicators: made, compared, named, freed; messages of one communicator are not received on another. */
#include "check.h"

static void duplicates(void) {
    MPI_Comm twin;
    int result, value = -1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &twin));
    OK(MPI_Comm_compare(MPI_COMM_WORLD, twin, &result));
    CHECK(result == MPI_CONGRUENT);
    OK(MPI_Comm_compare(twin, twin, &result));
    CHECK(result == MPI_IDENT);
    /* The same ranks and tags, in another order. */
    int to = (rank + 1) % size, from = (rank + size - 1) % size, a = 1, b = 2;
    MPI_Request requests[2];
    OK(MPI_Isend(&a, 1, MPI_INT, to, 0, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&b, 1, MPI_INT, to, 0, twin, &requests[1]));
    OK(MPI_Recv(&value, 1, MPI_INT, from, 0, twin, MPI_STATUS_IGNORE));
    CHECK(value == 2);
    OK(MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(value == 1);
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    OK(MPI_Comm_free(&twin));
    CHECK(twin == MPI_COMM_NULL);
}

static void parts(void) {
    MPI_Comm part;
    int there, many, sum;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &part));
    OK(MPI_Comm_rank(part, &there));
    OK(MPI_Comm_size(part, &many));
    CHECK(many == (size + (rank % 2 == 0)) / 2);
    CHECK(there == many - 1 - rank / 2);
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, part));
    int expected = 0;
    for (int r = rank % 2; r < size; r += 2) expected += r;
    CHECK(sum == expected);
    OK(MPI_Comm_free(&part));
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &part));
    CHECK((part == MPI_COMM_NULL) == (rank == 0));
    if (part != MPI_COMM_NULL) OK(MPI_Comm_free(&part));
    OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &part));
    OK(MPI_Comm_size(part, &many));
    CHECK(many == size);
    OK(MPI_Comm_free(&part));
}

static void groups(void) {
    MPI_Group world, front, back, all;
    MPI_Comm made;
    int result, many, first[1] = {0}, ranks[2], there[2];
    OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    OK(MPI_Group_incl(world, 1, first, &front));
    OK(MPI_Group_excl(world, 1, first, &back));
    OK(MPI_Group_union(front, back, &all));
    OK(MPI_Group_compare(all, world, &result));
    CHECK(result == MPI_IDENT);
    OK(MPI_Group_size(back, &many));
    CHECK(many == size - 1);
    CHECK((back == MPI_GROUP_EMPTY) == (size == 1));
    ranks[0] = 0, ranks[1] = size - 1;
    OK(MPI_Group_translate_ranks(world, 2, ranks, back, there));
    CHECK(there[0] == MPI_UNDEFINED && there[1] == (size > 1 ? size - 2 : MPI_UNDEFINED));
    int range[1][3] = {{size - 1, 0, -1}};
    MPI_Group turned;
    OK(MPI_Group_range_incl(world, 1, range, &turned));
    OK(MPI_Group_rank(turned, &result));
    CHECK(result == size - 1 - rank);
    OK(MPI_Comm_create(MPI_COMM_WORLD, turned, &made));
    OK(MPI_Comm_rank(made, &result));
    CHECK(result == size - 1 - rank);
    OK(MPI_Bcast(&result, 1, MPI_INT, 0, made));
    CHECK(result == 0);
    OK(MPI_Comm_free(&made));
    OK(MPI_Group_free(&world));
    OK(MPI_Group_free(&front));
    OK(MPI_Group_free(&back));
    OK(MPI_Group_free(&all));
    OK(MPI_Group_free(&turned));
}

static void names(void) {
    char name[MPI_MAX_OBJECT_NAME];
    int len;
    OK(MPI_Comm_get_name(MPI_COMM_WORLD, name, &len));
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0 && len == 14);
    OK(MPI_Comm_set_name(MPI_COMM_SELF, "me"));
    OK(MPI_Comm_get_name(MPI_COMM_SELF, name, &len));
    CHECK(strcmp(name, "me") == 0);
}

static int called_with = 0;
static void handler(MPI_Comm *comm, int *code, ...) {
    CHECK(*comm == MPI_COMM_SELF);
    called_with = *code;
}

static void handlers(void) {
    MPI_Errhandler own, got;
    int class, code;
    OK(MPI_Comm_create_errhandler(handler, &own));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, own));
    OK(MPI_Errhandler_free(&own));
    CHECK(own == MPI_ERRHANDLER_NULL);
    OK(MPI_Comm_call_errhandler(MPI_COMM_SELF, MPI_ERR_RANK));
    OK(MPI_Error_class(called_with, &class));
    CHECK(class == MPI_ERR_RANK);
    OK(MPI_Comm_get_errhandler(MPI_COMM_SELF, &got));
    OK(MPI_Errhandler_free(&got));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Add_error_class(&class));
    OK(MPI_Add_error_code(class, &code));
    OK(MPI_Add_error_string(code, "too hot"));
    char text[MPI_MAX_ERROR_STRING];
    int len, found;
    OK(MPI_Error_string(code, text, &len));
    CHECK(strncmp(text, "too hot", 7) == 0);
    OK(MPI_Error_class(code, &found));
    CHECK(found == class);
}

static void infos(void) {
    MPI_Info info, copy;
    char value[MPI_MAX_INFO_VAL];
    int flag, len, many;
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "color", "green"));
    OK(MPI_Info_set(info, "size", "7"));
    OK(MPI_Info_dup(info, &copy));
    OK(MPI_Info_delete(info, "size"));
    OK(MPI_Info_get_nkeys(copy, &many));
    CHECK(many == 2);
    len = sizeof value;
    OK(MPI_Info_get_string(copy, "color", &len, value, &flag));
    CHECK(flag && strcmp(value, "green") == 0 && len == 6);
    len = 0;
    OK(MPI_Info_get_string(info, "size", &len, value, &flag));
    CHECK(!flag);
    OK(MPI_Info_get_nthkey(copy, 1, value));
    CHECK(strcmp(value, "size") == 0);
    OK(MPI_Info_free(&info));
    OK(MPI_Info_free(&copy));
    CHECK(info == MPI_INFO_NULL);
}

int main(int argc, char **argv) {
    int flag;
    OK(MPI_Initialized(&flag));
    CHECK(!flag);
    begin(&argc, &argv);
    OK(MPI_Initialized(&flag));
    CHECK(flag);
    duplicates();
    parts();
    groups();
    names();
    handlers();
    infos();
    CHECK(MPI_Comm_fromint(MPI_Comm_toint(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
    OK(MPI_Finalize());
    OK(MPI_Finalized(&flag));
    CHECK(flag);
    return 0;
}
