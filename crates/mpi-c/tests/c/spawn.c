/* Programs that start others: ranks, arguments, and communication between both. The started program is this one again. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { LARGE = 1 << 18 };

/* Both groups do all of it. */
static void talk(MPI_Comm between, int is_child) {
    MPI_Comm all;
    MPI_Group here, there;
    MPI_Win window;
    MPI_Status status;
    int mine, ours, theirs, whole, me, sum, first, *shared;
    OK(MPI_Comm_rank(between, &mine));
    OK(MPI_Comm_size(between, &ours));
    OK(MPI_Comm_remote_size(between, &theirs));
    OK(MPI_Comm_group(between, &here));
    OK(MPI_Comm_remote_group(between, &there));
    OK(MPI_Group_compare(here, there, &sum));
    CHECK(sum == MPI_UNEQUAL);
    OK(MPI_Group_free(&here));
    OK(MPI_Group_free(&there));
    /* From every process to every other one. */
    for (int other = 0; other < theirs; other++)
        OK(MPI_Send(&mine, 1, MPI_INT, other, 1 + is_child, between));
    for (int other = 0; other < theirs; other++) {
        OK(MPI_Recv(&me, 1, MPI_INT, MPI_ANY_SOURCE, 2 - is_child, between, &status));
        CHECK(me == status.MPI_SOURCE);
    }
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, between));
    CHECK(sum == theirs * (theirs - 1) / 2);
    OK(MPI_Intercomm_merge(between, is_child, &all));
    OK(MPI_Comm_rank(all, &me));
    OK(MPI_Comm_size(all, &whole));
    CHECK(whole == ours + theirs);
    CHECK(me == (is_child ? theirs + mine : mine));
    int *large = malloc(LARGE * sizeof(int));
    for (int root = 0; root < whole; root += whole - 1 ? whole - 1 : 1) {
        for (int i = 0; i < LARGE; i++) large[i] = me == root ? i ^ root : -1;
        OK(MPI_Bcast(large, LARGE, MPI_INT, root, all));
        for (int i = 0; i < LARGE; i++) CHECK(large[i] == (i ^ root));
    }
    free(large);
    /* Memory that all share, where they share a host: all do, each has one, or there are several. */
    MPI_Comm host;
    int sharing;
    OK(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host));
    OK(MPI_Comm_size(host, &sharing));
    const char *hosts = getenv("HOSTS");
    if (!hosts || strcmp(hosts, "each") == 0) CHECK(sharing == (hosts ? 1 : whole));
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, all, &shared, &window));
    *shared = 100 + me;
    OK(MPI_Win_fence(0, window));
    OK(MPI_Get(&first, 1, MPI_INT, (me + 1) % whole, 0, 1, MPI_INT, window));
    OK(MPI_Win_fence(0, window));
    CHECK(first == 100 + (me + 1) % whole);
    OK(MPI_Win_free(&window));
    OK(MPI_Comm_free(&host));
    /* Groups of both programs, apart again. */
    MPI_Comm half, again;
    OK(MPI_Comm_split(all, me % 2, me, &half));
    OK(MPI_Intercomm_create(half, 0, all, me % 2 ? 0 : 1, 5, &again));
    OK(MPI_Barrier(again));
    OK(MPI_Comm_free(&again));
    OK(MPI_Comm_free(&half));
    OK(MPI_Comm_free(&all));
}

