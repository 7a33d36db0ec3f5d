/* What the C tests share: checks that end the program, and waits that end. */
#ifndef COMMON_H
#define COMMON_H

#include <causeway/fs.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Longer than anything takes on a slow machine; a program that hangs is ended by it. */
#define LIMIT_S 120

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s; the last error: %s\n", __FILE__, __LINE__, #condition,    \
                    cwfs_last_error());                                                           \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#define CHECK_IS(expression, expected)                                                            \
    do {                                                                                          \
        long long is_ = (long long)(expression);                                                  \
        if (is_ != (long long)(expected)) {                                                       \
            fprintf(stderr, "%s:%d: %s is %lld, not %s; the last error: %s\n", __FILE__,          \
                    __LINE__, #expression, is_, #expected, cwfs_last_error());                    \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* Every program is called with the configuration file. */
static inline cwfs_t *begin(int argc, char **argv) {
    cwfs_t *fs;
    CHECK(argc == 2);
    alarm(LIMIT_S);
    CHECK_IS(cwfs_connect(&fs, argv[1], NULL), 0);
    return fs;
}

static inline cwfs_file_t open_file(cwfs_t *fs, const char *path, int flags) {
    cwfs_file_t file;
    CHECK_IS(cwfs_open(fs, &file, path, flags, 0644), 0);
    CHECK(file != 0);
    return file;
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

#endif
