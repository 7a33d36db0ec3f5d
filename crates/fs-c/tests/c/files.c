/* Files, names, attributes and directories, as a program uses them. */
#include "common.h"

enum { LARGE = 3 << 20 };

static void contents(cwfs_t *fs) {
    char *data = malloc(LARGE), *back = malloc(LARGE + 10);
    struct cwfs_stat stat;
    fill(data, LARGE, 1);
    cwfs_file_t file = open_file(fs, "/large", O_CREAT | O_EXCL | O_RDWR);
    CHECK_IS(cwfs_write(fs, file, data, 1000), 1000);
    CHECK_IS(cwfs_write(fs, file, data + 1000, LARGE - 1000), LARGE - 1000);
    CHECK_IS(cwfs_lseek(fs, file, 0, SEEK_CUR), LARGE);
    CHECK_IS(cwfs_read(fs, file, back, 10), 0);
    CHECK_IS(cwfs_lseek(fs, file, -10, SEEK_END), LARGE - 10);
    CHECK_IS(cwfs_read(fs, file, back, 100), 10);
    CHECK_IS(cwfs_lseek(fs, file, 0, SEEK_SET), 0);
    CHECK_IS(cwfs_read(fs, file, back, LARGE + 10), LARGE);
    CHECK(is_filled(back, LARGE, 1));
    CHECK_IS(cwfs_pwrite(fs, file, "xyz", 3, 5), 3);
    CHECK_IS(cwfs_pread(fs, file, back, 5, 4), 5);
    CHECK(back[0] == data[4] && memcmp(back + 1, "xyz", 3) == 0 && back[4] == data[8]);
    CHECK_IS(cwfs_fsync(fs, file), 0);
    CHECK_IS(cwfs_fstat(fs, file, &stat), 0);
    CHECK(stat.size == LARGE && S_ISREG(stat.mode) && (stat.mode & 07777) == 0644 && stat.links == 1);
    CHECK(stat.servers >= 1 && stat.strip_size >= 4096);
    CHECK_IS(cwfs_ftruncate(fs, file, 10), 0);
    CHECK_IS(cwfs_pread(fs, file, back, 100, 0), 10);
    CHECK_IS(cwfs_truncate(fs, "/large", 20), 0);
    CHECK_IS(cwfs_pread(fs, file, back, 100, 0), 20);
    CHECK(back[19] == 0);
    CHECK_IS(cwfs_close(fs, file), 0);
    /* Far behind the end, and back again from there. */
    file = open_file(fs, "/far", O_CREAT | O_RDWR);
    int64_t far = (int64_t)1 << 41;
    CHECK_IS(cwfs_pwrite(fs, file, "end", 3, far), 3);
    CHECK_IS(cwfs_pread(fs, file, back, 10, far - 2), 5);
    CHECK(memcmp(back, "\0\0end", 5) == 0);
    CHECK_IS(cwfs_pwrite(fs, file, "12345678", 8, INT64_MAX - 5), -EFBIG);
    CHECK_IS(cwfs_lseek(fs, file, INT64_MAX, SEEK_END), -EINVAL);
    CHECK_IS(cwfs_close(fs, file), 0);
    CHECK_IS(cwfs_unlink(fs, "/far"), 0);
    free(data);
    free(back);
}

