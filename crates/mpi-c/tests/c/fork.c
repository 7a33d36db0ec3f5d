/* A child of fork() that calls MPI is told what is wrong and ends; what it does, and that it ends, disturbs neither its parent nor the others.
 * The argument is the level of threads. */
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static MPI_Win win;
static MPI_Request pending;
static int *shared, word;

static int next(void) { return (rank + 1) % size; }

static void send_short(void) { MPI_Send(&word, 1, MPI_INT, next(), 1, MPI_COMM_WORLD); }
static void meet(void) { MPI_Barrier(MPI_COMM_WORLD); }
static void add_up(void) { MPI_Allreduce(&rank, &word, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD); }
static void put(void) { MPI_Put(&word, 1, MPI_INT, next(), 0, 1, MPI_INT, win); }
static void lock(void) { MPI_Win_lock(MPI_LOCK_EXCLUSIVE, next(), 0, win); }
static void wait_for_parents(void) { MPI_Wait(&pending, MPI_STATUS_IGNORE); }
static void ask_rank(void) { MPI_Comm_rank(MPI_COMM_WORLD, &word); }
static void finish(void) { MPI_Finalize(); }

/* Exit code of a child that does this; what it writes to standard error. */
static int in_child(void (*act)(void), char *said, size_t room) {
    int ends[2], status;
    size_t length = 0;
    ssize_t got;
    CHECK(pipe(ends) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        alarm(30);
        act();
        _exit(77);
    }
    close(ends[1]);
    while ((got = read(ends[0], said + length, room - 1 - length)) > 0) length += (size_t)got;
    said[length] = 0;
    close(ends[0]);
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void is_refused(const char *name, void (*call)(void)) {
    char said[1000], begin[100];
    int code = in_child(call, said, sizeof said);
    snprintf(begin, sizeof begin, "causeway: %s: this process was forked from one that uses MPI", name);
    if (code != 1 || strstr(said, begin) != said) fprintf(stderr, "%s: %d: %s\n", name, code, said);
    CHECK(code == 1 && strstr(said, begin) == said);
}

static void ask_stage(void) {
    int is_initialized = 0, is_finalized = 1;
    MPI_Initialized(&is_initialized);
    MPI_Finalized(&is_finalized);
    _exit(is_initialized && !is_finalized ? 40 : 41);
}
static void end_quietly(void) { exit(42); }
static void abort_alone(void) { MPI_Abort(MPI_COMM_WORLD, 43); }

/* The parents still reach each other. */
static void exchange(int value) {
    int got, sum;
    OK(MPI_Sendrecv(&value, 1, MPI_INT, next(), 2, &got, 1, MPI_INT, MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(got == value);
    OK(MPI_Win_fence(0, win));
    OK(MPI_Put(&value, 1, MPI_INT, next(), 0, 1, MPI_INT, win));
    OK(MPI_Win_fence(0, win));
    CHECK(*shared == value);
    OK(MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    CHECK(sum == value * size);
}

int main(int argc, char **argv) {
    char said[1000];
    int level, incoming;
    CHECK(argc == 2);
    OK(MPI_Init_thread(&argc, &argv, atoi(argv[1]) ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    OK(MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &shared, &win));
    exchange(1);
    /* A child ends whatever handlers its parent has set: those are its parent's as well. */
    OK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    OK(MPI_Irecv(&incoming, 1, MPI_INT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, &pending));
    is_refused("MPI_Send", send_short);
    is_refused("MPI_Barrier", meet);
    is_refused("MPI_Allreduce", add_up);
    is_refused("MPI_Put", put);
    is_refused("MPI_Win_lock", lock);
    is_refused("MPI_Wait", wait_for_parents);
    is_refused("MPI_Comm_rank", ask_rank);
    is_refused("MPI_Finalize", finish);
    CHECK(in_child(ask_stage, said, sizeof said) == 40);
    CHECK(in_child(end_quietly, said, sizeof said) == 42);
    CHECK(in_child(abort_alone, said, sizeof said) == 43);
    exchange(2);
    OK(MPI_Send(&rank, 1, MPI_INT, next(), 3, MPI_COMM_WORLD));
    OK(MPI_Wait(&pending, MPI_STATUS_IGNORE));
    CHECK(incoming == (rank + size - 1) % size);
    OK(MPI_Win_free(&win));
    OK(MPI_Finalize());
    return 0;
}