static int child(int argc, char **argv) {
    MPI_Comm parent, grandchild;
    int len, *number, flag;
    char name[MPI_MAX_OBJECT_NAME];
    OK(MPI_Comm_get_parent(&parent));
    CHECK(parent != MPI_COMM_NULL);
    OK(MPI_Comm_get_name(parent, name, &len));
    CHECK(strcmp(name, "MPI_COMM_PARENT") == 0);
    CHECK(argc == 4 && strcmp(argv[2], "a b") == 0 && strcmp(argv[3], "=") == 0);
    OK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &number, &flag));
    if (strcmp(argv[1], "first") == 0) CHECK(flag && *number == 0);
    if (strcmp(argv[1], "second") == 0) CHECK(flag && *number == 1);
    if (strcmp(argv[1], "elsewhere") == 0) {
        char directory[100];
        CHECK(getcwd(directory, sizeof directory) && strcmp(directory, "/") == 0);
    }
    if (strcmp(argv[1], "leaves") == 0) {
        /* It has the communicator until the end, as its parents do. */
        OK(MPI_Send(&rank, 1, MPI_INT, 0, 9, parent));
        OK(MPI_Finalize());
        return 0;
    }
    if (strcmp(argv[1], "dies") == 0) {
        int parents, value;
        OK(MPI_Barrier(parent));
        OK(MPI_Comm_remote_size(parent, &parents));
        /* The barrier may also fail where a process dies that had left it, so rank 0 lives until all have. */
        for (int other = 0; rank == 0 && other < parents; other++)
            OK(MPI_Recv(&value, 1, MPI_INT, other, 0, parent, MPI_STATUS_IGNORE));
        for (int other = 1; rank == 0 && other < size; other++)
            OK(MPI_Recv(&value, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        if (rank == 0) raise(SIGKILL);
        OK(MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
        OK(MPI_Comm_set_errhandler(parent, MPI_ERRORS_RETURN));
        OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
        CHECK(MPI_Barrier(MPI_COMM_WORLD) != MPI_SUCCESS);
        printf("a sibling is told\n");
        return 3;
    }
    talk(parent, 1);
    if (strcmp(argv[1], "deeper") == 0) {
        char *arguments[] = {"world", "a b", "=", NULL};
        OK(MPI_Comm_spawn(argv[0], arguments, 1, MPI_INFO_NULL, size - 1, MPI_COMM_WORLD, &grandchild,
                          MPI_ERRCODES_IGNORE));
        talk(grandchild, 0);
        OK(MPI_Comm_disconnect(&grandchild));
    }
    OK(MPI_Comm_disconnect(&parent));
    OK(MPI_Comm_get_parent(&parent));
    CHECK(parent == MPI_COMM_NULL);
    OK(MPI_Finalize());
    return 0;
}

static void spawn(char *program, char *kind, int many, MPI_Info info, int root, MPI_Comm comm, int expected) {
    char *arguments[] = {kind, "a b", "=", NULL};
    MPI_Comm children;
    int codes[8] = {-1, -1, -1, -1, -1, -1, -1, -1}, started;
    int me;
    OK(MPI_Comm_rank(comm, &me));
    int is_root = me == root;
    OK(MPI_Comm_spawn(is_root ? program : NULL, is_root ? arguments : NULL, is_root ? many : 0,
                      is_root ? info : MPI_INFO_NULL, root, comm, &children, codes));
    for (int at = 0; at < 8; at++) {
        int class = -1;
        if (at < many) OK(MPI_Error_class(codes[at], &class));
        CHECK(at >= many ? codes[at] == -1 : class == (at < expected ? MPI_SUCCESS : MPI_ERR_SPAWN));
    }
    OK(MPI_Comm_remote_size(children, &started));
    CHECK(started == expected);
    talk(children, 0);
    OK(MPI_Comm_disconnect(&children));
    CHECK(children == MPI_COMM_NULL);
}

static void fails(MPI_Comm comm, const char *program, int is_known) {
    MPI_Comm children = MPI_COMM_NULL;
    int codes[2] = {0, 0}, class;
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Error_class(MPI_Comm_spawn(program, MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, comm, &children, codes),
                       &class));
    CHECK(class == MPI_ERR_SPAWN);
    /* Where the arguments are wrong, nothing is known of processes. */
    for (int at = 0; at < 2 && is_known; at++) {
        OK(MPI_Error_class(codes[at], &class));
        CHECK(class == MPI_ERR_SPAWN);
    }
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_ARE_FATAL));
}

static void several(char *program) {
    char *programs[] = {program, program};
    char *first[] = {"first", "a b", "=", NULL}, *second[] = {"second", "a b", "=", NULL};
    char **arguments[] = {first, second};
    int counts[] = {1, 2}, codes[3] = {-1, -1, -1}, started;
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm children;
    OK(MPI_Comm_spawn_multiple(2, programs, arguments, counts, infos, 0, MPI_COMM_WORLD, &children, codes));
    for (int at = 0; at < 3; at++) CHECK(codes[at] == MPI_SUCCESS);
    OK(MPI_Comm_remote_size(children, &started));
    CHECK(started == 3);
    talk(children, 0);
    OK(MPI_Comm_disconnect(&children));
}

int main(int argc, char **argv) {
    MPI_Comm parent, children;
    MPI_Info info;
    begin(&argc, &argv);
    OK(MPI_Comm_get_parent(&parent));
    if (parent != MPI_COMM_NULL) return child(argc, argv);
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "dies") == 0) {
        char *arguments[] = {"dies", "a b", "=", NULL};
        int class, value;
        OK(MPI_Comm_spawn(argv[0], arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
        OK(MPI_Comm_set_errhandler(children, MPI_ERRORS_RETURN));
        OK(MPI_Barrier(children));
        OK(MPI_Send(&rank, 1, MPI_INT, 0, 0, children));
        OK(MPI_Error_class(MPI_Recv(&value, 1, MPI_INT, 0, 0, children, MPI_STATUS_IGNORE), &class));
        CHECK(class == MPI_ERR_PROC_ABORTED);
        printf("a parent is told\n");
        fflush(stdout);
        return 3;
    }
    if (strcmp(what, "silent") == 0) {
        /* The started program does not use MPI. */
        OK(MPI_Comm_spawn("true", MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
        return 0;
    }
    spawn(argv[0], "world", 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, 2);
    if (strcmp(what, "short") == 0) {
        OK(MPI_Finalize());
        return 0;
    }
    spawn(argv[0], "deeper", 2, MPI_INFO_NULL, size - 1, MPI_COMM_WORLD, 2);
    several(argv[0]);
    /* All at once. */
    spawn(argv[0], "self", 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, 1);
    OK(MPI_Info_create(&info));
    OK(MPI_Info_set(info, "wdir", "/"));
    OK(MPI_Info_set(info, "soft", "1:5:2"));
    OK(MPI_Info_set(info, "something-else", "x"));
    spawn(argv[0], "elsewhere", 4, info, 0, MPI_COMM_WORLD, 3);
    OK(MPI_Info_free(&info));
    /* Some launchers report a missing program in other ways. */
    if (strcmp(what, "others") != 0) fails(MPI_COMM_WORLD, "/no/such/program", 1);
    fails(MPI_COMM_SELF, "", 0);
    /* The communicator is left open at the end. */
    char *arguments[] = {"leaves", "a b", "=", NULL};
    int value;
    OK(MPI_Comm_spawn(argv[0], arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE));
    if (rank == 0) OK(MPI_Recv(&value, 1, MPI_INT, 0, 9, children, MPI_STATUS_IGNORE));
    OK(MPI_Finalize());
    return 0;
}
