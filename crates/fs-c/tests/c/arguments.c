/* Mistakes of C programs: null pointers, closed and invented handles, sizes, texts. */
#include "common.h"

/* Every call refuses a handle that is none, before it reads the other arguments. */
static void refuse(cwfs_t *fs) {
    char text[8];
    uint64_t number = 0;
    struct cwfs_stat stat;
    struct cwfs_statfs state;
    struct cwfs_dirent entry;
    struct cwfs_completion done;
    struct iovec memory = {text, 1};
    struct cwfs_region region = {0, 1};
    CHECK_IS(cwfs_disconnect(fs), -EBADF);
    CHECK_IS(cwfs_open(fs, &number, "/x", O_RDONLY, 0), -EBADF);
    CHECK_IS(cwfs_creat(fs, &number, "/x", 0), -EBADF);
    CHECK_IS(cwfs_close(fs, 1), -EBADF);
    CHECK_IS(cwfs_read(fs, 1, text, 1), -EBADF);
    CHECK_IS(cwfs_write(fs, 1, text, 1), -EBADF);
    CHECK_IS(cwfs_pread(fs, 1, text, 1, 0), -EBADF);
    CHECK_IS(cwfs_pwrite(fs, 1, text, 1, 0), -EBADF);
    CHECK_IS(cwfs_readx(fs, 1, &memory, 1, &region, 1), -EBADF);
    CHECK_IS(cwfs_writex(fs, 1, &memory, 1, &region, 1), -EBADF);
    CHECK_IS(cwfs_lseek(fs, 1, 0, SEEK_SET), -EBADF);
    CHECK_IS(cwfs_ftruncate(fs, 1, 0), -EBADF);
    CHECK_IS(cwfs_fallocate(fs, 1, 0, 0, 1), -EBADF);
    CHECK_IS(cwfs_fsync(fs, 1), -EBADF);
    CHECK_IS(cwfs_post_read(fs, &number, 1, text, 1, 0, NULL), -EBADF);
    CHECK_IS(cwfs_post_write(fs, &number, 1, text, 1, 0, NULL), -EBADF);
    CHECK_IS(cwfs_post_readx(fs, &number, 1, &memory, 1, &region, 1, NULL), -EBADF);
    CHECK_IS(cwfs_post_writex(fs, &number, 1, &memory, 1, &region, 1, NULL), -EBADF);
    CHECK_IS(cwfs_test(fs, 1, &done, 0), -EBADF);
    CHECK_IS(cwfs_fstat(fs, 1, &stat), -EBADF);
    CHECK_IS(cwfs_opendir(fs, &number, "/", 0), -EBADF);
    CHECK_IS(cwfs_readdir(fs, 1, &entry), -EBADF);
    CHECK_IS(cwfs_closedir(fs, 1), -EBADF);
    CHECK_IS(cwfs_testsome(fs, &done, 1, 0), -EBADF);
    CHECK_IS(cwfs_stat(fs, "/", &stat), -EBADF);
    CHECK_IS(cwfs_lstat(fs, "/", &stat), -EBADF);
    CHECK_IS(cwfs_truncate(fs, "/x", 0), -EBADF);
    CHECK_IS(cwfs_mkdir(fs, "/x", 0755), -EBADF);
    CHECK_IS(cwfs_rmdir(fs, "/x"), -EBADF);
    CHECK_IS(cwfs_unlink(fs, "/x"), -EBADF);
    CHECK_IS(cwfs_rename(fs, "/x", "/y", 0), -EBADF);
    CHECK_IS(cwfs_link(fs, "/x", "/y"), -EBADF);
    CHECK_IS(cwfs_symlink(fs, "x", "/y"), -EBADF);
    CHECK_IS(cwfs_readlink(fs, "/x", text, sizeof text), -EBADF);
    CHECK_IS(cwfs_chmod(fs, "/x", 0755), -EBADF);
    CHECK_IS(cwfs_chown(fs, "/x", 0, 0, 0), -EBADF);
    CHECK_IS(cwfs_utimens(fs, "/x", NULL, 0), -EBADF);
    CHECK_IS(cwfs_statfs(fs, &state), -EBADF);
    CHECK_IS(cwfs_sync(fs), -EBADF);
}

