/* Threads that call at the same time (MPI 5.0 §11.6): messages, probes, collective operations on communicators of their own,
 * completion of requests that another thread has started. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 200, MOST = 3000, WORK = 7, HANDED = 8 };

static MPI_Comm communicators[THREADS];

/* Messages round the ring, some of them above the eager limit. */
static void ring(int thread, int round)
{
    static int sizes[] = {0, 1, 8, 100, MOST};
    int count = sizes[(round + thread) % 5], from[MOST], into[MOST];
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    MPI_Status status;
    for (int i = 0; i < count; i++)
        from[i] = rank * 1000003 + thread * 1009 + round + i;
    if (round % 2) {
        MPI_Sendrecv(from, count, MPI_INT, next, thread, into, MOST, MPI_INT, last, thread, MPI_COMM_WORLD, &status);
    } else {
        MPI_Request request;
        MPI_Message message;
        MPI_Isend(from, count, MPI_INT, next, thread, MPI_COMM_WORLD, &request);
        MPI_Mprobe(MPI_ANY_SOURCE, thread, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(into, MOST, MPI_INT, &message, &status);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    int received;
    MPI_Get_count(&status, MPI_INT, &received);
    CHECK(received == count);
    CHECK(status.MPI_SOURCE == last && status.MPI_TAG == thread);
    for (int i = 0; i < count; i++)
        CHECK(into[i] == last * 1000003 + thread * 1009 + round + i);
}

static void sum(MPI_Op op, int thread, int round)
{
    int mine[3] = {rank, thread, round}, all[3];
    MPI_Allreduce(mine, all, 3, MPI_INT, op, communicators[thread]);
    CHECK(all[0] == size * (size - 1) / 2 && all[1] == size * thread && all[2] == size * round);
}

static void add(void *from, void *into, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)into)[i] += ((int *)from)[i];
}

static void *work(void *argument)
{
    int thread = *(int *)argument;
    MPI_Op own;
    MPI_Op_create(add, 1, &own);
    for (int round = 0; round < ROUNDS; round++) {
        ring(thread, round);
        sum(round % 3 ? MPI_SUM : own, thread, round);
        if (round % 16 == 0)
            MPI_Barrier(communicators[thread]);
    }
    MPI_Op_free(&own);
    return NULL;
}

/* A request that one thread starts and another waits for. */
static MPI_Request handed[2];
static int handed_value;

static void *wait_for_handed(void *argument)
{
    (void)argument;
    MPI_Waitall(2, handed, MPI_STATUSES_IGNORE);
    return NULL;
}

static void hand_over(void)
{
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int round = 0; round < 50; round++) {
        int value = round * 100 + rank;
        pthread_t waiter;
        MPI_Irecv(&handed_value, 1, MPI_INT, last, HANDED, MPI_COMM_WORLD, &handed[0]);
        MPI_Issend(&value, 1, MPI_INT, next, HANDED, MPI_COMM_WORLD, &handed[1]);
        pthread_create(&waiter, NULL, wait_for_handed, NULL);
        MPI_Barrier(MPI_COMM_WORLD);
        pthread_join(waiter, NULL);
        CHECK(handed_value == round * 100 + last);
    }
}

/* A thread that receives every message, while others send to it. */
static void *serve(void *argument)
{
    int left = THREADS * ROUNDS, value, total = 0;
    (void)argument;
    while (left-- > 0) {
        MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, WORK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        total += value;
    }
    CHECK(total == THREADS * (ROUNDS * (ROUNDS - 1) / 2));
    return NULL;
}

static void *ask(void *argument)
{
    int next = (rank + 1) % size;
    (void)argument;
    for (int i = 0; i < ROUNDS; i++)
        MPI_Send(&i, 1, MPI_INT, next, WORK, MPI_COMM_WORLD);
    return NULL;
}

static void together(int count, void *(*start)(void *))
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < count; i++) {
        numbers[i] = i;
        CHECK(pthread_create(&threads[i], NULL, start, &numbers[i]) == 0);
    }
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
    int provided, flag;
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided));
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Query_thread(&provided);
    CHECK(provided == MPI_THREAD_MULTIPLE);
    MPI_Is_thread_main(&flag);
    CHECK(flag);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_dup(MPI_COMM_WORLD, &communicators[i]);
    together(THREADS, work);
    hand_over();
    pthread_t server;
    CHECK(pthread_create(&server, NULL, serve, NULL) == 0);
    together(THREADS, ask);
    pthread_join(server, NULL);
    for (int i = 0; i < THREADS; i++)
        MPI_Comm_free(&communicators[i]);
    MPI_Finalize();
    return 0;
}