/* Made, found and zeroed. */
static void holes(cwfs_t *fs) {
    const int KEEP_SIZE = 1, PUNCH_HOLE = 2, ZERO_RANGE = 0x10;
    /* Linux's numbers of SEEK_DATA and SEEK_HOLE. */
    const int DATA = 3, HOLE = 4;
    char *data = malloc(LARGE), *back = malloc(LARGE);
    struct cwfs_stat stat;
    uint64_t stored;
    fill(data, LARGE, 3);
    cwfs_file_t file = open_file(fs, "/holes", O_CREAT | O_RDWR);
    CHECK_IS(cwfs_write(fs, file, data, LARGE), LARGE);
    CHECK_IS(cwfs_lseek(fs, file, 5, HOLE), LARGE);
    CHECK_IS(cwfs_stored(fs, file, &stored), 0);
    CHECK(stored == LARGE);
    CHECK_IS(cwfs_stored(fs, file, NULL), -EINVAL);
    CHECK_IS(cwfs_fallocate(fs, file, PUNCH_HOLE | KEEP_SIZE, 65536, 1 << 20), 0);
    CHECK_IS(cwfs_lseek(fs, file, 5, HOLE), 65536);
    CHECK_IS(cwfs_stored(fs, file, &stored), 0);
    CHECK(stored % 4096 == 0 && stored >= LARGE - (1 << 20) && stored < LARGE);
    CHECK_IS(cwfs_lseek(fs, file, 65536, DATA), 65536 + (1 << 20));
    CHECK_IS(cwfs_lseek(fs, file, 0, SEEK_CUR), 65536 + (1 << 20));
    CHECK_IS(cwfs_fallocate(fs, file, ZERO_RANGE | KEEP_SIZE, LARGE - 10, 100), 0);
    memset(data + 65536, 0, 1 << 20);
    memset(data + LARGE - 10, 0, 10);
    CHECK_IS(cwfs_pread(fs, file, back, LARGE, 0), LARGE);
    CHECK(memcmp(back, data, LARGE) == 0);
    CHECK_IS(cwfs_fallocate(fs, file, KEEP_SIZE, LARGE, 1000), 0);
    CHECK_IS(cwfs_fstat(fs, file, &stat), 0);
    CHECK(stat.size == LARGE);
    CHECK_IS(cwfs_fallocate(fs, file, 0, LARGE, 1000), 0);
    CHECK_IS(cwfs_fstat(fs, file, &stat), 0);
    CHECK(stat.size == LARGE + 1000);
    CHECK_IS(cwfs_lseek(fs, file, LARGE + 1000, DATA), -ENXIO);
    CHECK_IS(cwfs_close(fs, file), 0);
    file = open_file(fs, "/holes", O_RDONLY);
    CHECK_IS(cwfs_fallocate(fs, file, 0, 0, 1), -EBADF);
    CHECK_IS(cwfs_close(fs, file), 0);
    free(data);
    free(back);
}

/* Pipes, sockets and devices are names here. */
static void special(cwfs_t *fs) {
    struct cwfs_stat stat;
    cwfs_file_t file;
    CHECK_IS(cwfs_mknod(fs, "/pipe", S_IFIFO | 0640, 0), 0);
    CHECK_IS(cwfs_lstat(fs, "/pipe", &stat), 0);
    CHECK(stat.mode == (S_IFIFO | 0640) && stat.size == 0 && stat.servers == 0);
    CHECK_IS(cwfs_mknod(fs, "/pipe", S_IFSOCK | 0600, 0), -EEXIST);
    CHECK_IS(cwfs_mknod(fs, "/x", S_IFREG | 0600, 0), -EINVAL);
    CHECK_IS(cwfs_mknod(fs, "/x", S_IFIFO | 0600, 5), -EINVAL);
    CHECK_IS(cwfs_device(fs, "/pipe"), -ENODEV);
    CHECK_IS(cwfs_open(fs, &file, "/pipe", O_RDONLY, 0), -ENXIO);
    CHECK_IS(cwfs_open(fs, &file, "/pipe", O_WRONLY | O_CREAT, 0644), -ENXIO);
    CHECK_IS(cwfs_open(fs, &file, "/pipe", O_WRONLY | O_CREAT | O_EXCL, 0644), -EEXIST);
    CHECK_IS(cwfs_unlink(fs, "/pipe"), 0);
    if (geteuid() == 0) {
        CHECK_IS(cwfs_mknod(fs, "/device", S_IFCHR | 0600, 0x103), 0);
        CHECK_IS(cwfs_device(fs, "/device"), 0x103);
        CHECK_IS(cwfs_unlink(fs, "/device"), 0);
    } else {
        CHECK_IS(cwfs_mknod(fs, "/device", S_IFCHR | 0600, 0x103), -EPERM);
    }
}

