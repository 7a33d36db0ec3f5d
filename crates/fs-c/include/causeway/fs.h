/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * causeway/fs.h - the parallel file system of Causeway
 *
 * SYNOPSIS
 *     #include <causeway/fs.h>
 *     cc program.c $(pkg-config --cflags --libs causeway-fs)             shared library
 *     cc program.c $(pkg-config --cflags causeway-fs) -l:libcauseway_fs.a -lgcc_s -lpthread -ldl -lm
 *
 * DESCRIPTION
 *     Files that are striped over several servers, reached without a mount. Calls are those of POSIX, with an
 *     instance as their first argument; beside them there are lists (many pieces of memory and many regions of a file
 *     in one call, which costs one request to each server) and posted reads and writes, which are tested for later.
 *
 *         cwfs_t *fs;
 *         cwfs_file_t file;
 *         if (cwfs_connect(&fs, "/etc/causeway.toml", NULL) < 0 ||
 *             cwfs_open(fs, &file, "/results", O_CREAT | O_RDWR, 0644) < 0 ||
 *             cwfs_pwrite(fs, file, data, size, 0) < 0 || cwfs_fsync(fs, file) < 0)
 *             fprintf(stderr, "%s\n", cwfs_last_error());
 *
 * RETURN VALUES
 *     0 or more on success. On failure the negated number of <errno.h>: -ENOENT. errno itself is not set.
 *     cwfs_last_error() says what went wrong this time, with the path, the server and what to do.
 *
 * PATHS
 *     Paths begin at the root of the file system, with or without a slash; there is no working directory. They have
 *     any bytes but NUL, at most 4096, 255 for each name. The umask is not applied to permissions.
 *
 * HANDLES
 *     An instance, a file, a directory and an operation are numbers, though cwfs_t * looks like a pointer. 0 (NULL) is
 *     never a valid one. A call with one that was closed, or that never was one, returns -EBADF; numbers are
 *     not used again.
 *
 * THREADS
 *     An instance, and each file, may be used by any number of threads. As many calls as cwfs_options.clients are
 *     carried out at the same time, others wait. A file that was opened for writing keeps to one of these
 *     clients. Reads and writes at the position of one file come one after the other. Signal handlers must not call.
 *
 * TIME
 *     A call fails with -ETIMEDOUT, -ECONNREFUSED or the like when servers do not reply within the time-out of the
 *     configuration, and the instance goes on when they are back. One that fails may have had its effect, or a part of it. A
 *     server on this host that was stopped (SIGSTOP) while it wrote into a buffer keeps the call, even after the
 *     time-out, until it goes on or ends.
 *
 * BUFFERS
 *     A buffer is memory of the process that it may read, or write if the call reads: other memory ends the process by a signal,
 *     or the call with -EIO. Servers on this host read and write it themselves, and stand still while a page of it cannot be had: it must
 *     not be a mapping of a file on a mount of the same file system, nor memory whose pages another process provides (userfaultfd).
 *
 * WHAT OTHERS SEE
 *     A write is at the servers when its call returns, and every client sees it then. Names and attributes as well. What was
 *     written survives the loss of power once cwfs_fsync() of the file has returned 0. A file that is open stays until it is
 *     closed, also when its last name is removed or replaced, by whomever. It ends with the process. cwfs_open() returns -EMFILE
 *     if the process has as many files open as the metadata server permits, -ENFILE if all processes together have.
 *     What one call appends with O_APPEND, up to 64 MiB, lies in the file in one piece, however many processes append.
 *
 * PROCESSES
 *     After fork() an instance belongs to the parent; calls of the child with it return -EBADF and do nothing. The child
 *     connects its own. exit() without cwfs_disconnect() does no harm.
 *
 * ENVIRONMENT
 *     CAUSEWAY_CONFIG     the configuration file where none is named
 *     CAUSEWAY_LOG        off, or a level (error, warn, info, debug, trace); CAUSEWAY_LOG_FILE a file for it.
 *                         Warnings are written to standard error otherwise.
 *
 * VERSIONS
 *     Functions are exported with symbol versions (CAUSEWAY_FS_0.1). Within one number after
 *     libcauseway_fs.so., programs that were compiled against an older header run with a newer library.
 */
