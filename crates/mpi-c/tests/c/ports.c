/* Programs that find each other: a server with a port and clients, by name or by a socket. */
#include "check.h"
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void is_of(int code, int expected) {
    int class;
    OK(MPI_Error_class(code, &class));
    CHECK(class == expected);
}

/* Operations of both sides of a connection. */
static void talk(MPI_Comm between, int is_client) {
    MPI_Comm all;
    int theirs, mine, sum, whole;
    OK(MPI_Comm_rank(between, &mine));
    OK(MPI_Comm_remote_size(between, &theirs));
    OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, between));
    CHECK(sum == theirs * (theirs - 1) / 2);
    OK(MPI_Intercomm_merge(between, is_client, &all));
    OK(MPI_Comm_size(all, &whole));
    OK(MPI_Allreduce(MPI_IN_PLACE, &whole, 1, MPI_INT, MPI_MAX, all));
    OK(MPI_Comm_free(&all));
}

static void serve(const char *name, int clients) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm client;
    if (rank == 0) {
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        OK(MPI_Publish_name(name, MPI_INFO_NULL, port));
        is_of(MPI_Publish_name(name, MPI_INFO_NULL, port), MPI_ERR_SERVICE);
    }
    for (int at = 0; at < clients; at++) {
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &client));
        talk(client, 0);
        OK(MPI_Comm_disconnect(&client));
    }
    if (rank == 0) {
        OK(MPI_Unpublish_name(name, MPI_INFO_NULL, port));
        is_of(MPI_Unpublish_name(name, MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        OK(MPI_Close_port(port));
        is_of(MPI_Close_port(port), MPI_ERR_PORT);
    }
}

static void connect_to(const char *name) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm server;
    /* The server may be about to start. */
    if (rank == size - 1)
        while (MPI_Lookup_name(name, MPI_INFO_NULL, port) != MPI_SUCCESS) usleep(1000);
    OK(MPI_Comm_connect(port, MPI_INFO_NULL, size - 1, MPI_COMM_WORLD, &server));
    talk(server, 1);
    OK(MPI_Comm_disconnect(&server));
}

/* Of one program, a half is the server. */
static void halves(void) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm half, other;
    int me;
    OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half));
    OK(MPI_Comm_rank(half, &me));
    if (rank == 0) OK(MPI_Open_port(MPI_INFO_NULL, port));
    OK(MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD));
    for (int round = 0; round < 2; round++) {
        if (rank % 2) OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &other));
        else OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &other));
        talk(other, rank % 2);
        OK(MPI_Comm_disconnect(&other));
    }
    if (rank == 0) OK(MPI_Close_port(port));
    OK(MPI_Barrier(MPI_COMM_WORLD));
    /* The port is closed: a call is refused, while its former owner is busy with something else. */
    if (rank == 1) {
        OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
        is_of(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other), MPI_ERR_PORT);
        OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    }
    OK(MPI_Barrier(MPI_COMM_WORLD));
    OK(MPI_Comm_free(&half));
}

/* The owner of the port is killed while another process connects, or that process while they communicate. */
static int dies(int is_server) {
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other;
    int class, value;
    if (rank == 0) OK(MPI_Open_port(MPI_INFO_NULL, port));
    OK(MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD));
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    /* Each process dies when the other one has completed the steps before. */
    if (is_server && rank == 0) {
        OK(MPI_Recv(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        /* By then the other process connects. */
        usleep(50000);
        raise(SIGKILL);
    }
    if (is_server) OK(MPI_Send(&rank, 1, MPI_INT, 0, 0, MPI_COMM_WORLD));
    if (rank == 0) {
        OK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other));
        OK(MPI_Send(&rank, 1, MPI_INT, 0, 0, other));
        OK(MPI_Error_class(MPI_Recv(&value, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE), &class));
        CHECK(class == MPI_ERR_PROC_ABORTED);
    } else {
        int code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        if (!is_server) {
            OK(code);
            OK(MPI_Recv(&value, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE));
            raise(SIGKILL);
        }
        OK(MPI_Error_class(code, &class));
        CHECK(class == MPI_ERR_PORT);
    }
    printf("the other one is told\n");
    fflush(stdout);
    return 3;
}

static void wrong_arguments(void) {
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm other;
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    is_of(MPI_Lookup_name("nobody has this name", MPI_INFO_NULL, port), MPI_ERR_NAME);
    is_of(MPI_Comm_connect("tag#0$x", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other), MPI_ERR_PORT);
    is_of(MPI_Comm_accept("causeway;9;0;0;;;", MPI_INFO_NULL, size - 1, MPI_COMM_WORLD, &other), MPI_ERR_PORT);
    is_of(MPI_Comm_accept("x", MPI_INFO_NULL, size, MPI_COMM_WORLD, &other), MPI_ERR_RANK);
    is_of(MPI_Comm_connect("x", MPI_INFO_NULL, -1, MPI_COMM_WORLD, &other), MPI_ERR_RANK);
    is_of(MPI_Close_port("x"), MPI_ERR_PORT);
    is_of(MPI_Comm_join(-1, &other), MPI_ERR_ARG);
    OK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL));
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL));
}

/* Two programs that have nothing in common but a socket: this one, and a child. */
static int join(char *program) {
    int ends[2], status;
    char number[16], byte = 0;
    MPI_Comm other;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    snprintf(number, sizeof number, "%d", ends[1]);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        execl(program, program, "joined", number, (char *)0);
        _exit(127);
    }
    close(ends[1]);
    begin(NULL, NULL);
    OK(MPI_Comm_join(ends[0], &other));
    talk(other, 0);
    CHECK(write(ends[0], "x", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'y');
    OK(MPI_Comm_disconnect(&other));
    OK(MPI_Finalize());
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    return 0;
}

static int joined(int descriptor) {
    char byte = 0;
    MPI_Comm other;
    begin(NULL, NULL);
    OK(MPI_Comm_join(descriptor, &other));
    talk(other, 1);
    CHECK(read(descriptor, &byte, 1) == 1 && byte == 'x' && write(descriptor, "y", 1) == 1);
    OK(MPI_Comm_disconnect(&other));
    OK(MPI_Finalize());
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "join") == 0) return join(argv[0]);
    if (strcmp(what, "joined") == 0) return joined(atoi(argv[2]));
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (strcmp(what, "serve") == 0) serve(argv[2], atoi(argv[3]));
    else if (strcmp(what, "connect") == 0) connect_to(argv[2]);
    else if (strcmp(what, "server-dies") == 0) return dies(1);
    else if (strcmp(what, "client-dies") == 0) return dies(0);
    else if (strcmp(what, "gone") == 0) {
        /* A port of a process that has ended. */
        MPI_Comm server;
        is_of(MPI_Comm_connect(argv[2], MPI_INFO_NULL, 0, MPI_COMM_SELF, &server), MPI_ERR_PORT);
    } else if (strcmp(what, "open") == 0) {
        char port[MPI_MAX_PORT_NAME];
        OK(MPI_Open_port(MPI_INFO_NULL, port));
        printf("%s\n", port);
    } else {
        wrong_arguments();
        if (size > 1) halves();
    }
    OK(MPI_Finalize());
    return 0;
}
