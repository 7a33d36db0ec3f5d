/* What the C tests share: checks that end the program, waits that end, and a peer in another process. */
#ifndef COMMON_H
#define COMMON_H

#include <causeway/bmi.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SECOND_US 1000000
/* Longer than anything takes on a slow machine; a program that hangs is ended by it. */
#define LIMIT_S 120

/* The program's present place, for the handler of the alarm, and the server that it waits for. */
static const char *volatile check_file = "";
static volatile sig_atomic_t check_line;
static volatile pid_t server_pid;

/* Prints where the program hangs, has its server print the same, and ends it. */
static inline void report_hang(int signal_) {
    char text[256];
    int length = snprintf(text, sizeof text, "process %d hangs; the last check begun is %s:%d\n", (int)getpid(),
                          check_file, (int)check_line);
    if (write(STDERR_FILENO, text, (size_t)length) != length) _exit(2);
    if (server_pid > 0) {
        kill(server_pid, signal_);
        sleep(1);
    }
    signal(signal_, SIG_DFL);
    raise(signal_);
}

static inline void limit_time(void) {
    signal(SIGALRM, report_hang);
    alarm(LIMIT_S);
}

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        check_file = __FILE__, check_line = __LINE__;                                             \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s; the last error: %s\n", __FILE__, __LINE__, #condition,    \
                    BMI_last_error());                                                            \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#define CHECK_IS(expression, expected)                                                            \
    do {                                                                                          \
        check_file = __FILE__, check_line = __LINE__;                                             \
        long long is_ = (long long)(expression);                                                  \
        if (is_ != (long long)(expected)) {                                                       \
            fprintf(stderr, "%s:%d: %s is %lld, not %s; the last error: %s\n", __FILE__,          \
                    __LINE__, #expression, is_, #expected, BMI_last_error());                     \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* An instance with a context. */
struct layer {
    bmi_t *bmi;
    bmi_context_t context;
};

static inline struct layer open_layer(const char *listen) {
    struct layer layer;
    struct bmi_config config = BMI_CONFIG_INIT;
    config.listen = listen;
    CHECK_IS(BMI_initialize(&layer.bmi, &config), 0);
    CHECK_IS(BMI_open_context(layer.bmi, &layer.context), 0);
    return layer;
}

static inline void close_layer(struct layer *layer) {
    CHECK_IS(BMI_close_context(layer->bmi, layer->context), 0);
    CHECK_IS(BMI_finalize(layer->bmi), 0);
}

/* Waits for an operation; returns its bytes or its error. */
static inline int64_t finish(struct layer *layer, int posted, bmi_op_t op, bmi_size_t at_once) {
    struct bmi_completion done;
    if (posted < 0) return posted;
    if (posted == 1) {
        CHECK_IS(op, 0);
        return at_once;
    }
    CHECK(op != 0);
    for (;;) {
        int count = BMI_test(layer->bmi, op, &done, SECOND_US);
        CHECK(count >= 0);
        if (count == 1) break;
    }
    CHECK(done.op == op);
    if (done.error < 0) return done.error;
    int64_t size = done.actual_size;
    CHECK_IS(BMI_test(layer->bmi, op, &done, 0), BMI_EHANDLE);
    return size;
}

static inline int64_t send_to(struct layer *layer, bmi_addr_t to, const void *data,
                              bmi_size_t size, bmi_tag_t tag) {
    bmi_op_t op;
    int rc = BMI_post_send(layer->bmi, &op, to, data, size, tag, layer->context, NULL);
    return finish(layer, rc, op, size);
}

static inline int64_t recv_from(struct layer *layer, bmi_addr_t from, void *into,
                                bmi_size_t size, bmi_tag_t tag) {
    bmi_op_t op;
    bmi_size_t got = -1;
    int rc = BMI_post_recv(layer->bmi, &op, from, into, size, &got, tag, layer->context, NULL);
    return finish(layer, rc, op, got);
}

static inline int64_t send_unexpected(struct layer *layer, bmi_addr_t to, const void *data,
                                      bmi_size_t size, bmi_tag_t tag) {
    bmi_op_t op;
    int rc = BMI_post_sendunexpected(layer->bmi, &op, to, data, size, tag, layer->context, NULL);
    return finish(layer, rc, op, size);
}

static inline struct bmi_unexpected next_unexpected(struct layer *layer) {
    struct bmi_unexpected message;
    int count;
    do {
        count = BMI_testunexpected(layer->bmi, &message, 1, SECOND_US);
        CHECK(count >= 0);
    } while (count == 0);
    return message;
}

static inline bmi_addr_t look_up(struct layer *layer, const char *text) {
    bmi_addr_t addr;
    CHECK_IS(BMI_addr_lookup(layer->bmi, &addr, text), 0);
    CHECK(addr != 0);
    return addr;
}

/* Bytes that differ by place and seed. */
static inline void fill(void *buffer, size_t size, unsigned seed) {
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static inline int is_filled(const void *buffer, size_t size, unsigned seed) {
    const unsigned char *bytes = buffer;
    for (size_t i = 0; i < size; i++)
        if (bytes[i] != (unsigned char)(i * 7 + i / 251 + seed)) return 0;
    return 1;
}

/* A server in another process. */
struct child {
    pid_t pid;
    char address[512];
};

/* Runs `serve` in a child that listens at `listen`; returns when it does. */
static inline struct child start_server(const char *listen, void (*serve)(struct layer *)) {
    struct child child = {0, ""};
    int ends[2];
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    child.pid = fork();
    CHECK(child.pid >= 0);
    if (child.pid == 0) {
        limit_time();
        close(ends[0]);
        struct layer layer = open_layer(listen);
        int length = BMI_listening(layer.bmi, child.address, sizeof child.address);
        CHECK(length > 0 && length < (int)sizeof child.address);
        CHECK(write(ends[1], child.address, (size_t)length) == length);
        close(ends[1]);
        serve(&layer);
        close_layer(&layer);
        exit(0);
    }
    server_pid = child.pid;
    close(ends[1]);
    ssize_t length = read(ends[0], child.address, sizeof child.address - 1);
    CHECK(length > 0);
    close(ends[0]);
    return child;
}

static inline void join(struct child *child) {
    int status;
    CHECK(waitpid(child->pid, &status, 0) == child->pid);
    server_pid = 0;
    CHECK(WIFEXITED(status));
    CHECK_IS(WEXITSTATUS(status), 0);
}

/* Every program is called with an address that a server may listen at. */
static inline const char *begin(int argc, char **argv) {
    CHECK(argc == 2);
    limit_time();
    return argv[1];
}

#endif
