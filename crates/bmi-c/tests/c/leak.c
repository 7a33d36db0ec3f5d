/* Loses an unexpected message's buffer: a leak that has to be found. */
#include "common.h"

static void lose_one(struct layer *layer, bmi_addr_t self) {
    char data[77] = "";
    CHECK_IS(send_unexpected(layer, self, data, sizeof data, 1), sizeof data);
    struct bmi_unexpected message = next_unexpected(layer);
    CHECK_IS(message.size, sizeof data);
    memset(&message, 0, sizeof message);
}

int main(int argc, char **argv) {
    struct layer layer = open_layer(begin(argc, argv));
    char own[512];
    CHECK(BMI_listening(layer.bmi, own, sizeof own) > 0);
    lose_one(&layer, look_up(&layer, own));
    close_layer(&layer);
    return 0;
}
