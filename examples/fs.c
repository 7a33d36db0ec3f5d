/* Copies files into a file system and out of it:   cc fs.c $(pkg-config --cflags --libs causeway-fs) -o fs
 *     causeway fs dev &
 *     ./fs put README.md /README.md
 *     ./fs get /README.md copy
 * The configuration file is that of $CAUSEWAY_CONFIG, or lies where `causeway fs dev` puts it. */
#include <causeway/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 4 << 20 };
static char buffer[PIECE];

static int64_t check(int64_t rc) { /* the result of any call, or the end of the program */
    if (rc >= 0) return rc;
    fprintf(stderr, "fs: %s\n", cwfs_last_error());
    exit(1);
}

static FILE *local(const char *name, const char *mode) {
    FILE *file = fopen(name, mode);
    if (file != NULL) return file;
    perror(name);
    exit(1);
}

static void put(cwfs_t *fs, const char *from, const char *to) {
    FILE *in = local(from, "rb");
    cwfs_file_t out;
    check(cwfs_open(fs, &out, to, O_CREAT | O_WRONLY | O_TRUNC, 0644));
    for (size_t count; (count = fread(buffer, 1, PIECE, in)) > 0;) check(cwfs_write(fs, out, buffer, count));
    check(cwfs_fsync(fs, out)); /* written bytes survive a loss of power */
    check(cwfs_close(fs, out));
    fclose(in);
}

static void get(cwfs_t *fs, const char *from, const char *to) {
    cwfs_file_t in;
    check(cwfs_open(fs, &in, from, O_RDONLY, 0));
    FILE *out = local(to, "wb");
    for (int64_t count; (count = check(cwfs_read(fs, in, buffer, PIECE))) > 0;) fwrite(buffer, 1, (size_t)count, out);
    check(cwfs_close(fs, in));
    if (fclose(out) != 0) perror(to);
}

int main(int argc, char **argv) {
    cwfs_t *fs;
    if (argc != 4) return fprintf(stderr, "fs put FILE PATH | get PATH FILE\n"), 2;
    check(cwfs_connect(&fs, NULL, NULL));
    (strcmp(argv[1], "put") == 0 ? put : get)(fs, argv[2], argv[3]);
    return (int)check(cwfs_disconnect(fs));
}
