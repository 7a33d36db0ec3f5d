/* A child of fork() is told that the instance is its parent's, cannot disturb it, and may have its own. */
#include "common.h"

#include <memcheck.h>

static void play_child(struct layer *layer, const char *address) {
    bmi_t *bmi = layer->bmi;
    bmi_op_t op;
    bmi_addr_t addr;
    struct bmi_completion done;
    struct bmi_unexpected message;
    void *memory;
    char text[64];
    CHECK_IS(BMI_testcontext(bmi, layer->context, &done, 1, 0), BMI_EHANDLE);
    CHECK(strstr(BMI_last_error(), "parent") != NULL);
    CHECK_IS(BMI_testunexpected(bmi, &message, 1, 0), BMI_EHANDLE);
    CHECK_IS(BMI_wait(bmi, layer->context, 0), BMI_EHANDLE);
    CHECK_IS(BMI_wake(bmi), BMI_EHANDLE);
    CHECK_IS(BMI_addr_lookup(bmi, &addr, address), BMI_EHANDLE);
    CHECK_IS(BMI_listening(bmi, text, sizeof text), BMI_EHANDLE);
    CHECK_IS(BMI_memalloc(bmi, 1, 8, &memory), BMI_EHANDLE);
    CHECK_IS(BMI_post_send(bmi, &op, 1, "x", 1, 1, layer->context, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_close_context(bmi, layer->context), BMI_EHANDLE);
    CHECK_IS(BMI_finalize(bmi), BMI_EHANDLE);
    struct layer own = open_layer(NULL);
    bmi_addr_t parent = look_up(&own, address);
    CHECK_IS(send_unexpected(&own, parent, "child", 5, 7), 5);
    CHECK_IS(recv_from(&own, parent, text, sizeof text, 8), 6);
    close_layer(&own);
}

/* Serves one message and replies to it; the client's side of it is `client`, if that is in this process. */
static void serve_one(struct layer *layer, struct layer *client, bmi_tag_t tag) {
    struct bmi_unexpected message;
    int count;
    do {
        if (client != NULL) CHECK(BMI_wait(client->bmi, client->context, 1000) >= 0);
        count = BMI_testunexpected(layer->bmi, &message, 1, client == NULL ? SECOND_US : 1000);
        CHECK(count >= 0);
    } while (count == 0);
    CHECK_IS(message.size, 5);
    CHECK_IS(message.tag, tag);
    CHECK_IS(send_to(layer, message.from, "answer", 6, 8), 6);
    CHECK_IS(BMI_unexpected_free(&message), 0);
    CHECK_IS(BMI_addr_release(layer->bmi, message.from), 0);
}

int main(int argc, char **argv) {
    char address[512];
    struct layer layer = open_layer(begin(argc, argv));
    int status, length = BMI_listening(layer.bmi, address, sizeof address);
    CHECK(length > 0 && length < (int)sizeof address);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        look_for_no_leaks();
        play_child(&layer, address);
        _exit(0);
    }
    serve_one(&layer, NULL, 7);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_IS(WEXITSTATUS(status), 0);

    /* The child's calls have changed nothing in the parent. */
    struct layer client = open_layer(NULL);
    bmi_op_t op;
    CHECK(BMI_post_sendunexpected(client.bmi, &op, look_up(&client, address), "later", 5, 9, client.context, NULL) >=
          0);
    serve_one(&layer, &client, 9);
    close_layer(&client);
    close_layer(&layer);
    return 0;
}
