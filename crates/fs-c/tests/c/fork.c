/* A child of fork() is told that the instance is its parent's, cannot disturb it, and may have its own. */
#include "common.h"

#include <memcheck.h>

static void play_child(cwfs_t *fs, cwfs_file_t file, const char *config) {
    struct cwfs_stat stat;
    struct cwfs_completion done;
    cwfs_op_t op;
    cwfs_t *own;
    char text[4];
    CHECK_IS(cwfs_stat(fs, "/", &stat), -EBADF);
    CHECK(strstr(cwfs_last_error(), "parent") != NULL);
    CHECK_IS(cwfs_write(fs, file, "child", 5), -EBADF);
    CHECK_IS(cwfs_post_read(fs, &op, file, text, 4, 0, NULL), -EBADF);
    CHECK_IS(cwfs_testsome(fs, &done, 1, -1), -EBADF);
    CHECK_IS(cwfs_close(fs, file), -EBADF);
    CHECK_IS(cwfs_disconnect(fs), -EBADF);
    CHECK_IS(cwfs_connect(&own, config, NULL), 0);
    CHECK(own != fs);
    CHECK_IS(cwfs_mkdir(own, "/of-the-child", 0755), 0);
    CHECK_IS(cwfs_stat(fs, "/", &stat), -EBADF);
    CHECK(strstr(cwfs_last_error(), "parent") != NULL);
    CHECK_IS(cwfs_disconnect(own), 0);
}

int main(int argc, char **argv) {
    cwfs_t *fs = begin(argc, argv);
    struct cwfs_completion done;
    struct cwfs_stat stat;
    cwfs_op_t op;
    char text[8];
    int status;
    cwfs_file_t file = open_file(fs, "/file", O_CREAT | O_RDWR);
    CHECK_IS(cwfs_write(fs, file, "parent", 6), 6);
    /* With threads of the library's that exist and wait. */
    CHECK_IS(cwfs_post_read(fs, &op, file, text, 6, 0, NULL), 0);
    CHECK_IS(cwfs_test(fs, op, &done, -1), 1);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        look_for_no_leaks();
        play_child(fs, file, argv[1]);
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    CHECK_IS(WEXITSTATUS(status), 0);
    /* The child's calls have changed nothing in the parent. */
    CHECK_IS(cwfs_stat(fs, "/of-the-child", &stat), 0);
    CHECK_IS(cwfs_post_read(fs, &op, file, text, 6, 0, NULL), 0);
    CHECK_IS(cwfs_test(fs, op, &done, -1), 1);
    CHECK(done.result == 6 && memcmp(text, "parent", 6) == 0);
    CHECK_IS(cwfs_disconnect(fs), 0);
    return 0;
}