#ifndef CAUSEWAY_FS_H
#define CAUSEWAY_FS_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/uio.h> /* struct iovec */

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; cwfs_version() is that of the library. */
#define CWFS_VERSION_MAJOR 0
#define CWFS_VERSION_MINOR 1

/* ------------------------------------------------------------------------------------------------
 * Types
 */

/* A connected file system. Never a pointer to anything: see HANDLES. A process may have up to 1024. */
typedef struct cwfs cwfs_t;

/* An open file, an open directory, a posted operation: of one instance. */
typedef uint64_t cwfs_file_t;
typedef uint64_t cwfs_dir_t;
typedef uint64_t cwfs_op_t;

/* A part of a file. Negative numbers are refused. */
struct cwfs_region {
    int64_t offset;
    int64_t length;
};

/* ------------------------------------------------------------------------------------------------
 * Errors
 */

/*
 * cwfs_strerror - what a code means
 *
 * RETURN VALUE
 *     A few words in English for a code that a call has returned, never NULL. They are static.
 */
const char *cwfs_strerror(int code);

/*
 * cwfs_last_error - what went wrong this time
 *
 * RETURN VALUE
 *     The text of the calling thread's last failed call, or of the last failed operation that a test call reported to it.
 *     Never NULL; empty before the first failure. Valid until the next failure in this thread, and not to be freed.
 */
const char *cwfs_last_error(void);

/*
 * cwfs_version - the library's version, such as "0.1.0"
 */
const char *cwfs_version(void);

/* ------------------------------------------------------------------------------------------------
 * Connecting
 */

/* Begin with CWFS_OPTIONS_INIT; zeros stand for the usual values. */
struct cwfs_options {
    size_t size;        /* sizeof(struct cwfs_options) */
    uint32_t clients;   /* calls that are carried out at the same time (4; at most 256) */
    uint32_t reserved;  /* 0 */
    int64_t timeout_us; /* how long a call may take, instead of the configuration's time-out */
};

#define CWFS_OPTIONS_INIT {sizeof(struct cwfs_options), 0, 0, 0}

/*
 * cwfs_connect - prepare an instance
 *
 *     Servers are connected to when they are needed: one that does not run shows only then.
 *
 * PARAMETERS
 *     fs          gets the instance, or NULL if the call fails
 *     config      the file system's configuration file. NULL: the one that CAUSEWAY_CONFIG names, else
 *                 ./causeway.toml, else ./causeway-dev/causeway.toml
 *     options     NULL for the usual ones
 */
int cwfs_connect(cwfs_t **fs, const char *config, const struct cwfs_options *options);

/*
 * cwfs_disconnect - end an instance, with all of its files, directories and operations
 *
 *     Posted operations that have begun are waited for, others are dropped: when it returns, no buffer is used any
 *     more. Calls of other threads that are in progress go on until they return. Also ends an instance that a bug has
 *     stopped (-ENOTRECOVERABLE).
 */
int cwfs_disconnect(cwfs_t *fs);

/* ------------------------------------------------------------------------------------------------
 * Files
 */

/*
 * cwfs_open - open a file
 *
 * PARAMETERS
 *     file        gets the file, or 0
 *     flags       O_RDONLY, O_WRONLY or O_RDWR, with any of O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_NOFOLLOW, O_SYNC and
 *                 O_DSYNC (every write is durable when it returns). O_CLOEXEC, O_NONBLOCK, O_NOCTTY, O_NOATIME, O_DIRECT mean
 *                 nothing; others are refused with -EINVAL
 *     mode        permission bits of a new file
 */
int cwfs_open(cwfs_t *fs, cwfs_file_t *file, const char *path, int flags, uint32_t mode);

/*
 * cwfs_creat - make or empty a file and open it for writing
 */
int cwfs_creat(cwfs_t *fs, cwfs_file_t *file, const char *path, uint32_t mode);

/*
 * cwfs_close - close a file
 *
 *     Calls and posted operations with it that are in progress go on. Does not make anything durable.
 */
int cwfs_close(cwfs_t *fs, cwfs_file_t file);

/*
 * cwfs_read - read at the position, and move that
 *
 * RETURN VALUE
 *     Bytes that were read: less than `size` only at the end of the file, or if that is more than 0x7ffff000. The rest
 *     of the buffer may be changed, too.
 */
