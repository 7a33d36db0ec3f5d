/* What the files of the program of `causeway bench mpi` share. */
#ifndef BENCH_H
#define BENCH_H

#include <mpi.h>
#include <stddef.h>

enum { MOST_WINDOW = 64 };

extern int rank, ranks;

/* What a pattern works on: `size` bytes a message, with room for every rank. */
struct work {
    const char *pattern;
    size_t size;
    int window;
    char *from, *into;
    MPI_Datatype type;
    int count;
    MPI_Request requests[2 * MOST_WINDOW];
    MPI_Win win;
};

typedef void body(struct work *work, long rounds);

/* Ends the job. */
void fail(const char *what);
/* Seconds, by a clock that no one sets. */
double now(void);
/* A figure, printed by rank 0. */
void print(const char *name, size_t size, const char *metric, double value);
/* The same, with the number of ranks behind the name. */
void print_of_ranks(const char *name, size_t size, const char *metric, double value);
/* Seconds that a round takes on rank 0, the median of some parts; all ranks call it. */
double measure(body *body, struct work *work);
/* Room for `bytes`, touched. */
char *room(size_t bytes);

/* The patterns, each of which prints its figures. */
void run_latency(struct work *work);
void run_bandwidth(struct work *work);
void run_bidirectional(struct work *work);
void run_any_source(struct work *work);
void run_threads(struct work *work);
void run_vector(struct work *work);
void run_subarray(struct work *work);
void run_overlap(struct work *work);
void run_collective(struct work *work);
void run_memory(struct work *work);
void run_one_sided(struct work *work);
void run_master_worker(struct work *work);
void run_life(struct work *work);
void run_tile(struct work *work);
void run_nested(struct work *work);
void run_open(struct work *work);

#endif
