/* Mistakes of C programs: null pointers, stale and invented handles, sizes, two threads in one instance. */
#include "common.h"

#include <limits.h>
#include <pthread.h>

/* Every call refuses a handle that is none, before it reads the other arguments. */
static void refuse(bmi_t *bmi) {
    char text[8];
    uint64_t number = 0;
    int64_t value = 0;
    void *pointer = NULL;
    struct bmi_identity identity;
    struct bmi_completion done;
    struct bmi_unexpected message;
    struct bmi_region region = {0, 0, 0, 0, 0, 0};
    struct iovec list = {text, 1};
    CHECK_IS(BMI_finalize(bmi), BMI_EHANDLE);
    CHECK_IS(BMI_listening(bmi, text, sizeof text), BMI_EHANDLE);
    CHECK_IS(BMI_wake(bmi), BMI_EHANDLE);
    CHECK_IS(BMI_addr_lookup(bmi, &number, "tcp://127.0.0.1:1"), BMI_EHANDLE);
    CHECK_IS(BMI_addr_rev_lookup(bmi, 1, text, sizeof text), BMI_EHANDLE);
    CHECK_IS(BMI_addr_retain(bmi, 1), BMI_EHANDLE);
    CHECK_IS(BMI_addr_release(bmi, 1), BMI_EHANDLE);
    CHECK_IS(BMI_addr_disconnect(bmi, 1), BMI_EHANDLE);
    CHECK_IS(BMI_addr_identity(bmi, 1, &identity), BMI_EHANDLE);
    CHECK_IS(BMI_addr_report(bmi, 1, text, sizeof text), BMI_EHANDLE);
    CHECK_IS(BMI_open_context(bmi, &number), BMI_EHANDLE);
    CHECK_IS(BMI_close_context(bmi, 1), BMI_EHANDLE);
    CHECK_IS(BMI_post_send(bmi, &number, 1, text, 1, 1, 1, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_post_send_list(bmi, &number, 1, &list, 1, 1, 1, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_post_sendunexpected(bmi, &number, 1, text, 1, 1, 1, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_post_sendunexpected_list(bmi, &number, 1, &list, 1, 1, 1, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_post_recv(bmi, &number, 1, text, 1, NULL, 1, 1, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_post_recv_list(bmi, &number, 1, &list, 1, NULL, 1, 1, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_cancel(bmi, 1), BMI_EHANDLE);
    CHECK_IS(BMI_test(bmi, 1, &done, 0), BMI_EHANDLE);
    CHECK_IS(BMI_testsome(bmi, &number, 1, &done, 0), BMI_EHANDLE);
    CHECK_IS(BMI_testcontext(bmi, 1, &done, 1, 0), BMI_EHANDLE);
    CHECK_IS(BMI_testunexpected(bmi, &message, 1, 0), BMI_EHANDLE);
    CHECK_IS(BMI_wait(bmi, 1, 0), BMI_EHANDLE);
    CHECK_IS(BMI_memalloc(bmi, 1, 1, &pointer), BMI_EHANDLE);
    CHECK_IS(BMI_memfree(bmi, text), BMI_EHANDLE);
    CHECK_IS(BMI_register(bmi, text, 1), BMI_EHANDLE);
    CHECK_IS(BMI_deregister(bmi, text), BMI_EHANDLE);
    CHECK_IS(BMI_export(bmi, 1, text, 1, BMI_READ, &region), BMI_EHANDLE);
    CHECK_IS(BMI_unexport(bmi, 1, &region), BMI_EHANDLE);
    CHECK_IS(BMI_post_transfer(bmi, &number, 1, BMI_GET, text, 1, &region, 1, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_post_transfer_list(bmi, &number, 1, BMI_PUT, &list, 1, &region, 1, 1, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_map(bmi, 1, &region, &pointer), BMI_EHANDLE);
    CHECK_IS(BMI_set_info(bmi, 0, BMI_SPIN_US, 0), BMI_EHANDLE);
    CHECK_IS(BMI_get_info(bmi, 0, BMI_CONNECTED, &value), BMI_EHANDLE);
}

static void configurations(void) {
    struct bmi_config config = BMI_CONFIG_INIT;
    bmi_t *bmi = (bmi_t *)&config;
    CHECK_IS(BMI_initialize(NULL, &config), BMI_EINVAL);
    config.listen = "nonsense";
    CHECK_IS(BMI_initialize(&bmi, &config), BMI_EADDRESS);
    CHECK(bmi == NULL);
    CHECK(strstr(BMI_last_error(), "nonsense") != NULL);
    config.listen = "carrier-pigeon://coop";
    CHECK(BMI_initialize(&bmi, &config) < 0);
    config.listen = "\xff\xfe";
    CHECK_IS(BMI_initialize(&bmi, &config), BMI_EADDRESS);
    config.listen = NULL;
    config.early_memory = -1;
    CHECK_IS(BMI_initialize(&bmi, &config), BMI_EINVAL);
    config.early_memory = 0;
    config.flags = 0x80;
    CHECK_IS(BMI_initialize(&bmi, &config), BMI_EINVAL);
    config.flags = 0;
    config.tcp_connections = 17;
    CHECK_IS(BMI_initialize(&bmi, &config), BMI_EINVAL);
    CHECK(strstr(BMI_last_error(), "tcp_connections") != NULL);
    config.tcp_connections = 16;
    CHECK_IS(BMI_initialize(&bmi, &config), 0);
    CHECK_IS(BMI_finalize(bmi), 0);
    config.tcp_connections = 0;
    config.size = 0;
    CHECK_IS(BMI_initialize(&bmi, &config), BMI_EINVAL);
    /* Of an older header: the members behind its end are as if 0. */
    config.size = offsetof(struct bmi_config, eager_limit);
    config.flags = 0x80;
    CHECK_IS(BMI_initialize(&bmi, &config), 0);
    CHECK_IS(BMI_finalize(bmi), 0);
    /* Of a newer one, with members that this library does not know. */
    struct {
        struct bmi_config known;
        uint64_t unknown;
    } newer = {BMI_CONFIG_INIT, 0};
    newer.known.size = sizeof newer;
    CHECK_IS(BMI_initialize(&bmi, &newer.known), 0);
    CHECK_IS(BMI_finalize(bmi), 0);
    newer.unknown = 1;
    CHECK_IS(BMI_initialize(&bmi, &newer.known), BMI_EUNSUPPORTED);
    uint8_t key[32] = {1};
    struct bmi_config keyed = BMI_CONFIG_INIT;
    keyed.key = key;
    keyed.listen = "tcp://127.0.0.1:0";
    keyed.eager_limit = keyed.spin_us = -1;
    keyed.flags = BMI_CLEARTEXT;
    CHECK_IS(BMI_initialize(&bmi, &keyed), 0);
    CHECK_IS(BMI_finalize(bmi), 0);
    CHECK_IS(BMI_finalize(bmi), BMI_EHANDLE);
}

static void pointers_and_sizes(struct layer *layer, bmi_addr_t peer) {
    bmi_t *bmi = layer->bmi;
    bmi_context_t context = layer->context;
    char text[64] = "";
    bmi_op_t op = 77;
    struct bmi_completion done;
    CHECK_IS(BMI_addr_lookup(bmi, NULL, "tcp://127.0.0.1:1"), BMI_EINVAL);
    CHECK_IS(BMI_addr_lookup(bmi, &op, NULL), BMI_EINVAL);
    CHECK_IS(BMI_addr_lookup(bmi, &op, ""), BMI_EADDRESS);
    CHECK_IS(op, 0);
    CHECK(BMI_addr_lookup(bmi, &op, "vi://h/1") == BMI_ENOMETHOD);
    CHECK_IS(BMI_post_send(bmi, &op, peer, NULL, 1, 1, context, NULL), BMI_EINVAL);
    CHECK_IS(BMI_post_send(bmi, &op, peer, text, -1, 1, context, NULL), BMI_EINVAL);
    CHECK_IS(BMI_post_recv(bmi, &op, peer, text, INT64_MAX, NULL, 1, context, NULL), BMI_EINVAL);
    CHECK_IS(BMI_post_send(bmi, &op, peer + 1, text, 1, 1, context, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_post_send(bmi, &op, peer, text, 1, 1, context + 1, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_post_send(bmi, &op, 0, text, 1, 1, context, NULL), BMI_EHANDLE);
    CHECK_IS(BMI_post_send_list(bmi, &op, peer, NULL, 1, 1, context, NULL), BMI_EINVAL);
    struct iovec bad[2] = {{text, 1}, {NULL, 1}};
    CHECK_IS(BMI_post_send_list(bmi, &op, peer, bad, 2, 1, context, NULL), BMI_EINVAL);
    CHECK_IS(BMI_post_send_list(bmi, &op, peer, bad, SIZE_MAX, 1, context, NULL), BMI_ELIMIT);
    CHECK_IS(BMI_test(bmi, 0, &done, 0), BMI_EHANDLE);
    CHECK_IS(BMI_test(bmi, UINT64_MAX, &done, 0), BMI_EHANDLE);
    CHECK_IS(BMI_testcontext(bmi, context, NULL, 1, 0), BMI_EINVAL);
    CHECK_IS(BMI_testcontext(bmi, context, &done, 1, -1), BMI_EINVAL);
    CHECK_IS(BMI_testcontext(bmi, context, NULL, 0, 0), 0);
    CHECK_IS(BMI_testsome(bmi, NULL, 1, &done, 0), BMI_EINVAL);
    CHECK_IS(BMI_testsome(bmi, &op, (size_t)INT_MAX + 1, &done, 0), BMI_ELIMIT);
    CHECK_IS(BMI_testunexpected(bmi, NULL, 1, 0), BMI_EINVAL);
    CHECK_IS(BMI_unexpected_free(NULL), BMI_EINVAL);
    CHECK_IS(BMI_open_context(bmi, NULL), BMI_EINVAL);
    CHECK_IS(BMI_memfree(bmi, text), BMI_EINVAL);
    CHECK_IS(BMI_memfree(bmi, NULL), 0);
    CHECK_IS(BMI_register(bmi, NULL, 1), BMI_EINVAL);
    CHECK_IS(BMI_register(bmi, text, 0), BMI_EINVAL);
    CHECK_IS(BMI_register(bmi, text, -1), BMI_EINVAL);
    CHECK_IS(BMI_register(bmi, text, INT64_MAX), BMI_EINVAL);
    CHECK_IS(BMI_deregister(bmi, NULL), BMI_EINVAL);
    CHECK_IS(BMI_deregister(bmi, text), BMI_EINVAL);
    CHECK_IS(BMI_register(bmi, text, sizeof text), 0);
    CHECK_IS(BMI_register(bmi, text, 1), 0);
    CHECK_IS(BMI_memfree(bmi, text), BMI_EINVAL);
    CHECK_IS(BMI_deregister(bmi, text + 1), BMI_EINVAL);
    CHECK_IS(BMI_deregister(bmi, text), 0);
    CHECK_IS(BMI_deregister(bmi, text), 0);
    CHECK_IS(BMI_deregister(bmi, text), BMI_EINVAL);
    CHECK_IS(BMI_testsome(bmi, NULL, 0, &done, 1000), 0);
    CHECK_IS(BMI_set_info(bmi, 0, 4711, 0), BMI_EINVAL);
    CHECK_IS(BMI_set_info(bmi, peer, BMI_SPIN_US, 10), BMI_EINVAL);
    CHECK_IS(BMI_set_info(bmi, peer, BMI_SERVER, 1), BMI_EINVAL);
    CHECK_IS(BMI_set_info(bmi, peer, BMI_RENDEZVOUS, BMI_PULL), BMI_EINVAL);
    CHECK_IS(BMI_set_info(bmi, peer, BMI_EAGER_LIMIT, 4096), 0);
    CHECK_IS(BMI_get_info(bmi, peer, BMI_UNEXPECTED_LIMIT, &(int64_t){0}), BMI_EINVAL);
    CHECK_IS(BMI_set_info(bmi, 0, BMI_EAGER_LIMIT, -1), BMI_EINVAL);
    int64_t value;
    CHECK_IS(BMI_get_info(bmi, 0, 4711, &value), BMI_EINVAL);
    CHECK_IS(BMI_get_info(bmi, peer + 1, BMI_CONNECTED, &value), BMI_EHANDLE);
    CHECK_IS(BMI_get_info(bmi, 0, BMI_CONNECTED, NULL), BMI_EINVAL);
    /* Texts are cut off, and their whole length is returned. */
    int length = BMI_addr_rev_lookup(bmi, peer, NULL, 0);
    CHECK(length > 8);
    CHECK_IS(BMI_addr_rev_lookup(bmi, peer, text, 4), length);
    CHECK(strlen(text) == 3);
    CHECK_IS(BMI_addr_rev_lookup(bmi, peer, NULL, 4), BMI_EINVAL);
}

/* No size ends the program, for every kind of memory. */
static void sizes_of_memory(struct layer *layer, bmi_addr_t self) {
    static const char *const others[] = {"tcp://127.0.0.1:1", "udp://127.0.0.1:1", "shm:///nowhere/s"};
    static const int64_t sizes[] = {INT64_MAX, INT64_MAX - 4096, (int64_t)1 << 62, (int64_t)1 << 46};
    for (size_t at = 0; at < 4; at++) {
        bmi_addr_t addr = at < 3 ? look_up(layer, others[at]) : self;
        void *memory = layer;
        for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
            CHECK_IS(BMI_memalloc(layer->bmi, addr, sizes[size], &memory), BMI_ESYSTEM);
            CHECK(memory == NULL);
            CHECK(strstr(BMI_last_error(), "memory") != NULL);
        }
        CHECK_IS(BMI_memalloc(layer->bmi, addr, -1, &memory), BMI_EINVAL);
        CHECK_IS(BMI_memalloc(layer->bmi, addr, 100000, &memory), 0);
        fill(memory, 100000, 1);
        CHECK_IS(BMI_memfree(layer->bmi, memory), 0);
        if (at < 3) CHECK_IS(BMI_addr_release(layer->bmi, addr), 0);
    }
}

static void *sleep_inside(void *layer_) {
    struct layer *layer = layer_;
    struct bmi_completion done;
    CHECK_IS(BMI_testcontext(layer->bmi, layer->context, &done, 1, 100LL * SECOND_US), 0);
    return NULL;
}

/* While one thread sleeps inside, another may call, and wake it. */
static void threads(struct layer *layer) {
    pthread_t sleeper;
    char text[512];
    CHECK(pthread_create(&sleeper, NULL, sleep_inside, layer) == 0);
    for (int n = 0; n < 20; n++) {
        CHECK(BMI_listening(layer->bmi, text, sizeof text) >= 0);
        usleep(1000);
    }
    CHECK_IS(BMI_wake(layer->bmi), 0);
    CHECK(pthread_join(sleeper, NULL) == 0);
    CHECK(BMI_listening(layer->bmi, text, sizeof text) >= 0);
}

static struct layer *signalled;

static void on_alarm(int number) {
    (void)number;
    int saved = errno;
    BMI_wake(signalled->bmi);
    errno = saved;
}

static void wake_by_signal(struct layer *layer) {
    signalled = layer;
    CHECK(signal(SIGUSR1, on_alarm) != SIG_ERR);
    pid_t self = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        usleep(50000);
        kill(self, SIGUSR1);
        _exit(0);
    }
    CHECK_IS(BMI_wait(layer->bmi, layer->context, 100LL * SECOND_US), 0);
    CHECK(waitpid(child, NULL, 0) == child);
}

int main(int argc, char **argv) {
    const char *listen = begin(argc, argv);
    CHECK(BMI_last_error()[0] == '\0');
    for (int code = 1; code > -40; code--) CHECK(BMI_strerror(code)[0] != '\0');
    refuse(NULL);
    refuse((bmi_t *)(uintptr_t)0x7fffdeadbeef);
    refuse((bmi_t *)(uintptr_t)UINTPTR_MAX);
    configurations();
    struct layer layer = open_layer(listen), other = open_layer(NULL);
    char own[512];
    CHECK(BMI_listening(layer.bmi, own, sizeof own) > 0);
    bmi_addr_t self = look_up(&layer, own);
    pointers_and_sizes(&layer, self);
    sizes_of_memory(&layer, self);
    threads(&layer);
    wake_by_signal(&layer);
    /* Instances are separate, and a handle of one that is gone is not taken for a later one. */
    CHECK(layer.bmi != other.bmi);
    bmi_t *gone = other.bmi;
    close_layer(&other);
    other = open_layer(NULL);
    CHECK(other.bmi != gone);
    refuse(gone);
    /* To oneself. */
    char in[5] = "";
    bmi_op_t op;
    int rc = BMI_post_recv(layer.bmi, &op, self, in, 5, NULL, 1, layer.context, NULL);
    CHECK_IS(send_to(&layer, self, "self", 5, 1), 5);
    CHECK_IS(finish(&layer, rc, op, 5), 5);
    CHECK(strcmp(in, "self") == 0);
    CHECK_IS(BMI_addr_release(layer.bmi, self), 0);
    close_layer(&other);
    close_layer(&layer);
    return 0;
}