static void xattrs(cwfs_t *fs) {
    const int CREATE = 1, REPLACE = 2;
    char back[64];
    CHECK_IS(cwfs_close(fs, open_file(fs, "/attributed", O_CREAT | O_WRONLY)), 0);
    CHECK_IS(cwfs_setxattr(fs, "/attributed", "user.a", "value", 5, CREATE), 0);
    CHECK_IS(cwfs_setxattr(fs, "/attributed", "user.a", "value", 5, CREATE), -EEXIST);
    CHECK_IS(cwfs_setxattr(fs, "/attributed", "user.b", NULL, 0, REPLACE), -ENODATA);
    CHECK_IS(cwfs_setxattr(fs, "/attributed", "user.b", NULL, 0, 0), 0);
    CHECK_IS(cwfs_getxattr(fs, "/attributed", "user.a", NULL, 0), 5);
    CHECK_IS(cwfs_getxattr(fs, "/attributed", "user.a", back, 4), -ERANGE);
    CHECK_IS(cwfs_getxattr(fs, "/attributed", "user.a", back, sizeof back), 5);
    CHECK(memcmp(back, "value", 5) == 0);
    CHECK_IS(cwfs_getxattr(fs, "/attributed", "user.b", back, sizeof back), 0);
    CHECK_IS(cwfs_listxattr(fs, "/attributed", back, sizeof back), 14);
    CHECK(memcmp(back, "user.a\0user.b", 14) == 0);
    CHECK_IS(cwfs_removexattr(fs, "/attributed", "user.a"), 0);
    CHECK_IS(cwfs_removexattr(fs, "/attributed", "user.a"), -ENODATA);
    CHECK_IS(cwfs_getxattr(fs, "/attributed", "user.a", back, sizeof back), -ENODATA);
    CHECK_IS(cwfs_setxattr(fs, "/attributed", "other", "x", 1, 0), -EOPNOTSUPP);
    CHECK_IS(cwfs_setxattr(fs, "/attributed", "user.a", "x", 1, 4), -EINVAL);
    CHECK_IS(cwfs_setxattr(fs, "/attributed", "user.a", NULL, 1, 0), -EINVAL);
    CHECK_IS(cwfs_setxattr(fs, "/attributed", "user.a", "x", SIZE_MAX, 0), -E2BIG);
    CHECK_IS(cwfs_setxattr(fs, "/attributed", NULL, "x", 1, 0), -EINVAL);
    CHECK_IS(cwfs_getxattr(fs, "/attributed", "user.b", NULL, 9), -EINVAL);
    CHECK_IS(cwfs_listxattr(fs, "/none", back, sizeof back), -ENOENT);
    CHECK_IS(cwfs_unlink(fs, "/attributed"), 0);
}

