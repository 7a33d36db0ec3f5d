/* Expected and unexpected messages, whole and in lists, of all sizes; the ways of testing. */
#include "common.h"

enum { ECHO = 1, LISTS = 2, BURST = 3, MESSAGES = 50, QUIT = 99 };

static const size_t sizes[] = {0, 1, 8, 64, 1000, 4096, 8192, 8193, 70000, 1 << 20, 3000001};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void serve(struct layer *layer) {
    struct bmi_unexpected hello = next_unexpected(layer);
    CHECK_IS(hello.tag, 42);
    CHECK_IS(hello.size, 5);
    CHECK(memcmp(hello.buffer, "hello", 5) == 0);
    CHECK_IS(BMI_unexpected_free(&hello), 0);
    CHECK(hello.buffer == NULL && hello.size == 0);
    CHECK_IS(BMI_unexpected_free(&hello), 0);
    bmi_addr_t client = hello.from;

    for (size_t i = 0; i < SIZES; i++) {
        char *buffer = malloc(sizes[i] + 1);
        CHECK_IS(recv_from(layer, client, buffer, (bmi_size_t)sizes[i] + 1, ECHO), sizes[i]);
        CHECK(is_filled(buffer, sizes[i], (unsigned)i));
        CHECK_IS(send_to(layer, client, buffer, (bmi_size_t)sizes[i], ECHO), sizes[i]);
        free(buffer);
    }
    /* A large list is received in other pieces than it was sent in. */
    enum { WHOLE = 300000 };
    char *buffer = malloc(WHOLE);
    bmi_op_t op;
    bmi_size_t got = 0;
    struct iovec list[3] = {{buffer, 1}, {buffer + 1, 199999}, {buffer + 200000, 100000}};
    int rc = BMI_post_recv_list(layer->bmi, &op, client, list, 3, &got, LISTS, layer->context, NULL);
    CHECK_IS(finish(layer, rc, op, got), WHOLE);
    CHECK(is_filled(buffer, WHOLE, 5));
    free(buffer);
    struct bmi_unexpected parts = next_unexpected(layer);
    CHECK_IS(parts.size, 10);
    CHECK(memcmp(parts.buffer, "0123456789", 10) == 0);
    BMI_unexpected_free(&parts);
    CHECK_IS(BMI_addr_release(layer->bmi, parts.from), 0);

    for (uint64_t i = 0; i < MESSAGES; i++)
        CHECK_IS(send_to(layer, client, &i, sizeof i, BURST + i % 2), sizeof i);
    struct bmi_unexpected quit = next_unexpected(layer);
    CHECK_IS(quit.tag, QUIT);
    CHECK(quit.size == 0 && quit.buffer == NULL);
    CHECK_IS(BMI_unexpected_free(&quit), 0);
    CHECK(quit.from == client);
    CHECK_IS(BMI_addr_release(layer->bmi, client), 0);
    CHECK_IS(BMI_addr_release(layer->bmi, client), 0);
}

/* Receives of two tags, found through context and array; order holds within each tag. */
static void burst(struct layer *layer, bmi_addr_t server) {
    uint64_t values[MESSAGES], next[2] = {0, 1};
    bmi_op_t ops[MESSAGES + 1] = {0};
    int left = 0;
    for (int i = 0; i < MESSAGES; i++) {
        values[i] = UINT64_MAX;
        bmi_size_t got = 0;
        int rc = BMI_post_recv(layer->bmi, &ops[i], server, &values[i], sizeof values[i], &got,
                               (bmi_tag_t)(BURST + i % 2), layer->context, &values[i]);
        CHECK(rc >= 0);
        if (rc == 1) CHECK_IS(got, sizeof values[i]);
        left += rc == 0;
    }
    while (left > MESSAGES / 2) {
        struct bmi_completion done[MESSAGES + 1];
        int count = BMI_testsome(layer->bmi, ops, MESSAGES + 1, done, SECOND_US);
        CHECK(count >= 0);
        for (int i = 0; i < count; i++) {
            CHECK_IS(done[i].error, 0);
            CHECK_IS(done[i].actual_size, sizeof values[0]);
            ptrdiff_t at = (uint64_t *)done[i].user_ptr - values;
            CHECK(at >= 0 && at < MESSAGES && ops[at] == done[i].op);
            ops[at] = 0; /* passed over from now on */
        }
        left -= count;
    }
    while (left > 0) {
        struct bmi_completion done[4];
        int count = BMI_testcontext(layer->bmi, layer->context, done, 4, SECOND_US);
        CHECK(count >= 0 && count <= 4);
        for (int i = 0; i < count; i++) CHECK_IS(done[i].error, 0);
        left -= count;
    }
    for (int i = 0; i < MESSAGES; i++) {
        CHECK_IS(values[i], next[i % 2]);
        next[i % 2] += 2;
    }
}

int main(int argc, char **argv) {
    struct child server = start_server(begin(argc, argv), serve);
    struct layer layer = open_layer(NULL);
    bmi_addr_t addr = look_up(&layer, server.address);
    CHECK_IS(send_unexpected(&layer, addr, "hello", 5, 42), 5);
    for (size_t i = 0; i < SIZES; i++) {
        char *out = malloc(sizes[i] + 1), *in = malloc(sizes[i] + 1);
        fill(out, sizes[i], (unsigned)i);
        bmi_op_t op;
        bmi_size_t size = (bmi_size_t)sizes[i], got = 0;
        int rc = BMI_post_recv(layer.bmi, &op, addr, in, size, &got, ECHO, layer.context, NULL);
        CHECK_IS(send_to(&layer, addr, out, size, ECHO), size);
        CHECK_IS(finish(&layer, rc, op, got), size);
        CHECK(is_filled(in, sizes[i], (unsigned)i));
        free(out);
        free(in);
    }
    char *whole = malloc(300000);
    fill(whole, 300000, 5);
    struct iovec halves[4] = {{whole, 150000}, {NULL, 0}, {whole + 150000, 149999}, {whole + 299999, 1}};
    bmi_op_t op;
    int rc = BMI_post_send_list(layer.bmi, &op, addr, halves, 4, LISTS, layer.context, NULL);
    CHECK_IS(finish(&layer, rc, op, 300000), 300000);
    free(whole);
    char digits[2][5] = {{'0', '1', '2', '3', '4'}, {'5', '6', '7', '8', '9'}};
    struct iovec parts[2] = {{digits[0], 5}, {digits[1], 5}};
    rc = BMI_post_sendunexpected_list(layer.bmi, &op, addr, parts, 2, 1, layer.context, NULL);
    CHECK_IS(finish(&layer, rc, op, 10), 10);
    burst(&layer, addr);
    CHECK_IS(send_unexpected(&layer, addr, NULL, 0, QUIT), 0);
    join(&server);
    CHECK_IS(BMI_addr_release(layer.bmi, addr), 0);
    CHECK_IS(BMI_addr_release(layer.bmi, addr), BMI_EHANDLE);
    close_layer(&layer);
    return 0;
}
