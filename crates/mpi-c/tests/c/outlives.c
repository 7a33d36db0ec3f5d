/* A process that has started another one ends before it. */
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Comm parent, child;
    int pid = getpid();
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &child, MPI_ERRCODES_IGNORE);
        MPI_Send(&pid, 1, MPI_INT, 0, 0, child);
        MPI_Comm_disconnect(&child);
        MPI_Finalize();
        return 0;
    }
    MPI_Recv(&pid, 1, MPI_INT, 0, 0, parent, MPI_STATUS_IGNORE);
    MPI_Comm_disconnect(&parent);
    while (kill(pid, 0) == 0 || errno != ESRCH) usleep(1000);
    /* For what else its end may lead to. */
    usleep(300000);
    printf("outlived\n");
    MPI_Finalize();
    return 0;
}
