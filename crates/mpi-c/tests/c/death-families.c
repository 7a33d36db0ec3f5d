/* Rank 1 is killed, before what the others do or in the midst of it: every family of calls ends, with the error that says so. */
#include "check.h"
#include <signal.h>
#include <unistd.h>

enum { MANY = 1 << 17 };
static int *out, *in;
static MPI_Comm comm, ring, made;
static MPI_Win win, shared;
static MPI_File file;
static MPI_Status status;
static MPI_Request request;

static int waited(int code) {
    return code != MPI_SUCCESS ? code : MPI_Wait(&request, &status);
}

static int started(int code) {
    int first = code != MPI_SUCCESS ? code : MPI_Start(&request);
    int then = waited(first);
    if (request != MPI_REQUEST_NULL) MPI_Request_free(&request);
    return then;
}

static int polled(int (*test)(int *)) {
    int flag = 0, code = MPI_SUCCESS;
    while (!flag && code == MPI_SUCCESS) code = test(&flag);
    return code;
}

static int test_receive(int *flag) { return MPI_Test(&request, flag, &status); }
static int iprobe(int *flag) { return MPI_Iprobe(MPI_ANY_SOURCE, 90, comm, flag, &status); }
static int improbe(int *flag) {
    MPI_Message message;
    return MPI_Improbe(1, 90, comm, flag, &message, &status);
}

static int o_receive(void) { return MPI_Recv(in, 1, MPI_INT, 1, 90, comm, &status); }
static int o_any(void) { return MPI_Recv(in, 1, MPI_INT, MPI_ANY_SOURCE, 90, comm, &status); }
static int o_irecv(void) { return waited(MPI_Irecv(in, MANY, MPI_INT, 1, 90, comm, &request)); }
static int o_test(void) {
    int code = MPI_Irecv(in, MANY, MPI_INT, 1, 90, comm, &request);
    return code != MPI_SUCCESS ? code : polled(test_receive);
}
static int o_ssend(void) { return MPI_Ssend(out, 1, MPI_INT, 1, 90, comm); }
static int o_large(void) { return MPI_Send(out, MANY, MPI_INT, 1, 90, comm); }
static int o_sendrecv(void) { return MPI_Sendrecv(out, MANY, MPI_INT, 1, 90, in, MANY, MPI_INT, 1, 90, comm, &status); }
static int o_probe(void) { return MPI_Probe(1, 90, comm, &status); }
static int o_probe_any(void) { return MPI_Probe(MPI_ANY_SOURCE, 90, comm, &status); }
static int o_mprobe(void) {
    MPI_Message message;
    return MPI_Mprobe(MPI_ANY_SOURCE, 90, comm, &message, &status);
}
static int o_iprobe(void) { return polled(iprobe); }
static int o_improbe(void) { return polled(improbe); }
static int o_persistent(void) { return started(MPI_Recv_init(in, 1, MPI_INT, 1, 90, comm, &request)); }
static int o_partitioned(void) { return started(MPI_Precv_init(in, 2, 1, MPI_INT, 1, 90, comm, MPI_INFO_NULL, &request)); }
static int o_waitany(void) {
    int index, code;
    MPI_Request two[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    code = MPI_Irecv(in, 1, MPI_INT, 1, 90, comm, &two[1]);
    return code != MPI_SUCCESS ? code : MPI_Waitany(2, two, &index, &status);
}
static int o_barrier(void) { return MPI_Barrier(comm); }
static int o_bcast(void) { return MPI_Bcast(out, MANY, MPI_INT, 1, comm); }
static int o_bcast_small(void) { return MPI_Bcast(out, 1, MPI_INT, 1, comm); }
static int o_allreduce(void) { return MPI_Allreduce(out, in, MANY, MPI_INT, MPI_SUM, comm); }
static int o_allreduce_small(void) { return MPI_Allreduce(out, in, 1, MPI_INT, MPI_SUM, comm); }
static int o_alltoall(void) { return MPI_Alltoall(out, 1000, MPI_INT, in, 1000, MPI_INT, comm); }
static int o_allgather(void) { return MPI_Allgather(out, 1000, MPI_INT, in, 1000, MPI_INT, comm); }
static int o_scan(void) { return MPI_Scan(out, in, 100, MPI_INT, MPI_SUM, comm); }
static int o_scatter(void) { return MPI_Scatter(out, 10, MPI_INT, in, 10, MPI_INT, 1, comm); }
static int o_reduce_scatter(void) { return MPI_Reduce_scatter_block(out, in, 100, MPI_INT, MPI_SUM, comm); }
static int o_ibarrier(void) { return waited(MPI_Ibarrier(comm, &request)); }
static int o_iallreduce(void) { return waited(MPI_Iallreduce(out, in, MANY, MPI_INT, MPI_SUM, comm, &request)); }
static int o_kept(void) { return started(MPI_Allreduce_init(out, in, 9, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request)); }
static int o_neighbours(void) { return MPI_Neighbor_allgather(out, 10, MPI_INT, in, 10, MPI_INT, ring); }
static int o_dup(void) { return MPI_Comm_dup(comm, &made); }
static int o_split(void) { return MPI_Comm_split(comm, 0, rank, &made); }
static int o_window(void) {
    MPI_Win new;
    return MPI_Win_create(in, 4, 4, MPI_INFO_NULL, comm, &new);
}
static int o_allocate(void) {
    MPI_Win new;
    void *base;
    return MPI_Win_allocate(4096, 1, MPI_INFO_NULL, comm, &base, &new);
}
static int o_fence(void) { return MPI_Win_fence(0, win); }
static int o_get(void) {
    int code = MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win);
    if (code == MPI_SUCCESS) code = MPI_Get(in, 1, MPI_INT, 1, 0, 1, MPI_INT, win);
    return code != MPI_SUCCESS ? code : MPI_Win_unlock(1, win);
}
static int o_fence_shared(void) { return MPI_Win_fence(0, shared); }
static int o_open(void) {
    MPI_File new;
    return MPI_File_open(comm, "/dev/null", MPI_MODE_RDWR, MPI_INFO_NULL, &new);
}
static int o_write_all(void) { return MPI_File_write_at_all(file, rank * 4096, out, 1024, MPI_INT, &status); }
static int o_read_all(void) { return MPI_File_read_all(file, in, 10, MPI_INT, &status); }
static int o_ordered(void) { return MPI_File_write_ordered(file, out, 10, MPI_INT, &status); }
static int o_size(void) { return MPI_File_set_size(file, 100); }