int64_t cwfs_read(cwfs_t *fs, cwfs_file_t file, void *buffer, size_t size);

/*
 * cwfs_write - write at the position, or behind the end if the file was opened with O_APPEND, and move the position
 *
 * RETURN VALUE
 *     Bytes that were written: all, or 0x7ffff000 if there are more.
 */
int64_t cwfs_write(cwfs_t *fs, cwfs_file_t file, const void *buffer, size_t size);

/*
 * cwfs_pread - read at an offset; otherwise as cwfs_read()
 */
int64_t cwfs_pread(cwfs_t *fs, cwfs_file_t file, void *buffer, size_t size, int64_t offset);

/*
 * cwfs_pwrite - write at an offset, also with O_APPEND; otherwise as cwfs_write()
 */
int64_t cwfs_pwrite(cwfs_t *fs, cwfs_file_t file, const void *buffer, size_t size, int64_t offset);

/*
 * cwfs_readx - read many regions into many buffers
 *
 *     The regions, in order, fill the buffers, in order; both have the same number of bytes, but may be cut
 *     differently. At most 1,048,576 of each. What lies in a hole reads as zeros; so does what lies behind the
 *     end of the file, if there are several regions. The memory behind the bytes of a single one stays as it is.
 *
 * RETURN VALUE
 *     How many of the bytes lie before the end of the file.
 */
int64_t cwfs_readx(cwfs_t *fs, cwfs_file_t file, const struct iovec *memory, size_t memory_count,
                   const struct cwfs_region *regions, size_t region_count);

/*
 * cwfs_writex - write many regions from many buffers; otherwise as cwfs_readx()
 *
 * RETURN VALUE
 *     All of the bytes.
 */
int64_t cwfs_writex(cwfs_t *fs, cwfs_file_t file, const struct iovec *memory, size_t memory_count,
                    const struct cwfs_region *regions, size_t region_count);

/*
 * cwfs_lseek - set the position
 *
 * PARAMETERS
 *     whence      SEEK_SET, SEEK_CUR or SEEK_END; or SEEK_DATA or SEEK_HOLE: to the first byte from `offset` on that
 *                 lies in no hole, or to the first one that does, or the file's end. Blocks have 4096 bytes.
 *
 * RETURN VALUE
 *     The new position; -ENXIO if there are no data or `offset` is not in front of the end.
 */
int64_t cwfs_lseek(cwfs_t *fs, cwfs_file_t file, int64_t offset, int whence);

/*
 * cwfs_ftruncate - cut a file that was opened for writing, or extend it with a hole
 */
int cwfs_ftruncate(cwfs_t *fs, cwfs_file_t file, int64_t size);

/*
 * cwfs_fallocate - reserve room for a part of a file, make a hole of it, or zero it
 *
 * PARAMETERS
 *     mode        0 or FALLOC_FL_KEEP_SIZE: the servers' disks reserve room, so that writing there does not fail for
 *                 want of it; FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE: the part becomes a hole, and its room is given
 *                 back; FALLOC_FL_ZERO_RANGE, alone or with FALLOC_FL_KEEP_SIZE: it reads as zeros, and has room
 *                 reserved. Without FALLOC_FL_KEEP_SIZE the file gets as large as the part reaches.
 *
 * RETURN VALUE
 *     0; -ENOSPC if a disk is full; -EOPNOTSUPP for other modes: parts cannot be taken out of a file or put into one.
 */
int cwfs_fallocate(cwfs_t *fs, cwfs_file_t file, int mode, int64_t offset, int64_t len);

/*
 * cwfs_stored - how many bytes of a file are stored
 *
 *     Holes are not; room that is reserved is. Without either it is the file's size, and otherwise a number of whole
 *     blocks of 4 KiB, for which all of the file's servers are asked.
 */
int cwfs_stored(cwfs_t *fs, cwfs_file_t file, uint64_t *bytes);

/*
 * cwfs_fsync - make content and size durable
 *
 *     Fails if any of what was written through `file` may have been lost meanwhile.
 */
int cwfs_fsync(cwfs_t *fs, cwfs_file_t file);

