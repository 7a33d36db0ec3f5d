/* The library changes no state of the whole process, under every launcher. */
#include "../../../bmi-c/tests/c/process.h"
#include "check.h"

static struct process_state before;

static void check_unchanged(void) {
    const char *changed = what_changed(&before);
    if (changed == NULL) return;
    fprintf(stderr, "the library has changed %s\n", changed);
    exit(98);
}

int main(int argc, char **argv) {
    int level, sum;
    /* As it is without a launcher; ours has SIGQUIT ignored. */
    CHECK(signal(SIGQUIT, SIG_DFL) != SIG_ERR);
    look_at_process(&before);
    OK(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level));
    check_unchanged();
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    OK(MPI_Finalize());
    check_unchanged();
    return 0;
}
