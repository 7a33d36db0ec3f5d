/* Posted operations, and threads that share an instance and a file. */
#include "common.h"

#include <pthread.h>

enum { OPS = 200, BYTES = 20000, THREADS = 4, ROUNDS = 60 };

static void post_and_test(cwfs_t *fs) {
    static char data[OPS][BYTES], back[OPS][BYTES];
    struct cwfs_completion done[16];
    cwfs_op_t op;
    int seen[OPS] = {0};
    cwfs_file_t file = open_file(fs, "/posted", O_CREAT | O_RDWR);
    for (int i = 0; i < OPS; i++) {
        fill(data[i], BYTES, (unsigned)i);
        CHECK_IS(cwfs_post_write(fs, &op, file, data[i], BYTES, (int64_t)i * BYTES, data[i]), 0);
        CHECK(op != 0);
    }
    for (int left = OPS; left > 0;) {
        int count = cwfs_testsome(fs, done, 16, -1);
        CHECK(count > 0 && count <= 16);
        for (int i = 0; i < count; i++) {
            CHECK_IS(done[i].result, BYTES);
            int index = (int)((char(*)[BYTES])done[i].user_ptr - data);
            CHECK(seen[index]++ == 0);
        }
        left -= count;
    }
    /* By another file that is only read, which several clients read at the same time, and by lists. */
    cwfs_file_t reader = open_file(fs, "/posted", O_RDONLY);
    cwfs_op_t ops[OPS];
    for (int i = 0; i < OPS; i++) {
        struct iovec memory[2] = {{back[i] + 5, BYTES - 5}, {back[i], 5}};
        struct cwfs_region regions[2] = {{(int64_t)i * BYTES + 5, BYTES - 5}, {(int64_t)i * BYTES, 5}};
        CHECK_IS(cwfs_post_readx(fs, &ops[i], reader, memory, 2, regions, 2, NULL), 0);
    }
    CHECK_IS(cwfs_close(fs, reader), 0);
    for (int i = OPS - 1; i >= 0; i--) {
        CHECK_IS(cwfs_test(fs, ops[i], &done[0], -1), 1);
        CHECK(done[0].op == ops[i] && done[0].result == BYTES);
        CHECK(is_filled(back[i], BYTES, (unsigned)i));
        CHECK_IS(cwfs_test(fs, ops[i], &done[0], 0), -EBADF);
    }
    CHECK_IS(cwfs_post_read(fs, &op, file, back, 10, (int64_t)OPS * BYTES, NULL), 0);
    CHECK_IS(cwfs_test(fs, op, &done[0], -1), 1);
    CHECK_IS(done[0].result, 0);
    /* One that fails, with its text. */
    reader = open_file(fs, "/posted", O_RDONLY);
    CHECK_IS(cwfs_unlink(fs, "/posted"), 0);
    CHECK_IS(cwfs_post_write(fs, &op, reader, data, 10, 0, &op), 0);
    CHECK_IS(cwfs_test(fs, op, &done[0], -1), 1);
    CHECK(done[0].result == -EBADF && done[0].user_ptr == &op);
    CHECK_IS(cwfs_close(fs, reader), 0);
    CHECK(strlen(cwfs_last_error()) > 0);
    CHECK_IS(cwfs_testsome(fs, done, 16, -1), 0);
    /* Posted operations do not keep the instance from ending. */
    for (int i = 0; i < 50; i++) CHECK_IS(cwfs_post_read(fs, &op, file, back, 10, 0, NULL), 0);
}

static cwfs_t *shared;
static cwfs_file_t shared_file;

static void *work(void *argument) {
    unsigned number = (unsigned)(size_t)argument;
    char path[32], data[3000], back[3000];
    snprintf(path, sizeof path, "/thread%u", number);
    for (unsigned i = 0; i < ROUNDS; i++) {
        int64_t at = (int64_t)(number * ROUNDS + i) * (int64_t)sizeof data;
        fill(data, sizeof data, number + i);
        CHECK_IS(cwfs_pwrite(shared, shared_file, data, sizeof data, at), sizeof data);
        CHECK_IS(cwfs_pread(shared, shared_file, back, sizeof back, at), sizeof back);
        CHECK(is_filled(back, sizeof back, number + i));
        cwfs_file_t own = open_file(shared, path, O_CREAT | O_RDWR | O_TRUNC);
        CHECK_IS(cwfs_write(shared, own, data, sizeof data), sizeof data);
        CHECK_IS(cwfs_close(shared, own), 0);
    }
    CHECK_IS(cwfs_unlink(shared, path), 0);
    return NULL;
}

int main(int argc, char **argv) {
    cwfs_t *fs = begin(argc, argv);
    pthread_t threads[THREADS];
    shared = fs;
    shared_file = open_file(fs, "/shared", O_CREAT | O_RDWR);
    for (size_t i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    struct cwfs_stat stat;
    CHECK_IS(cwfs_fstat(fs, shared_file, &stat), 0);
    CHECK_IS(stat.size, THREADS * ROUNDS * 3000);
    post_and_test(fs);
    CHECK_IS(cwfs_disconnect(fs), 0);
    return 0;
}