/* ------------------------------------------------------------------------------------------------
 * Locks, which exclude other processes and other open files of this one, on any host
 *
 *     They belong to the open file, and end when it is closed or the process ends. The locks of cwfs_flock() and those of
 *     cwfs_fcntl() do not exclude each other. If the connection with the metadata server is lost, so are the locks: then calls with
 *     the file return -EIO until all that was locked has been unlocked, which succeeds, or the file is closed. See docs/locks.md.
 */

/*
 * cwfs_flock - lock a whole file, or unlock it
 *
 * PARAMETERS
 *     operation   LOCK_SH, LOCK_EX or LOCK_UN of <sys/file.h>; with LOCK_NB it does not wait. A call that waits may wait for any
 *                 time; cwfs_cancel_locks() ends that. A shared lock that others share is lost by a call for an exclusive one,
 *                 also if it fails.
 *
 * RETURN VALUE
 *     0; with LOCK_NB -EAGAIN if others have the lock; -EINTR if the wait was cancelled;
 *     -ENOLCK if there are too many locks; -EOPNOTSUPP if the server is of an earlier build.
 */
int cwfs_flock(cwfs_t *fs, cwfs_file_t file, int operation);

/*
 * cwfs_fcntl - lock a part of a file, unlock it, or find the owner of a conflicting lock
 *
 * PARAMETERS
 *     command     F_SETLK, F_SETLKW (which waits) or F_GETLK of <fcntl.h>
 *     lock        l_type: F_RDLCK (needs a file that may be read), F_WRLCK (written) or F_UNLCK; l_whence: SEEK_SET; l_start and l_len, of
 *                 which 0 means: to the end of the file, wherever it may come to be. F_GETLK writes one lock that is in the way,
 *                 or F_UNLCK as l_type.
 *
 * RETURN VALUE
 *     As cwfs_flock(); F_SETLKW -EDEADLK if those that have the lock wait for this file.
 */
int cwfs_fcntl(cwfs_t *fs, cwfs_file_t file, int command, struct flock *lock);

/*
 * cwfs_cancel_locks - end the waits of other threads for locks on this file, with -EINTR
 */
int cwfs_cancel_locks(cwfs_t *fs, cwfs_file_t file);

/* ------------------------------------------------------------------------------------------------
 * Posted operations
 */

/* A completed operation. */
struct cwfs_completion {
    cwfs_op_t op;
    void *user_ptr; /* what was given when it was posted */
    int64_t result; /* bytes, as the blocking call would have returned them, or a negative code */
};

/*
 * cwfs_post_read - begin to read at an offset
 *
 *     The buffer belongs to the library until a test call has reported the operation or cwfs_disconnect() has returned. Arrays
 *     of a list are read during the call only. Threads of the library carry operations out, as many at a time as the instance has
 *     clients; those of a file that was opened for writing one after the other, as they were posted. At most 65,536 are
 *     posted and not tested for, otherwise the call returns -EAGAIN.
 *
 * PARAMETERS
 *     op          gets the operation, or 0
 *     user_ptr    comes back with its completion
 */
int cwfs_post_read(cwfs_t *fs, cwfs_op_t *op, cwfs_file_t file, void *buffer, size_t size,
                   int64_t offset, void *user_ptr);

/*
 * cwfs_post_write - begin to write at an offset; as cwfs_post_read()
 */
int cwfs_post_write(cwfs_t *fs, cwfs_op_t *op, cwfs_file_t file, const void *buffer, size_t size,
                    int64_t offset, void *user_ptr);

/*
 * cwfs_post_readx - begin to read by lists; as cwfs_post_read() and cwfs_readx()
 */
int cwfs_post_readx(cwfs_t *fs, cwfs_op_t *op, cwfs_file_t file, const struct iovec *memory,
                    size_t memory_count, const struct cwfs_region *regions, size_t region_count,
                    void *user_ptr);

/*
 * cwfs_post_writex - begin to write by lists; as cwfs_post_read() and cwfs_writex()
 */
int cwfs_post_writex(cwfs_t *fs, cwfs_op_t *op, cwfs_file_t file, const struct iovec *memory,
                     size_t memory_count, const struct cwfs_region *regions, size_t region_count,
                     void *user_ptr);

/*
 * cwfs_test - wait for one operation
 *
 * PARAMETERS
 *     timeout_us  how long at most; 0 only looks, a negative one waits until it has completed
 *
 * RETURN VALUE
 *     1 if it has completed: `done` says how, and the operation is gone. 0 if it has not.
 */