static void locks(cwfs_t *fs) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10};
    struct flock asked = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    struct flock bad = {.l_type = F_RDLCK, .l_whence = SEEK_CUR, .l_start = 0, .l_len = 0};
    cwfs_file_t file = open_file(fs, "/locked", O_CREAT | O_RDWR);
    cwfs_file_t other = open_file(fs, "/locked", O_RDONLY);
    CHECK_IS(cwfs_fcntl(fs, file, F_SETLK, &lock), 0);
    CHECK_IS(cwfs_fcntl(fs, other, F_SETLK, &asked), -EAGAIN);
    CHECK_IS(cwfs_fcntl(fs, other, F_GETLK, &asked), 0);
    CHECK(asked.l_type == F_WRLCK && asked.l_start == 10 && asked.l_len == 10);
    CHECK(asked.l_pid == getpid());
    CHECK_IS(cwfs_fcntl(fs, other, F_SETLK, &lock), -EBADF);
    CHECK_IS(cwfs_fcntl(fs, other, F_SETLK, &bad), -EINVAL);
    bad.l_whence = SEEK_SET;
    bad.l_start = -1;
    CHECK_IS(cwfs_fcntl(fs, other, F_SETLK, &bad), -EINVAL);
    CHECK_IS(cwfs_fcntl(fs, other, F_SETLK, NULL), -EINVAL);
    CHECK_IS(cwfs_fcntl(fs, other, F_GETFD, &lock), -EINVAL);
    lock.l_type = F_UNLCK;
    CHECK_IS(cwfs_fcntl(fs, file, F_SETLK, &lock), 0);
    asked = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    CHECK_IS(cwfs_fcntl(fs, other, F_GETLK, &asked), 0);
    CHECK(asked.l_type == F_UNLCK);
    /* A part that ends with the last byte that a file may have has no end. */
    lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = INT64_MAX - 9};
    CHECK_IS(cwfs_fcntl(fs, file, F_SETLK, &lock), 0);
    asked.l_type = F_RDLCK;
    CHECK_IS(cwfs_fcntl(fs, other, F_GETLK, &asked), 0);
    CHECK(asked.l_type == F_WRLCK && asked.l_start == 10 && asked.l_len == 0);
    lock.l_type = F_UNLCK;
    CHECK_IS(cwfs_fcntl(fs, file, F_SETLK, &lock), 0);
    asked = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
    /* Locks of whole files, which locks of ranges do not exclude. */
    CHECK_IS(cwfs_flock(fs, file, LOCK_EX), 0);
    CHECK_IS(cwfs_flock(fs, other, LOCK_SH | LOCK_NB), -EAGAIN);
    asked.l_type = F_RDLCK;
    CHECK_IS(cwfs_fcntl(fs, other, F_SETLKW, &asked), 0);
    CHECK_IS(cwfs_flock(fs, other, 77), -EINVAL);
    CHECK_IS(cwfs_cancel_locks(fs, other), 0);
    /* Closing it ends them. */
    CHECK_IS(cwfs_close(fs, file), 0);
    CHECK_IS(cwfs_flock(fs, other, LOCK_EX | LOCK_NB), 0);
    CHECK_IS(cwfs_flock(fs, other, LOCK_UN), 0);
    CHECK_IS(cwfs_close(fs, other), 0);
    CHECK_IS(cwfs_flock(fs, other, LOCK_UN), -EBADF);
    CHECK_IS(cwfs_unlink(fs, "/locked"), 0);
}

static void flags(cwfs_t *fs) {
    char text[32] = "";
    cwfs_file_t file, other;
    CHECK_IS(cwfs_creat(fs, &file, "/log", 0600), 0);
    CHECK_IS(cwfs_write(fs, file, "first ", 6), 6);
    CHECK_IS(cwfs_read(fs, file, text, 1), -EBADF);
    other = open_file(fs, "/log", O_WRONLY | O_APPEND | O_DSYNC);
    CHECK_IS(cwfs_write(fs, other, "second ", 7), 7);
    CHECK_IS(cwfs_write(fs, file, "third", 5), 5);
    CHECK_IS(cwfs_write(fs, other, "!", 1), 1);
    CHECK_IS(cwfs_close(fs, file), 0);
    CHECK_IS(cwfs_close(fs, other), 0);
    file = open_file(fs, "/log", O_RDONLY);
    CHECK_IS(cwfs_read(fs, file, text, sizeof text), 14);
    CHECK(strcmp(text, "first thirdd !") == 0);
    CHECK_IS(cwfs_write(fs, file, "x", 1), -EBADF);
    CHECK_IS(cwfs_ftruncate(fs, file, 0), -EBADF);
    CHECK_IS(cwfs_close(fs, file), 0);
    CHECK_IS(cwfs_open(fs, &file, "/log", O_CREAT | O_EXCL | O_WRONLY, 0644), -EEXIST);
    CHECK_IS(cwfs_open(fs, &file, "/none", O_RDWR, 0), -ENOENT);
    CHECK_IS(cwfs_open(fs, &file, "/", O_RDONLY, 0), -EISDIR);
    CHECK_IS(cwfs_open(fs, &file, "/log/x", O_CREAT | O_RDWR, 0644), -ENOTDIR);
    file = open_file(fs, "/log", O_RDWR | O_TRUNC);
    CHECK_IS(cwfs_pread(fs, file, text, 1, 0), 0);
    /* Bytes written between opening and reading are read. */
    other = open_file(fs, "/log", O_RDONLY);
    CHECK_IS(cwfs_write(fs, file, "late", 4), 4);
    CHECK_IS(cwfs_read(fs, other, text, sizeof text), 4);
    CHECK_IS(cwfs_close(fs, other), 0);
    /* It stays without a name until it is closed. */
    CHECK_IS(cwfs_unlink(fs, "/log"), 0);
    CHECK_IS(cwfs_pwrite(fs, file, "x", 1, 0), 1);
    CHECK_IS(cwfs_pread(fs, file, text, sizeof text, 0), 4);
    CHECK(memcmp(text, "xate", 4) == 0);
    CHECK_IS(cwfs_close(fs, file), 0);
    CHECK_IS(cwfs_open(fs, &file, "/log", O_RDWR, 0), -ENOENT);
}

