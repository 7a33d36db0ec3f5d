/* Shared by the test programs: checks that name their line, rank and size. */
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

/* Whether the library is this project's: others may not report every error. */
static inline int is_ours(void) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;
    OK(MPI_Get_library_version(version, &len));
    return strncmp(version, "Causeway", 8) == 0;
}

static inline void begin(int *argc, char ***argv) {
    OK(MPI_Init(argc, argv));
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
}
#endif