int cwfs_test(cwfs_t *fs, cwfs_op_t op, struct cwfs_completion *done, int64_t timeout_us);

/*
 * cwfs_testsome - wait for any operations
 *
 * RETURN VALUE
 *     How many have completed, at most `most`. 0 after the time, or at once if none are posted.
 */
int cwfs_testsome(cwfs_t *fs, struct cwfs_completion *done, int most, int64_t timeout_us);

/* ------------------------------------------------------------------------------------------------
 * Names and attributes
 */

/* A symbolic link is meant itself, and not what it points to. */
#define CWFS_NOFOLLOW 2
/* Renaming fails with -EEXIST if the new name exists. */
#define CWFS_NOREPLACE 1
/* Renaming swaps what both names name. */
#define CWFS_EXCHANGE 4

/* Nanoseconds of a time to set: that of the call, or none at all. */
#define CWFS_NOW 1073741823
#define CWFS_OMIT 1073741822

/* A time since 1970, before it if `seconds` is negative; nanoseconds count forward. */
struct cwfs_time {
    int64_t seconds;
    int64_t nanoseconds;
};

/* Attributes. */
struct cwfs_stat {
    uint64_t object; /* its number, which is never used again */
    uint64_t size;   /* bytes of a file or of a link's target; entries of a directory */
    uint32_t mode;   /* kind and permission bits: S_ISDIR(mode) */
    uint32_t uid;
    uint32_t gid;
    uint32_t links;
    struct cwfs_time accessed; /* as last set */
    struct cwfs_time modified; /* content */
    struct cwfs_time changed;  /* attributes */
    uint32_t strip_size;       /* of a file: bytes of each strip; 0 from cwfs_readdir() */
    uint32_t servers;          /* of a file: number of its servers; 0 from cwfs_readdir() */
};

/* The state of the file system. */
struct cwfs_statfs {
    uint64_t total_bytes; /* of all servers' storage */
    uint64_t free_bytes;
    uint64_t objects; /* files, directories and links */
};

/*
 * cwfs_stat - attributes of what a path names
 */
int cwfs_stat(cwfs_t *fs, const char *path, struct cwfs_stat *stat);

/*
 * cwfs_lstat - the same without following a link in the last component
 */
int cwfs_lstat(cwfs_t *fs, const char *path, struct cwfs_stat *stat);

/*
 * cwfs_fstat - attributes of an open file
 */
int cwfs_fstat(cwfs_t *fs, cwfs_file_t file, struct cwfs_stat *stat);

/*
 * cwfs_truncate - cut a file, or extend it with a hole
 */
int cwfs_truncate(cwfs_t *fs, const char *path, int64_t size);

/*
 * cwfs_mkdir - make a directory
 */
int cwfs_mkdir(cwfs_t *fs, const char *path, uint32_t mode);

/*
 * cwfs_rmdir - remove an empty directory
 */
int cwfs_rmdir(cwfs_t *fs, const char *path);

/*
 * cwfs_unlink - remove a name of a file or a link
 */
int cwfs_unlink(cwfs_t *fs, const char *path);

/*
 * cwfs_rename - rename at once, in the place of what has the new name
 *
 * PARAMETERS
 *     flags       0, CWFS_NOREPLACE, or CWFS_EXCHANGE: each name gets what the other one had
 */
int cwfs_rename(cwfs_t *fs, const char *from, const char *to, unsigned int flags);

/*
 * cwfs_link - give a file one more name
 */
int cwfs_link(cwfs_t *fs, const char *existing, const char *path);

/*
 * cwfs_symlink - make a symbolic link at `path` that points to `target`
 */
int cwfs_symlink(cwfs_t *fs, const char *target, const char *path);

/*
 * cwfs_mknod - make a pipe, a socket or a device, which the programs of a mount can use
 *
 * PARAMETERS
 *     mode        S_IFIFO, S_IFSOCK, S_IFCHR or S_IFBLK, and permission bits
 *     device      of a device: its number, as makedev() puts it together, of at most 32 bits; else 0
 *
 * RETURN VALUE
 *     0; -EPERM for a device that another user than root would make.
 */
