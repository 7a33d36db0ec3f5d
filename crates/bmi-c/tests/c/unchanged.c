/* The library changes nothing that belongs to the whole process. */
#include "common.h"
#include "process.h"

static struct process_state before;

static void check_unchanged(void) {
    const char *changed = what_changed(&before);
    if (changed != NULL) fprintf(stderr, "the library has changed %s\n", changed);
    CHECK(changed == NULL);
}

static void serve(struct layer *layer) {
    struct bmi_unexpected message = next_unexpected(layer);
    CHECK_IS(send_to(layer, message.from, "answer", 6, 8), 6);
    CHECK_IS(BMI_unexpected_free(&message), 0);
}

int main(int argc, char **argv) {
    const char *address = begin(argc, argv);
    struct child child = start_server(address, serve);
    char text[8];
    look_at_process(&before);
    struct layer layer = open_layer(NULL);
    check_unchanged();
    bmi_addr_t server = look_up(&layer, child.address);
    CHECK_IS(send_unexpected(&layer, server, "hello", 5, 7), 5);
    CHECK_IS(recv_from(&layer, server, text, sizeof text, 8), 6);
    close_layer(&layer);
    check_unchanged();
    join(&child);
    return 0;
}
