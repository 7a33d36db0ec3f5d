/* Cancelled operations, messages that are too large, peers that die, start again, hang or never were. */
#include "common.h"

static void serve_until_killed(struct layer *layer) {
    for (;;) {
        struct bmi_unexpected message = next_unexpected(layer);
        bmi_addr_t from = message.from;
        CHECK_IS(send_to(layer, from, message.buffer, message.size, message.tag), message.size);
        BMI_unexpected_free(&message);
        CHECK_IS(BMI_addr_release(layer->bmi, from), 0);
    }
}

static int64_t ask(struct layer *layer, bmi_addr_t server, bmi_tag_t tag) {
    char reply[8] = "";
    int64_t sent = send_unexpected(layer, server, "ping", 5, tag);
    if (sent < 0) return sent;
    int64_t got = recv_from(layer, server, reply, sizeof reply, tag);
    if (got >= 0) CHECK(got == 5 && strcmp(reply, "ping") == 0);
    return got;
}

static int is_of_the_dead(int64_t error) {
    return error == BMI_EBROKEN || error == BMI_ECLOSED || error == BMI_EREFUSED;
}

static void cancel(struct layer *layer, bmi_addr_t server) {
    struct bmi_completion done;
    char buffer[16];
    bmi_op_t op;
    CHECK_IS(BMI_post_recv(layer->bmi, &op, server, buffer, sizeof buffer, NULL, 1000,
                           layer->context, buffer), 0);
    CHECK_IS(BMI_test(layer->bmi, op, &done, 1000), 0);
    int64_t value;
    CHECK_IS(BMI_get_info(layer->bmi, server, BMI_OPERATIONS, &value), 0);
    CHECK_IS(value, 1);
    CHECK_IS(BMI_cancel(layer->bmi, op), 0);
    CHECK_IS(BMI_test(layer->bmi, op, &done, SECOND_US), 1);
    CHECK_IS(done.error, BMI_ECANCELLED);
    CHECK(done.user_ptr == buffer && done.actual_size == 0);
    CHECK(strstr(BMI_last_error(), "cancelled") != NULL);
    CHECK_IS(BMI_cancel(layer->bmi, op), 0);

    /* A large send without a receive, and one whose context is closed. */
    char *large = calloc(1, 1 << 20);
    int rc = BMI_post_send(layer->bmi, &op, server, large, 1 << 20, 1001, layer->context, NULL);
    CHECK_IS(rc, 0);
    CHECK_IS(BMI_cancel(layer->bmi, op), 0);
    CHECK_IS(finish(layer, rc, op, 0), BMI_ECANCELLED);
    free(large);
    bmi_context_t other;
    CHECK_IS(BMI_open_context(layer->bmi, &other), 0);
    CHECK_IS(BMI_post_recv(layer->bmi, &op, server, buffer, sizeof buffer, NULL, 1000, other, NULL), 0);
    CHECK_IS(BMI_close_context(layer->bmi, other), 0);
    CHECK_IS(BMI_test(layer->bmi, op, &done, 0), BMI_EHANDLE);
    CHECK_IS(BMI_testcontext(layer->bmi, other, &done, 1, 0), BMI_EHANDLE);
}

static void too_large(struct layer *layer, bmi_addr_t server) {
    char small[4];
    CHECK_IS(send_unexpected(layer, server, "ping", 5, 7), 5);
    CHECK_IS(recv_from(layer, server, small, sizeof small, 7), BMI_ETOOLARGE);
    CHECK(strstr(BMI_last_error(), "5 bytes") != NULL);
    int64_t limit;
    CHECK_IS(BMI_get_info(layer->bmi, 0, BMI_UNEXPECTED_LIMIT, &limit), 0);
    char *large = calloc(1, (size_t)limit + 1);
    CHECK_IS(send_unexpected(layer, server, large, limit + 1, 8), BMI_ETOOLARGE);
    free(large);
}

int main(int argc, char **argv) {
    const char *listen = begin(argc, argv);
    struct child first = start_server(listen, serve_until_killed);
    struct layer layer = open_layer(NULL);
    bmi_addr_t server = look_up(&layer, first.address);
    CHECK_IS(ask(&layer, server, 1), 5);
    cancel(&layer, server);
    too_large(&layer, server);

    /* Death fails what is in progress, small and large, and nothing hangs. */
    char buffer[16], *large = calloc(1, 4 << 20);
    bmi_op_t ops[2];
    CHECK_IS(BMI_post_recv(layer.bmi, &ops[0], server, buffer, sizeof buffer, NULL, 5, layer.context, NULL), 0);
    CHECK_IS(BMI_post_send(layer.bmi, &ops[1], server, large, 4 << 20, 6, layer.context, NULL), 0);
    CHECK(kill(first.pid, SIGKILL) == 0);
    CHECK(waitpid(first.pid, NULL, 0) == first.pid);
    for (int i = 0; i < 2; i++) CHECK(is_of_the_dead(finish(&layer, 0, ops[i], 0)));
    CHECK(strstr(BMI_last_error(), "://") != NULL);
    free(large);
    CHECK(ask(&layer, server, 2) < 0);

    /* Another server at the address is another peer under the same handle. */
    struct child second = start_server(first.address, serve_until_killed);
    CHECK(strcmp(second.address, first.address) == 0);
    CHECK_IS(ask(&layer, server, 3), 5);

    /* A hanging peer is dropped. */
    CHECK(kill(second.pid, SIGSTOP) == 0);
    int rc = BMI_post_recv(layer.bmi, &ops[0], server, buffer, sizeof buffer, NULL, 5, layer.context, NULL);
    CHECK_IS(rc, 0);
    CHECK_IS(BMI_addr_disconnect(layer.bmi, server), 0);
    CHECK_IS(finish(&layer, rc, ops[0], 0), BMI_EDISCONNECTED);
    CHECK(kill(second.pid, SIGCONT) == 0);
    CHECK_IS(ask(&layer, server, 4), 5);
    CHECK(kill(second.pid, SIGKILL) == 0);
    CHECK(waitpid(second.pid, NULL, 0) == second.pid);

    CHECK_IS(BMI_addr_release(layer.bmi, server), 0);
    bmi_addr_t unused = look_up(&layer, "tcp://127.0.0.1:1,shm:///no/such/socket");
    CHECK_IS(ask(&layer, unused, 1), BMI_EREFUSED);
    CHECK_IS(BMI_addr_release(layer.bmi, unused), 0);
    close_layer(&layer);
    return 0;
}