static void lists(cwfs_t *fs) {
    enum { PIECES = 300, BYTES = 32, STRIDE = 5000 };
    char data[PIECES * BYTES], back[PIECES * BYTES], rest[8];
    struct cwfs_region regions[PIECES];
    struct iovec memory[2] = {{data, 1000}, {data + 1000, sizeof data - 1000}};
    fill(data, sizeof data, 3);
    for (int i = 0; i < PIECES; i++) regions[i] = (struct cwfs_region){(int64_t)i * STRIDE, BYTES};
    cwfs_file_t file = open_file(fs, "/lists", O_CREAT | O_RDWR);
    CHECK_IS(cwfs_writex(fs, file, memory, 2, regions, PIECES), sizeof data);
    CHECK_IS(cwfs_pread(fs, file, rest, sizeof rest, 2 * STRIDE + BYTES - 4), sizeof rest);
    CHECK(memcmp(rest, data + 3 * BYTES - 4, 4) == 0 && memcmp(rest + 4, "\0\0\0\0", 4) == 0);
    struct iovec one = {back, sizeof back};
    CHECK_IS(cwfs_readx(fs, file, &one, 1, regions, PIECES), sizeof back);
    CHECK(memcmp(data, back, sizeof data) == 0);
    /* The last region lies behind the end by half. */
    regions[PIECES - 1].offset += BYTES / 2;
    CHECK_IS(cwfs_readx(fs, file, &one, 1, regions, PIECES), (int)sizeof back - BYTES / 2);
    CHECK_IS(cwfs_readx(fs, file, NULL, 0, NULL, 0), 0);
    CHECK_IS(cwfs_readx(fs, file, &one, 1, regions, PIECES - 1), -EINVAL);
    CHECK_IS(cwfs_close(fs, file), 0);
    CHECK_IS(cwfs_unlink(fs, "/lists"), 0);
}

