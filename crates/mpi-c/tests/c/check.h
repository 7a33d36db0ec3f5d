/* What the test programs share: checks that name their line, and who and how many the processes are. */
#ifndef CHECK_H
#define CHECK_H
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

#define CHECK(condition)                                                                        \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "rank %d: %s:%d: %s\n", rank, __FILE__, __LINE__, #condition);      \
            MPI_Abort(MPI_COMM_WORLD, 99);                                                      \
        }                                                                                       \
    } while (0)

#define OK(call) CHECK((call) == MPI_SUCCESS)

static inline void begin(int *argc, char ***argv) {
    OK(MPI_Init(argc, argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
}
#endif