static const struct {
    const char *name;
    int (*call)(void);
} calls[] = {
#define CALL(name) {#name, o_##name}
    CALL(receive), CALL(any), CALL(irecv), CALL(test), CALL(ssend), CALL(large), CALL(sendrecv), CALL(probe),
    CALL(probe_any), CALL(mprobe), CALL(iprobe), CALL(improbe), CALL(persistent), CALL(partitioned), CALL(waitany),
    CALL(barrier), CALL(bcast), CALL(bcast_small), CALL(allreduce), CALL(allreduce_small), CALL(alltoall),
    CALL(allgather), CALL(scan), CALL(scatter), CALL(reduce_scatter), CALL(ibarrier), CALL(iallreduce), CALL(kept),
    CALL(neighbours), CALL(dup), CALL(split), CALL(window), CALL(allocate), CALL(fence), CALL(get),
    CALL(fence_shared), CALL(open), CALL(write_all), CALL(read_all), CALL(ordered), CALL(size),
};
enum { CALLS = sizeof calls / sizeof *calls };

/* Operations among all processes, so that one can be killed in the middle. */
static int everything(void) {
    int code = o_allreduce();
    if (code == MPI_SUCCESS) code = o_alltoall();
    if (code == MPI_SUCCESS) code = o_neighbours();
    if (code == MPI_SUCCESS) code = o_fence();
    if (code == MPI_SUCCESS) code = o_iallreduce();
    if (code == MPI_SUCCESS) code = o_write_all();
    if (code == MPI_SUCCESS) code = o_ordered();
    if (code == MPI_SUCCESS) code = o_fence_shared();
    if (code == MPI_SUCCESS) code = MPI_Sendrecv(out, MANY, MPI_INT, (rank + 1) % size, 1, in, MANY, MPI_INT,
                                                 (rank + size - 1) % size, 1, comm, &status);
    if (code == MPI_SUCCESS) code = o_dup();
    return code != MPI_SUCCESS ? code : MPI_Comm_free(&made);
}

static void prepare(const char *path) {
    int ones[1] = {1}, *base;
    out = calloc(MANY, sizeof(int));
    in = calloc(MANY, sizeof(int));
    CHECK(out && in);
    ones[0] = 1;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    OK(MPI_Cart_create(comm, 1, &size, ones, 0, &ring));
    OK(MPI_Win_create(in, MANY * sizeof(int), 4, MPI_INFO_NULL, comm, &win));
    OK(MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN));
    /* Where processes share no memory, the one window is both. */
    if (MPI_Win_allocate_shared(4096, 4, MPI_INFO_NULL, comm, &base, &shared) != MPI_SUCCESS) shared = win;
    OK(MPI_Win_set_errhandler(shared, MPI_ERRORS_RETURN));
    OK(MPI_File_open(comm, path, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
}

int main(int argc, char **argv) {
    int class, code;
    begin(&argc, &argv);
    CHECK(argc > 2);
    prepare(argv[1]);
    /* After so many microseconds of operations, or at once. */
    int delay = atoi(argv[2]);
    OK(everything());
    /* An operation may also fail where a process dies that had completed it, so rank 1 lives until all have. */
    for (int other = 0; other < size; other++) {
        if (rank == 1 && other != 1) OK(MPI_Recv(NULL, 0, MPI_INT, other, 91, comm, &status));
        if (rank == other && other != 1) OK(MPI_Send(NULL, 0, MPI_INT, 1, 91, comm));
    }
    if (rank == 1) {
        if (delay == 0) raise(SIGKILL);
        /* No handler: SIGALRM kills the process. */
        ualarm(delay, 0);
    }
    if (delay > 0) {
        do code = everything();
        while (code == MPI_SUCCESS);
        OK(MPI_Error_class(code, &class));
        printf("rank %d is told: class %d\n", rank, class);
        return class == MPI_ERR_PROC_ABORTED ? 3 : 4;
    }
    int wrong = 0;
    for (int i = 0; i < CALLS; i++) {
        if (argc > 3) fprintf(stderr, "%s\n", calls[i].name);
        request = MPI_REQUEST_NULL;
        code = calls[i].call();
        OK(MPI_Error_class(code, &class));
        if (class != MPI_ERR_PROC_ABORTED) {
            char text[MPI_MAX_ERROR_STRING];
            int len;
            MPI_Error_string(code, text, &len);
            printf("rank %d: %s is told: class %d: %s\n", rank, calls[i].name, class, text);
            wrong = 1;
        }
    }
    printf("rank %d is told %d times\n", rank, CALLS);
    return wrong ? 4 : 3;
}