static void connecting(const char *config) {
    struct cwfs_options options = CWFS_OPTIONS_INIT;
    cwfs_t *fs = (cwfs_t *)&options;
    CHECK_IS(cwfs_connect(NULL, config, NULL), -EINVAL);
    CHECK_IS(cwfs_connect(&fs, "/nonexistent/causeway.toml", NULL), -EINVAL);
    CHECK(fs == NULL && strstr(cwfs_last_error(), "/nonexistent/causeway.toml") != NULL);
    CHECK_IS(cwfs_connect(&fs, "", NULL), -ENOENT);
    CHECK_IS(cwfs_connect(&fs, "/dev/null", NULL), -EINVAL);
    options.size = 3;
    CHECK_IS(cwfs_connect(&fs, config, &options), -EINVAL);
    options.size = sizeof options;
    options.clients = 100000;
    CHECK_IS(cwfs_connect(&fs, config, &options), -EINVAL);
    options.clients = 1;
    options.timeout_us = -1;
    CHECK_IS(cwfs_connect(&fs, config, &options), -EINVAL);
    options.timeout_us = 0;
    options.reserved = 1;
    CHECK_IS(cwfs_connect(&fs, config, &options), -EINVAL);
    struct {
        struct cwfs_options known;
        uint64_t later;
    } newer = {CWFS_OPTIONS_INIT, 0};
    newer.known.size = sizeof newer;
    CHECK_IS(cwfs_connect(&fs, config, &newer.known), 0);
    CHECK_IS(cwfs_disconnect(fs), 0);
    newer.later = 1;
    CHECK_IS(cwfs_connect(&fs, config, &newer.known), -EOPNOTSUPP);
    options.reserved = 0;
    options.size = sizeof(size_t);
    CHECK_IS(cwfs_connect(&fs, config, &options), 0);
    CHECK_IS(cwfs_disconnect(fs), 0);
    refuse(fs);
}

