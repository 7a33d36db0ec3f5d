/* Rank 0 waits in MPI_Finalize for the others, which compute: it does not connect with those that it has never had anything to do with. */
#include "check.h"

#include <dirent.h>
#include <unistd.h>

static int open_files(void) {
    DIR *all = opendir("/proc/self/fd");
    int many = 0;
    CHECK(all != NULL);
    while (readdir(all)) many++;
    closedir(all);
    return many;
}

int main(int argc, char **argv) {
    begin(&argc, &argv);
    int flag, before = open_files();
    /* All but rank 2 are in MPI_Finalize later than it, or wait for ranks that are. */
    if (rank > 0) usleep(rank == 2 ? 1500000 : 2500000);
    for (int i = 0; i < 100 && rank == 2; i++) {
        OK(MPI_Iprobe(MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        usleep(1000);
    }
    if (rank == 2) CHECK(open_files() == before);
    OK(MPI_Finalize());
    return 0;
}
