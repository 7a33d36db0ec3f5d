/* Many threads use one instance: each gets its messages exactly once, and a wait ends when another thread's post
 * brings what it waits for. */
#include "common.h"

#include <pthread.h>

#define THREADS 8
#define MESSAGES 100
#define WAITED 100
#define STOP 101

/* Returns every message to its sender under its tag. */
static void serve(struct layer *layer) {
    bmi_tag_t tag;
    do {
        struct bmi_unexpected message = next_unexpected(layer);
        tag = message.tag;
        if (tag != STOP) CHECK_IS(send_to(layer, message.from, message.buffer, message.size, tag), message.size);
        CHECK_IS(BMI_unexpected_free(&message), 0);
        CHECK_IS(BMI_addr_release(layer->bmi, message.from), 0);
    } while (tag != STOP);
}

struct job {
    struct layer *layer;
    bmi_addr_t server;
    bmi_tag_t tag;
};

/* Sends one request after the other, and gets each reply once and in order. */
static void *ask(void *job_) {
    struct job *job = job_;
    for (int n = 0; n < MESSAGES; n++) {
        int reply = -1;
        CHECK_IS(send_unexpected(job->layer, job->server, &n, sizeof n, job->tag), sizeof n);
        CHECK_IS(recv_from(job->layer, job->server, &reply, sizeof reply, job->tag), sizeof reply);
        CHECK_IS(reply, n);
    }
    return NULL;
}

/* Waits for the reply to another thread's request. */
static void *wait_for_reply(void *job_) {
    struct job *job = job_;
    struct bmi_completion done;
    bmi_size_t size;
    bmi_op_t op;
    int reply = -1;
    CHECK_IS(BMI_post_recv(job->layer->bmi, &op, job->server, &reply, sizeof reply, &size, job->tag,
                           job->layer->context, NULL), 0);
    /* One wait is enough: only a completion, a call or the end of the time ends it. */
    CHECK_IS(BMI_test(job->layer->bmi, op, &done, 100LL * SECOND_US), 1);
    CHECK_IS(done.error, 0);
    CHECK_IS(reply, 17);
    return NULL;
}

int main(int argc, char **argv) {
    struct child child = start_server(begin(argc, argv), serve);
    struct layer layer = open_layer(NULL);
    bmi_addr_t server = look_up(&layer, child.address);
    struct job jobs[THREADS + 1];
    pthread_t threads[THREADS + 1];
    for (int n = 0; n <= THREADS; n++) {
        jobs[n] = (struct job){&layer, server, n < THREADS ? (bmi_tag_t)n : WAITED};
        CHECK(pthread_create(&threads[n], NULL, n < THREADS ? ask : wait_for_reply, &jobs[n]) == 0);
    }
    for (int n = 0; n < THREADS; n++) CHECK(pthread_join(threads[n], NULL) == 0);
    /* The last one has waited all the time, and is alone now. */
    usleep(20000);
    int value = 17;
    CHECK_IS(send_unexpected(&layer, server, &value, sizeof value, WAITED), sizeof value);
    CHECK(pthread_join(threads[THREADS], NULL) == 0);
    CHECK_IS(send_unexpected(&layer, server, &value, sizeof value, STOP), sizeof value);
    close_layer(&layer);
    join(&child);
    return 0;
}