static void pointers(cwfs_t *fs) {
    static char large[5000];
    char text[8];
    uint64_t number = 7;
    struct cwfs_stat stat;
    CHECK_IS(cwfs_open(fs, NULL, "/x", O_RDONLY, 0), -EINVAL);
    CHECK_IS(cwfs_open(fs, &number, NULL, O_RDONLY, 0), -EINVAL);
    CHECK_IS(number, 0);
    CHECK_IS(cwfs_open(fs, &number, "", O_RDONLY, 0), -ENOENT);
    CHECK_IS(cwfs_open(fs, &number, "/x", O_ACCMODE, 0), -EINVAL);
    CHECK_IS(cwfs_open(fs, &number, "/x", O_RDONLY | O_TRUNC, 0), -EINVAL);
    CHECK_IS(cwfs_open(fs, &number, "/x", O_RDWR | O_DIRECTORY, 0), -EINVAL);
    CHECK_IS(cwfs_open(fs, &number, "/x", O_RDWR | O_CREAT, 0100000), -EINVAL);
    memset(large, 'x', sizeof large - 1);
    CHECK_IS(cwfs_stat(fs, large, &stat), -ENAMETOOLONG);
    CHECK_IS(cwfs_stat(fs, "/", NULL), -EINVAL);
    CHECK_IS(cwfs_stat(fs, NULL, &stat), -EINVAL);
    CHECK_IS(cwfs_fstat(fs, 99, &stat), -EBADF);
    CHECK_IS(cwfs_mkdir(fs, "/x", 0200000), -EINVAL);
    CHECK_IS(cwfs_rename(fs, "/x", NULL, 0), -EINVAL);
    CHECK_IS(cwfs_rename(fs, "/x", "/y", 77), -EINVAL);
    CHECK_IS(cwfs_link(fs, NULL, "/y"), -EINVAL);
    CHECK_IS(cwfs_symlink(fs, NULL, "/y"), -EINVAL);
    CHECK_IS(cwfs_chown(fs, "/", 0, 0, 77), -EINVAL);
    struct cwfs_time wrong[2] = {{0, -1}, {0, 0}};
    CHECK_IS(cwfs_utimens(fs, "/", wrong, 0), -EINVAL);
    CHECK_IS(cwfs_statfs(fs, NULL), -EINVAL);
    CHECK_IS(cwfs_opendir(fs, NULL, "/", 0), -EINVAL);
    CHECK_IS(cwfs_opendir(fs, &number, "/none", 0), -ENOENT);
    CHECK_IS(cwfs_readdir(fs, 99, NULL), -EBADF);

    cwfs_file_t file = open_file(fs, "/x", O_CREAT | O_RDWR);
    CHECK_IS(cwfs_opendir(fs, &number, "/x", 0), -ENOTDIR);
    CHECK_IS(cwfs_read(fs, file, NULL, 1), -EINVAL);
    CHECK_IS(cwfs_read(fs, file, NULL, 0), 0);
    CHECK_IS(cwfs_write(fs, file, NULL, 0), 0);
    CHECK_IS(cwfs_write(fs, file, "x", SIZE_MAX), -EINVAL);
    CHECK_IS(cwfs_pread(fs, file, text, 1, -1), -EINVAL);
    CHECK_IS(cwfs_pwrite(fs, file, text, 1, INT64_MIN), -EINVAL);
    CHECK_IS(cwfs_lseek(fs, file, -1, SEEK_SET), -EINVAL);
    CHECK_IS(cwfs_lseek(fs, file, 0, 77), -EINVAL);
    CHECK_IS(cwfs_ftruncate(fs, file, -1), -EINVAL);
    CHECK_IS(cwfs_fallocate(fs, file, 0, -1, 1), -EINVAL);
    CHECK_IS(cwfs_fallocate(fs, file, 0, 0, 0), -EINVAL);
    CHECK_IS(cwfs_fallocate(fs, file, 0, INT64_MAX, 1), -EFBIG);
    CHECK_IS(cwfs_fallocate(fs, file, 0x08, 0, 4096), -EOPNOTSUPP);
    CHECK_IS(cwfs_fallocate(fs, file, -1, 0, 4096), -EOPNOTSUPP);
    struct iovec memory = {text, 1};
    struct cwfs_region region = {0, -1};
    CHECK_IS(cwfs_writex(fs, file, &memory, 1, &region, 1), -EINVAL);
    region = (struct cwfs_region){-1, 1};
    CHECK_IS(cwfs_writex(fs, file, &memory, 1, &region, 1), -EINVAL);
    region = (struct cwfs_region){0, 1};
    CHECK_IS(cwfs_writex(fs, file, NULL, 1, &region, 1), -EINVAL);
    CHECK_IS(cwfs_writex(fs, file, &memory, SIZE_MAX, &region, 1), -EINVAL);
    CHECK_IS(cwfs_readx(fs, file, &memory, 1, NULL, 1), -EINVAL);
    struct iovec nowhere = {NULL, 1};
    CHECK_IS(cwfs_readx(fs, file, &nowhere, 1, &region, 1), -EINVAL);
    CHECK_IS(cwfs_post_read(fs, NULL, file, text, 1, 0, NULL), -EINVAL);
    CHECK_IS(cwfs_post_read(fs, &number, file, NULL, 1, 0, NULL), -EINVAL);
    CHECK_IS(number, 0);
    CHECK_IS(cwfs_test(fs, 1, NULL, 0), -EINVAL);
    struct cwfs_completion done;
    CHECK_IS(cwfs_test(fs, 1, &done, 0), -EBADF);
    CHECK_IS(cwfs_testsome(fs, &done, -1, 0), -EINVAL);
    CHECK_IS(cwfs_testsome(fs, &done, 1, -1), 0);
    CHECK_IS(cwfs_readlink(fs, "/x", NULL, 1), -EINVAL);
    CHECK_IS(cwfs_close(fs, file), 0);
    CHECK_IS(cwfs_close(fs, file), -EBADF);
    CHECK_IS(cwfs_read(fs, file, text, 1), -EBADF);
}

static void texts(cwfs_t *fs) {
    struct cwfs_stat stat;
    CHECK(strcmp(cwfs_strerror(0), "no error") == 0 && strcmp(cwfs_strerror(5), "no error") == 0);
    CHECK(strcmp(cwfs_strerror(-ENOENT), "no such file or directory") == 0);
    CHECK(strstr(cwfs_strerror(-12345), "later version") != NULL);
    CHECK(strstr(cwfs_strerror(-ENOTRECOVERABLE), "bug") != NULL);
    CHECK_IS(cwfs_stat(fs, "/no\nsuch\x1b[31mname", &stat), -ENOENT);
    CHECK(strstr(cwfs_last_error(), "such") != NULL && strpbrk(cwfs_last_error(), "\n\x1b") == NULL);
    CHECK(strchr(cwfs_version(), '.') != NULL);
}

int main(int argc, char **argv) {
    CHECK(strcmp(cwfs_last_error(), "") == 0);
    cwfs_t *fs = begin(argc, argv);
    connecting(argv[1]);
    refuse(NULL);
    refuse((cwfs_t *)&fs);
    pointers(fs);
    texts(fs);
    CHECK_IS(cwfs_disconnect(fs), 0);
    refuse(fs);
    return 0;
}
