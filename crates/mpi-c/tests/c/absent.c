/* Rank 1 ends without MPI_Init, before the others wait for it or afterwards; or MPI_Abort with a code of which the kernel keeps nothing. */
#include "check.h"
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "abort") == 0) {
        begin(&argc, &argv);
        MPI_Abort(MPI_COMM_WORLD, 256);
    }
    int is_early = argc > 1 && strcmp(argv[1], "early") == 0;
    const char *own = getenv("PMI_RANK");
    if (own && strcmp(own, "1") == 0) {
        usleep(is_early ? 0 : 400000);
        return 0;
    }
    usleep(is_early ? 400000 : 0);
    begin(&argc, &argv);
    puts("begun");
    return 0;
}
