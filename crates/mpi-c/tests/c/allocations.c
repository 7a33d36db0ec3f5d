/* The usual messages allocate nothing on the heap once some have been exchanged: short ones, and those of a megabyte, by blocking calls
 * and by requests. Whatever allocates in this process is counted. */
#include "check.h"

enum { LARGE = 1 << 20, WINDOWS = 8, WARM_UP = 60 };

/* The C library's own functions, under the names that it has for programs that replace them. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static unsigned long allocations;

static void count(void) {
    __atomic_fetch_add(&allocations, 1, __ATOMIC_RELAXED);
}

void *malloc(size_t bytes) {
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t many, size_t bytes) {
    count();
    return __libc_calloc(many, bytes);
}

void *realloc(void *old, size_t bytes) {
    count();
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count();
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **made, size_t alignment, size_t bytes) {
    count();
    *made = __libc_memalign(alignment, bytes);
    return *made == NULL;
}

static char sent[LARGE], got[LARGE];

static void blocking(int bytes) {
    int other = 1 - rank;
    if (rank == 0) OK(MPI_Send(sent, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD));
    OK(MPI_Recv(got, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    if (rank == 1) OK(MPI_Send(sent, bytes, MPI_CHAR, other, 1, MPI_COMM_WORLD));
}

/* Both at the same time; each receive is posted before its message comes, or not, as it happens. */
static void by_requests(int bytes) {
    MPI_Request requests[2];
    OK(MPI_Irecv(got, bytes, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(sent, bytes, MPI_CHAR, 1 - rank, 2, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
}

/* The least of several times: a few times a second, what observers see is written, which is not on the path of messages. */
static unsigned long least(void (*exchange)(int), int bytes, int rounds) {
    unsigned long least = -1UL;
    for (int i = 0; i < WARM_UP; i++) exchange(bytes);
    for (int window = 0; window < WINDOWS; window++) {
        unsigned long before = __atomic_load_n(&allocations, __ATOMIC_RELAXED);
        for (int i = 0; i < rounds; i++) exchange(bytes);
        unsigned long now = __atomic_load_n(&allocations, __ATOMIC_RELAXED) - before;
        if (now < least) least = now;
    }
    return least;
}

int main(int argc, char **argv) {
    static const int sizes[] = {8, 1024, LARGE};
    unsigned long before = allocations, found = 0;
    begin(&argc, &argv);
    CHECK(size == 2 && allocations > before);
    for (int i = 0; i < 3; i++) {
        int rounds = sizes[i] == LARGE ? 5 : 20;
        unsigned long of_blocking = least(blocking, sizes[i], rounds);
        unsigned long of_requests = least(by_requests, sizes[i], rounds);
        if (of_blocking + of_requests > 0)
            fprintf(stderr, "rank %d: %lu allocations in %d exchanges of %d bytes, %lu by requests\n", rank, of_blocking, rounds,
                    sizes[i], of_requests);
        found += of_blocking + of_requests;
    }
    OK(MPI_Finalize());
    return found > 0;
}
