/* A server that answers in capitals, and a client:   cc bmi.c $(pkg-config --cflags --libs causeway-bmi) -o bmi
 *     ./bmi serve shm:///tmp/bmi.sock,tcp://127.0.0.1:7070 &
 *     ./bmi ask shm:///tmp/bmi.sock,tcp://127.0.0.1:7070 hello    (the text "quit" ends the server)
 * In a Makefile:   bmi: CFLAGS += $(shell pkg-config --cflags causeway-bmi)
 *                  bmi: LDLIBS += $(shell pkg-config --libs causeway-bmi) */
#include <causeway/bmi.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG = 1, SECOND_US = 1000000 };
static bmi_t *bmi;
static bmi_context_t context;

static int check(int rc) { /* the result of any call, or the end of the program */
    if (rc >= 0) return rc;
    fprintf(stderr, "bmi: %s\n", BMI_last_error());
    exit(1);
}

static int64_t finish(int posted, bmi_op_t *op, int64_t *size) { /* waits for an operation; its bytes */
    struct bmi_completion done = {0};
    if (check(posted) == 1) return *size; /* it has completed already */
    for (int waited = 1; check(BMI_test(bmi, *op, &done, SECOND_US)) == 0; waited++)
        if (waited == 10) check(BMI_cancel(bmi, *op)); /* without a server it ends with an error */
    check(done.error);
    return done.actual_size;
}

int main(int argc, char **argv) {
    int serve = argc == 3 && strcmp(argv[1], "serve") == 0;
    struct bmi_config config = BMI_CONFIG_INIT;
    bmi_op_t op, sent;
    if (argc != 4 - serve) return fprintf(stderr, "bmi serve ADDRESS | ask ADDRESS TEXT\n"), 2;
    if (serve) config.listen = argv[2];
    check(BMI_initialize(&bmi, &config));
    check(BMI_open_context(bmi, &context));
    while (serve) {
        struct bmi_unexpected ask;
        if (check(BMI_testunexpected(bmi, &ask, 1, SECOND_US)) == 0) continue;
        char *text = ask.buffer;
        serve = ask.size != 4 || memcmp(text, "quit", 4) != 0;
        for (int64_t i = 0; i < ask.size; i++) text[i] = (char)toupper((unsigned char)text[i]);
        finish(BMI_post_send(bmi, &op, ask.from, text, ask.size, TAG, context, NULL), &op, &ask.size);
        check(BMI_unexpected_free(&ask));
        check(BMI_addr_release(bmi, ask.from));
    }
    if (argc == 4) {
        bmi_addr_t server;
        int64_t size = (int64_t)strlen(argv[3]), got = 0;
        char answer[4096];
        check(BMI_addr_lookup(bmi, &server, argv[2]));
        /* The receive first, so that the reply finds it, however soon it arrives. */
        int rc = BMI_post_recv(bmi, &op, server, answer, sizeof answer, &got, TAG, context, NULL);
        finish(BMI_post_sendunexpected(bmi, &sent, server, argv[3], size, TAG, context, NULL), &sent, &size);
        printf("%.*s\n", (int)finish(rc, &op, &got), answer);
    }
    return check(BMI_finalize(bmi));
}
