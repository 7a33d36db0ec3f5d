/* overheard WHETHER: the second process sends the first, on another host, a message that the first's host can read in the packets that cross its
 * network if WHETHER is "overheard", and cannot if it is "not". */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <sys/socket.h>

static const char words[] = "four score and seven years ago our fathers brought forth on this continent";

/* Whether the words are in the packets that have been recorded so far. */
static int has_words(int recorder) {
    static char packet[1 << 17];
    int found = 0;
    for (;;) {
        ssize_t len = recv(recorder, packet, sizeof packet, MSG_DONTWAIT);
        if (len < 0)
            return found;
        found |= memmem(packet, len, words, sizeof words) != NULL;
    }
}

int main(int argc, char **argv) {
    char message[sizeof words];
    int recorder = -1;
    begin(&argc, &argv);
    CHECK(argc == 2 && size == 2);
    if (rank == 0) {
        recorder = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));
        CHECK(recorder >= 0);
    }
    /* The words cross once the recorder is there. */
    OK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 1)
        OK(MPI_Send(words, sizeof words, MPI_CHAR, 0, 1, MPI_COMM_WORLD));
    if (rank == 0) {
        OK(MPI_Recv(message, sizeof message, MPI_CHAR, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        CHECK(memcmp(message, words, sizeof words) == 0);
        CHECK(has_words(recorder) == (strcmp(argv[1], "overheard") == 0));
    }
    OK(MPI_Finalize());
    return 0;
}
