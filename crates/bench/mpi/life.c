/* LIFE on a torus, in blocks of rows: each generation neighbours exchange their outermost rows. */
#include "bench.h"
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 256, ROWS = 64, GENERATIONS = 64 };

/* The rows of a block, between the neighbours' rows above and below; each row between its own other end. */
struct block {
    int rows;
    unsigned char *cells, *next;
};

static unsigned char *row(unsigned char *cells, int at)
{
    return cells + (size_t)at * (COLUMNS + 2);
}

static struct block block_of(int first, int rows)
{
    size_t bytes = (size_t)(rows + 2) * (COLUMNS + 2);
    struct block block = {rows, (unsigned char *)room(bytes), (unsigned char *)room(bytes)};
    memset(block.cells, 0, bytes);
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < COLUMNS; x++) {
            unsigned at = (unsigned)(first + y) * COLUMNS + (unsigned)x;
            row(block.cells, y + 1)[x + 1] = (at * 2654435761u >> 13) % 5 < 2;
        }
    return block;
}

static void drop(struct block *block)
{
    free(block->cells);
    free(block->next);
}

/* One generation, once the rows above and below are there. */
static void step(struct block *block)
{
    for (int y = 0; y < block->rows + 2; y++) {
        row(block->cells, y)[0] = row(block->cells, y)[COLUMNS];
        row(block->cells, y)[COLUMNS + 1] = row(block->cells, y)[1];
    }
    for (int y = 1; y <= block->rows; y++) {
        const unsigned char *above = row(block->cells, y - 1), *here = row(block->cells, y), *below = row(block->cells, y + 1);
        unsigned char *to = row(block->next, y);
        for (int x = 1; x <= COLUMNS; x++) {
            unsigned char around = (unsigned char)(above[x - 1] + above[x] + above[x + 1] + here[x - 1] + here[x + 1] +
                                                   below[x - 1] + below[x] + below[x + 1]);
            to[x] = (unsigned char)((around == 3) | ((around == 2) & here[x]));
        }
    }
    unsigned char *last = block->cells;
    block->cells = block->next;
    block->next = last;
}

static void exchange(struct block *block)
{
    int above = (rank + ranks - 1) % ranks, below = (rank + 1) % ranks;
    MPI_Sendrecv(row(block->cells, 1), COLUMNS + 2, MPI_BYTE, above, 1, row(block->cells, block->rows + 1), COLUMNS + 2,
                 MPI_BYTE, below, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(row(block->cells, block->rows), COLUMNS + 2, MPI_BYTE, below, 2, row(block->cells, 0), COLUMNS + 2,
                 MPI_BYTE, above, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static unsigned long sum_of(const struct block *block, int first)
{
    unsigned long sum = 0;
    for (int y = 0; y < block->rows; y++)
        for (int x = 0; x < COLUMNS; x++)
            sum += row(block->cells, y + 1)[x + 1] * (unsigned long)((first + y) * COLUMNS + x + 1) * 2654435761ul;
    return sum;
}

static unsigned long last_sum;

static void generations(struct work *work, long rounds)
{
    (void)work;
    for (long i = 0; i < rounds; i++) {
        struct block block = block_of(rank * ROWS, ROWS);
        for (int generation = 0; generation < GENERATIONS; generation++) {
            exchange(&block);
            step(&block);
        }
        last_sum = sum_of(&block, rank * ROWS);
        drop(&block);
    }
}

/* The same by one process. */
static unsigned long alone(void)
{
    int rows = ROWS * ranks;
    struct block block = block_of(0, rows);
    for (int generation = 0; generation < GENERATIONS; generation++) {
        memcpy(row(block.cells, 0), row(block.cells, rows), COLUMNS + 2);
        memcpy(row(block.cells, rows + 1), row(block.cells, 1), COLUMNS + 2);
        step(&block);
    }
    unsigned long sum = sum_of(&block, 0);
    drop(&block);
    return sum;
}

void run_life(struct work *work)
{
    unsigned long sum;
    double seconds = measure(generations, work);
    MPI_Allreduce(&last_sum, &sum, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && sum != alone())
        fail("the generations are not those that one process computes");
    print_of_ranks("life", 0, "latency_us", seconds * 1e6);
}