static void names(cwfs_t *fs) {
    char target[16], name[300], path[320];
    struct cwfs_stat stat;
    CHECK_IS(cwfs_mkdir(fs, "/d", 0755), 0);
    CHECK_IS(cwfs_mkdir(fs, "/d", 0755), -EEXIST);
    CHECK_IS(cwfs_close(fs, open_file(fs, "d/a", O_CREAT | O_WRONLY)), 0);
    CHECK_IS(cwfs_link(fs, "/d/a", "/d/b"), 0);
    CHECK_IS(cwfs_symlink(fs, "a", "/d/link"), 0);
    CHECK_IS(cwfs_readlink(fs, "/d/link", target, sizeof target), 1);
    CHECK(strcmp(target, "a") == 0);
    CHECK_IS(cwfs_readlink(fs, "/d/a", target, sizeof target), -EINVAL);
    CHECK_IS(cwfs_stat(fs, "/d/link", &stat), 0);
    CHECK(S_ISREG(stat.mode) && stat.links == 2);
    CHECK_IS(cwfs_lstat(fs, "/d/link", &stat), 0);
    CHECK(S_ISLNK(stat.mode) && stat.size == 1);
    cwfs_file_t file;
    CHECK_IS(cwfs_open(fs, &file, "/d/link", O_RDONLY | O_NOFOLLOW, 0), -ELOOP);
    CHECK_IS(cwfs_close(fs, open_file(fs, "/d/link", O_CREAT | O_WRONLY)), 0);
    CHECK_IS(cwfs_rename(fs, "/d/a", "/d/b", CWFS_NOREPLACE), -EEXIST);
    CHECK_IS(cwfs_rename(fs, "/d/link", "/d/a", CWFS_EXCHANGE), 0);
    CHECK_IS(cwfs_readlink(fs, "/d/a", target, sizeof target), 1);
    CHECK_IS(cwfs_rename(fs, "/d/link", "/d/a", CWFS_EXCHANGE), 0);
    CHECK_IS(cwfs_rename(fs, "/d/link", "/d/none", CWFS_EXCHANGE), -ENOENT);
    CHECK_IS(cwfs_rename(fs, "/d/link", "/d/b", 0), 0);
    CHECK_IS(cwfs_chmod(fs, "/d/a", 0640), 0);
    CHECK_IS(cwfs_chown(fs, "/d/a", (uint32_t)-1, (uint32_t)-1, 0), 0);
    struct cwfs_time times[2] = {{0, CWFS_OMIT}, {-5, 17}};
    CHECK_IS(cwfs_utimens(fs, "/d/a", times, 0), 0);
    CHECK_IS(cwfs_stat(fs, "/d/a", &stat), 0);
    CHECK((stat.mode & 07777) == 0640 && stat.modified.seconds == -5 && stat.modified.nanoseconds == 17);
    CHECK_IS(cwfs_utimens(fs, "/d/a", NULL, 0), 0);
    CHECK_IS(cwfs_rmdir(fs, "/d"), -ENOTEMPTY);
    /* Every byte that a name may have, 255 of them. */
    memset(name, 'n', sizeof name);
    for (int i = 1; i < 256; i++) name[i - 1] = i == '/' ? 'x' : (char)i;
    name[255] = '\0';
    snprintf(path, sizeof path, "/d/%s", name);
    CHECK_IS(cwfs_mkdir(fs, path, 0700), 0);
    cwfs_dir_t directory;
    struct cwfs_dirent entry;
    int count = 0, found = 0;
    CHECK_IS(cwfs_opendir(fs, &directory, "/d", 1), 0);
    while (cwfs_readdir(fs, directory, &entry) == 1) {
        count++;
        found |= entry.name_length == 255 && strcmp(entry.name, name) == 0 && S_ISDIR(entry.stat.mode);
    }
    CHECK(count == 3 && found);
    CHECK_IS(cwfs_closedir(fs, directory), 0);
    CHECK_IS(cwfs_rmdir(fs, path), 0);
    name[255] = 'n', name[256] = '\0';
    snprintf(path, sizeof path, "/d/%s", name);
    CHECK_IS(cwfs_mkdir(fs, path, 0700), -ENAMETOOLONG);
    CHECK_IS(cwfs_unlink(fs, "/d/a"), 0);
    CHECK_IS(cwfs_unlink(fs, "/d/b"), 0);
    CHECK_IS(cwfs_rmdir(fs, "/d"), 0);
}

static void many_names(cwfs_t *fs) {
    enum { NAMES = 1200 };
    char path[32];
    struct cwfs_dirent entry;
    cwfs_dir_t directory;
    CHECK_IS(cwfs_mkdir(fs, "/many", 0755), 0);
    for (int i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "/many/%04d", i);
        CHECK_IS(cwfs_symlink(fs, "x", path), 0);
    }
    CHECK_IS(cwfs_opendir(fs, &directory, "/many", 0), 0);
    for (int i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "%04d", i);
        CHECK_IS(cwfs_readdir(fs, directory, &entry), 1);
        CHECK(strcmp(entry.name, path) == 0 && S_ISLNK(entry.stat.mode));
    }
    CHECK_IS(cwfs_readdir(fs, directory, &entry), 0);
    CHECK_IS(cwfs_readdir(fs, directory, &entry), 0);
    CHECK_IS(cwfs_closedir(fs, directory), 0);
}

int main(int argc, char **argv) {
    cwfs_t *fs = begin(argc, argv);
    struct cwfs_statfs state;
    CHECK_IS(cwfs_statfs(fs, &state), 0);
    CHECK(state.total_bytes >= state.free_bytes && state.free_bytes > 0);
    contents(fs);
    holes(fs);
    special(fs);
    xattrs(fs);
    locks(fs);
    flags(fs);
    lists(fs);
    names(fs);
    many_names(fs);
    CHECK_IS(cwfs_sync(fs), 0);
    CHECK_IS(cwfs_disconnect(fs), 0);
    return 0;
}