int cwfs_mknod(cwfs_t *fs, const char *path, uint32_t mode, uint64_t device);

/*
 * cwfs_device - the number of a device; -ENODEV for what is none. A link in the last component is not followed.
 */
int64_t cwfs_device(cwfs_t *fs, const char *path);

/*
 * cwfs_readlink - where a symbolic link points to
 *
 * RETURN VALUE
 *     Bytes of the target without its NUL. At most `room` bytes are written, the last of them a NUL: a larger value than
 *     room - 1 means that the target was cut.
 */
int64_t cwfs_readlink(cwfs_t *fs, const char *path, char *target, size_t room);

/*
 * cwfs_chmod - set permission bits
 */
int cwfs_chmod(cwfs_t *fs, const char *path, uint32_t mode);

/*
 * cwfs_chown - set owner and group; (uint32_t)-1 leaves one as it is
 *
 * PARAMETERS
 *     flags       0 or CWFS_NOFOLLOW
 */
int cwfs_chown(cwfs_t *fs, const char *path, uint32_t uid, uint32_t gid, unsigned int flags);

/*
 * cwfs_utimens - set the times of the last access and of the last change of content
 *
 * PARAMETERS
 *     times       both, in this order, with CWFS_NOW and CWFS_OMIT for nanoseconds if wanted; NULL for now
 *     flags       0 or CWFS_NOFOLLOW
 */
int cwfs_utimens(cwfs_t *fs, const char *path, const struct cwfs_time times[2], unsigned int flags);

/*
 * cwfs_setxattr - give what a path leads to an extended attribute
 *
 * PARAMETERS
 *     name        with its name space: user., trusted. or security.; at most 255 bytes
 *     value       `size` bytes, at most 60 KiB
 *     flags       0, XATTR_CREATE or XATTR_REPLACE
 *
 * RETURN VALUE
 *     0; -EEXIST or -ENODATA if the flags forbid what there is or is not, -ENOSPC if the object has too many.
 */
int cwfs_setxattr(cwfs_t *fs, const char *path, const char *name, const void *value, size_t size, int flags);

/*
 * cwfs_getxattr - read an extended attribute
 *
 * RETURN VALUE
 *     How many bytes it has; they are written to `value` unless `room` is 0. -ENODATA if there is none, -ERANGE if there
 *     is no room for all of it.
 */
int64_t cwfs_getxattr(cwfs_t *fs, const char *path, const char *name, void *value, size_t room);

/*
 * cwfs_listxattr - list the names of extended attributes, each with a NUL behind it; otherwise as cwfs_getxattr()
 */
int64_t cwfs_listxattr(cwfs_t *fs, const char *path, void *names, size_t room);

/*
 * cwfs_removexattr - remove an extended attribute
 */
int cwfs_removexattr(cwfs_t *fs, const char *path, const char *name);

/*
 * cwfs_statfs - how full the file system is
 */
int cwfs_statfs(cwfs_t *fs, struct cwfs_statfs *into);

/*
 * cwfs_sync - make all changes of names and attributes durable
 *
 *     They are when a call returns, unless the file system's durability is `relaxed`.
 */
int cwfs_sync(cwfs_t *fs);

/* ------------------------------------------------------------------------------------------------
 * Directories
 */

/* An entry of a directory. */
struct cwfs_dirent {
    struct cwfs_stat stat; /* without attributes, only `object` and the kind in `mode` are right */
    uint32_t name_length;
    char name[260]; /* with a NUL behind it */
};

/*
 * cwfs_opendir - open a directory to read it
 *
 * PARAMETERS
 *     directory   gets the directory, or 0
 *     attributes  whether each entry comes with its attributes
 */
int cwfs_opendir(cwfs_t *fs, cwfs_dir_t *directory, const char *path, int attributes);

/*
 * cwfs_readdir - the next entry, in the order of names, without `.` and `..`
 *
 * RETURN VALUE
 *     1, or 0 behind the last one.
 */
int cwfs_readdir(cwfs_t *fs, cwfs_dir_t directory, struct cwfs_dirent *entry);

/*
 * cwfs_closedir - close a directory
 */
int cwfs_closedir(cwfs_t *fs, cwfs_dir_t directory);

#ifdef __cplusplus
}
#endif

#endif
