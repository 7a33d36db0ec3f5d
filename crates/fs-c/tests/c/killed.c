/* A server is killed while the program works, and started again: errors in time, then work. */
#include "common.h"

static void say(const char *text) {
    puts(text);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static char data[3 << 20];
    struct cwfs_options options = CWFS_OPTIONS_INIT;
    struct cwfs_completion done;
    cwfs_op_t op;
    cwfs_t *fs;
    CHECK(argc == 2);
    alarm(LIMIT_S);
    options.timeout_us = 1000000;
    CHECK_IS(cwfs_connect(&fs, argv[1], &options), 0);
    cwfs_file_t file = open_file(fs, "/file", O_CREAT | O_RDWR);
    fill(data, sizeof data, 1);
    CHECK_IS(cwfs_pwrite(fs, file, data, sizeof data, 0), sizeof data);
    say("ready");
    CHECK(getchar() == '\n');
    CHECK_IS(cwfs_post_read(fs, &op, file, data, sizeof data, 0, NULL), 0);
    int64_t rc = cwfs_pwrite(fs, file, data, sizeof data, 0);
    CHECK(rc == -ECONNREFUSED || rc == -EHOSTUNREACH || rc == -ETIMEDOUT || rc == -ECONNRESET);
    CHECK(strstr(cwfs_last_error(), "causeway fs ping") != NULL);
    CHECK_IS(cwfs_test(fs, op, &done, -1), 1);
    CHECK(done.result < 0);
    say("failed");
    CHECK(getchar() == '\n');
    while ((rc = cwfs_pwrite(fs, file, data, sizeof data, 0)) < 0) CHECK(rc != -EIO);
    CHECK_IS(cwfs_pread(fs, file, data, sizeof data, 0), sizeof data);
    say("went on");
    CHECK_IS(cwfs_disconnect(fs), 0);
    return 0;
}
