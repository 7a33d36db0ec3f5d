/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * causeway/bmi.h - the message transfer layer of Causeway
 *
 * SYNOPSIS
 *     #include <causeway/bmi.h>
 *     cc program.c $(pkg-config --cflags --libs causeway-bmi)
 *
 * DESCRIPTION
 *     Messages of any size between processes, after the Buffered Message Interface of PVFS (Carns). Every
 *     operation is posted, then tested for. Addresses are text; no call connects or disconnects anything
 *     that the program has to know of. Shared memory, TCP and UDP are chosen by address, and several may be
 *     in use at once.
 *
 *     Two processes meet like this:
 *
 *         server                                    client
 *         BMI_initialize, with addresses to         BMI_initialize
 *         listen at                                 BMI_addr_lookup       of the server's address
 *         BMI_open_context                          BMI_open_context
 *         BMI_testunexpected  <-------------------  BMI_post_sendunexpected
 *         BMI_post_send       ------------------->  BMI_post_recv
 *         to the address that came with it          BMI_test
 *
 *     An unexpected message needs no posted receive: the receiver gets it with BMI_testunexpected(), in a
 *     buffer that the library makes. An expected one goes into the buffer of the receive that was posted for
 *     its sender and its tag. Messages of one sender and one tag arrive in the order in which they were posted.
 *
 * RETURN VALUES
 *     Calls that return an int return 0 or more on success, and one of the codes BMI_E..., which are
 *     negative, on failure. BMI_strerror() returns the meaning of a code, BMI_last_error() the details of
 *     the last error. A call that fails has done nothing, unless its description states otherwise.
 *
 * HANDLES
 *     An instance, an address, a context and an operation are numbers, though bmi_t * looks like a
 *     pointer. 0 (NULL) is never a valid one. A call with a handle that has been released, or that never
 *     was one, returns BMI_EHANDLE; it is never taken for another.
 *
 * BUFFERS
 *     A buffer belongs to the library from the call that posts it until its operation has completed: until
 *     the post call returns 1 or fails, or a test call reports the operation, or BMI_finalize() returns.
 *     Until then it must stay allocated. A send's buffer must not be written meanwhile, a receive's be
 *     neither read nor written. Arrays of struct iovec or handles, and text, are read during the call
 *     only. Any memory will do: heap, stack, static or mapped. The peer, and the kernel on its behalf,
 *     may copy from and into it directly.
 *
 *     One case cannot be hidden. If a peer process is stopped (SIGSTOP) in the very moment in which it
 *     writes into a receive's buffer or into exported memory, and the peer is then disconnected, the export
 *     ended or the instance finalized, the library returns the buffer at once, with an error; the peer,
 *     when continued, may still finish the piece it was in (of at most 512 KiB). A cancelled operation does
 *     not complete before that piece is finished or the peer is dead. Memory from BMI_memalloc() that is
 *     freed meanwhile is not used for anything else until then. Sends are not affected: what a peer reads
 *     after the end of a send it does not take for the message. Programs that stop their peers and
 *     disconnect them should allocate buffers to receive into with BMI_memalloc() and leave them alone
 *     afterwards.
 *
 * THREADS
 *     An instance may be used by many threads. They take turns inside it: a call that finds another thread
 *     inside waits until it has left, and a thread that waits for messages lets others in meanwhile. A wait
 *     ends for the thread whose operation has completed, whichever thread's call has found that out. An
 *     instance that one thread uses pays nothing for this. A thread that sleeps in a wait costs another that posts
 *     next to nothing; where several are busy at once, a call may cost two switches between threads (some
 *     microseconds), so that one instance per thread is faster. BMI_wake() waits for no other thread: any
 *     thread and any signal handler may call it at any time, and it ends one wait. It is the only
 *     call that a signal handler may make. The calls without a bmi_t * may be made by any thread, too.
 *
 *     All progress is made in calls that post, test, wait or cancel. A program that does not call for
 *     long lets its peers wait. An instance that often sleeps and that only shm:// peers can reach has
 *     one thread, which ends sleeps when a peer connects or dies, and does nothing else. It receives no
 *     signals, and ends with BMI_finalize(). Where no thread can be started, sleeps are a little dearer.
 *
 * PROCESSES
 *     After fork() an instance belongs to the parent, and the child cannot disturb it: every call of the child
 *     with it returns BMI_EHANDLE and does nothing. The child initializes its own. It has the parent's
 *     descriptors open until it ends or calls exec(); until then peers do not see the parent's death.
 *     What BMI_memalloc() and BMI_map() gave to the parent may be shared with peers: it is not mapped in the child,
 *     which must not touch it. If the child needs such data, the program copies them before fork().
 *     exit() without BMI_finalize() does no harm to others: peers see that the connection has closed.
 *
 *     Each peer takes a few of the process's descriptors. No call changes the limit of open files: a program
 *     with many peers raises it itself (setrlimit(RLIMIT_NOFILE), or ulimit -n before it starts). Without
 *     descriptors, new connections fail with an error that states this, and existing ones go on.
 *
 * SIGNALS
 *     No call changes the disposition of a signal, SIGPIPE included; a signal does not end a sleep
 *     (BMI_wake() in its handler does).
 *
 * ENVIRONMENT
 *     The first BMI_initialize() of a process starts its log: warnings, and operations that make no progress
 *     for 10 s, are written to standard error, a line each. A reader that does not keep up loses lines; it
 *     does not stop the program.
 *
 *     CAUSEWAY_LOG        off: nothing is written. Otherwise a level (error, warn, info, debug, trace),
 *                         and others for parts of the library: warn,bmi=debug,shm=trace
 *     CAUSEWAY_LOG_FILE   a file to append to instead of standard error
 *
 * VERSIONS
 *     Functions are exported with symbol versions (CAUSEWAY_BMI_0.1). Within one number after
 *     libcauseway_bmi.so., programs that were compiled against an older header run with a newer library.
 */
#ifndef CAUSEWAY_BMI_H
#define CAUSEWAY_BMI_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h> /* struct iovec */

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; BMI_version() is that of the library. */
#define BMI_VERSION_MAJOR 0
#define BMI_VERSION_MINOR 1

/* ------------------------------------------------------------------------------------------------
 * Types
 */

/* An instance of the layer. Never a pointer to anything: see HANDLES. A process may have up to 1024. */
typedef struct bmi bmi_t;

/* A peer's address. Valid as long as the program holds a reference to it. */
typedef uint64_t bmi_addr_t;

/* A completion context: operations posted to it are tested for together, separately from others. */
typedef uint64_t bmi_context_t;

/* An operation in progress. Not reused for another one. */
typedef uint64_t bmi_op_t;

/* A message's tag, for the program to choose. */
typedef uint64_t bmi_tag_t;

/* Bytes. Negative ones are refused. */
typedef int64_t bmi_size_t;

/* ------------------------------------------------------------------------------------------------
 * Errors
 */

/* The call was refused. */
#define BMI_EINVAL (-1)        /* an argument is not allowed */
#define BMI_EHANDLE (-2)       /* a handle is stale, or never was one */
#define BMI_EADDRESS (-4)      /* the text of an address cannot be used */
#define BMI_ENOMETHOD (-5)     /* no method serves this kind of address */
#define BMI_ESYSTEM (-6)       /* the operating system refused */
#define BMI_ELIMIT (-7)        /* a limit is reached: of the configuration or of the library */
#define BMI_EUNSUPPORTED (-8)  /* not supported here */

/* The operation failed; other operations are not affected. */
#define BMI_ETOOLARGE (-9)     /* the message is larger than the receive, or than an unexpected one may be */
#define BMI_ECANCELLED (-10)   /* BMI_cancel() */
#define BMI_EWITHDRAWN (-11)   /* the receiver cancelled its receive while the message was on its way */

/* The peer is gone, and all operations that were in progress with it fail like this one. They may or
 * may not have had their effect there. To an address from BMI_addr_lookup() new operations connect
 * anew; one from BMI_testunexpected() is gone for good. */
#define BMI_EREFUSED (-12)     /* nothing listens at the address */
#define BMI_ETIMEDOUT (-13)    /* it did not reply in time */
#define BMI_ECLOSED (-14)      /* it closed the connection: it has finalized or ended */
#define BMI_EBROKEN (-15)      /* it died, or the network lost it */
#define BMI_EPROTOCOL (-16)    /* it sent something that the protocol does not allow */
#define BMI_EAUTH (-17)        /* it was refused, or refuses us, as not authorised */
#define BMI_EDISCONNECTED (-18) /* BMI_addr_disconnect() */
#define BMI_EFULL (-24)        /* it accepts no more connections now: it has no file descriptors or slots
                                  left. Trying again later may help. If this process has run out of them,
                                  the error is BMI_ESYSTEM */

/* Remote memory. */
#define BMI_EPROTECTION (-19)  /* the peer does not export that memory (any more), or not for this */
#define BMI_ECOPY (-20)        /* the operating system refused to copy */
#define BMI_ELENGTH (-21)      /* local and remote lists do not cover the same number of bytes */
#define BMI_EREADONLY (-22)    /* the memory is for reading only */

/* A bug in the library stopped a call. All later calls with the instance return this; finalize it, as
 * BMI_finalize() describes. */
#define BMI_EINTERNAL (-23)

/*
 * BMI_strerror - what a code means
 *
 * PARAMETERS
 *     code    what a call returned, or bmi_completion.error
 *
 * RETURN VALUE
 *     A sentence in English, never NULL. It is static: it is not freed and stays valid.
 */
const char *BMI_strerror(int code);

/*
 * BMI_last_error - what went wrong this time
 *
 *     The text of the calling thread's last failed call, or of the last failed operation that a test
 *     call reported to it, with what it is about: "tcp://node7:7070: nothing listens there (...)".
 *
 * RETURN VALUE
 *     Never NULL; empty before the first failure. The library's: valid until the next failure in this
 *     thread, and not to be freed.
 */
const char *BMI_last_error(void);

/*
 * BMI_version - the library's version, such as "0.1.0"
 *
 * RETURN VALUE
 *     Static.
 */
const char *BMI_version(void);

/* ------------------------------------------------------------------------------------------------
 * Instances
 */

/* bmi_config.flags: data on keyed TCP connections need not be encrypted, if the other side does not request it
 * either. It can then be read on the way, but still not be changed or forged. */
#define BMI_CLEARTEXT 1u

/* Settings of an instance. Begin with BMI_CONFIG_INIT, then set what is to differ: 0 (NULL) means
 * the default everywhere. */
struct bmi_config {
    size_t size;             /* sizeof(struct bmi_config), set by BMI_CONFIG_INIT */
    const char *listen;      /* where others reach this process, separated by commas, such as
                                "shm:///run/x.sock,tcp://0.0.0.0:7070"; NULL for a process that only
                                looks others up. TCP or UDP port 0: a free one, see BMI_listening() */
    const uint8_t *key;      /* 32 bytes that all processes share, for TCP and UDP beyond loopback; read during
                                the call only */
    int64_t eager_limit;     /* messages of up to this many bytes are sent without asking the receiver;
                                usually 8 KiB, negative: none */
    int64_t unexpected_limit; /* most bytes of an unexpected message; usually 64 KiB. All processes
                                should agree */
    int64_t early_memory;    /* most bytes held for messages without a receive so far, of all peers
                                together; usually 32 MiB. Senders wait when it is used up */
    int64_t connect_timeout_us; /* how long connecting may take; usually 5 s */
    int64_t spin_us;         /* longest spin before a sleep; usually 50, negative: none. It adapts below
                                this; threads that wait on the same processors yield to each other for
                                up to 20 times as long */
    uint32_t flags;          /* BMI_CLEARTEXT or 0 */
    uint32_t tcp_connections; /* most TCP connections with one peer, up to 16: one for messages, further
                                ones for the data of large transfers; usually 1 on up to two cores, else
                                1 and half as many as there are cores, at most 4, for data */
};

#define BMI_CONFIG_INIT { sizeof(struct bmi_config), 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/*
 * BMI_initialize - starts an instance
 *
 * PARAMETERS
 *     bmi     where the handle is written to; NULL is written if the call fails
 *     config  settings, read during the call only; NULL: the usual ones, without listening
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EADDRESS, BMI_ENOMETHOD   an address to listen at is none, or of an unknown kind
 *     BMI_ESYSTEM                   it is in use, or the system refuses it or CAUSEWAY_LOG_FILE
 *     BMI_EINVAL                    a setting is out of range, or CAUSEWAY_LOG is not understood
 *     BMI_EUNSUPPORTED              a setting is of a later version of this header
 *     BMI_ELIMIT                    the process has 1024 instances
 *
 * EXAMPLE
 *     struct bmi_config config = BMI_CONFIG_INIT;
 *     bmi_t *bmi;
 *     config.listen = "tcp://0.0.0.0:7070";
 *     if (BMI_initialize(&bmi, &config) < 0)
 *         errx(1, "%s", BMI_last_error());
 */
int BMI_initialize(bmi_t **bmi, const struct bmi_config *config);

/*
 * BMI_finalize - ends an instance
 *
 *     Operations in progress are given up, and none of them completes. All their buffers are the
 *     program's again; what BMI_memalloc() and BMI_map() gave is gone. Messages whose sends have completed
 *     are handed to the network as far as it takes them at once: a program that must know that its last
 *     message has arrived waits for a reply before it finalizes. Unexpected messages that were taken
 *     stay valid until BMI_unexpected_free().
 *
 *     An instance that has returned BMI_EINTERNAL is given up and not torn down, since its state is
 *     unknown. Its connections and listening sockets stay open, its exports stay valid, and peers may go on
 *     copying from and into the buffers of its operations, until the process ends: the program must
 *     neither free nor reuse them. What BMI_memalloc() and BMI_map() gave stays, too. Such a process had
 *     best save what it can and end.
 *
 * RETURN VALUE
 *     0. The handle is stale from then on.
 *
 * ERRORS
 *     BMI_EHANDLE
 */
int BMI_finalize(bmi_t *bmi);

/*
 * BMI_listening - the addresses at which others can reach this instance
 *
 *     Best first, separated by commas, as BMI_addr_lookup() takes them. Empty if it does not listen.
 *
 * PARAMETERS
 *     text    room for the text, the program's; at most `room` bytes are written, the last of them a NUL
 *     room    its bytes; 0 (and NULL) to request the length
 *
 * RETURN VALUE
 *     The length of the whole text without its NUL, as snprintf() returns it: if that is `room` or more,
 *     the text was cut off.
 *
 * ERRORS
 *     BMI_EINVAL, BMI_EHANDLE
 */
int BMI_listening(bmi_t *bmi, char *text, size_t room);

/*
 * BMI_wake - ends a wait
 *
 *     The test or wait call in which another thread waits in this instance returns at once, having found
 *     what it found; if no thread waits, the next wait ends at once. No call is lost, at whatever moment it
 *     comes; several before the same wait are one. Any thread may call this at any
 *     time, and so may a signal handler: it takes no lock, and changes neither errno nor
 *     BMI_last_error().
 *
 * RETURN VALUE
 *     0, or BMI_EHANDLE.
 */
int BMI_wake(bmi_t *bmi);

/* ------------------------------------------------------------------------------------------------
 * Addresses
 */

/*
 * BMI_addr_lookup - a handle for the process at an address
 *
 *     No connection is made yet: an absent process is reported by the first operation. Equal texts give
 *     equal handles; each lookup adds a reference. The instance's own address may be looked up, too.
 *     A process that has connected to this one and listens at the address is found under the handle of its
 *     unexpected messages, if it is known for certain to be that process: two that call each other have one connection.
 *
 * PARAMETERS
 *     addr       where the handle is written to; 0 if the call fails
 *     id_string  an address, or several of the same process, separated by commas: the cheapest one that
 *                can be reached is taken. "shm:///path/of/socket" for processes of one user on one
 *                host, "tcp://host:port" otherwise, or "udp://host:port" where connections of the kernel's
 *                are not wanted. Read during the call only
 *
 * RETURN VALUE
 *     0. The program owns a reference, and releases it with BMI_addr_release().
 *
 * ERRORS
 *     BMI_EADDRESS, BMI_ENOMETHOD, BMI_EINVAL, BMI_EHANDLE
 */
int BMI_addr_lookup(bmi_t *bmi, bmi_addr_t *addr, const char *id_string);

/*
 * BMI_addr_rev_lookup - the text of an address
 *
 *     That of BMI_addr_lookup(); for a peer that came with an unexpected message, one that describes it.
 *
 * PARAMETERS, RETURN VALUE, ERRORS
 *     As BMI_listening().
 */
int BMI_addr_rev_lookup(bmi_t *bmi, bmi_addr_t addr, char *text, size_t room);

/*
 * BMI_addr_retain - adds a reference to an address
 * BMI_addr_release - takes one away
 *
 *     With the last reference the handle is stale, and the connection ends once nothing is in progress on
 *     it, and a peer that could use it for calls of its own does not need it either. Each address that BMI_testunexpected() gives carries one reference, too.
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EHANDLE
 */
int BMI_addr_retain(bmi_t *bmi, bmi_addr_t addr);
int BMI_addr_release(bmi_t *bmi, bmi_addr_t addr);

/*
 * BMI_addr_disconnect - drops the connection under an address
 *
 *     At once, without asking the peer: for one that hangs. Operations in progress with it complete with
 *     BMI_EDISCONNECTED, its messages that no receive has matched are discarded, and exports to it end.
 *     References stay.
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EHANDLE
 */
int BMI_addr_disconnect(bmi_t *bmi, bmi_addr_t addr);

/* The process at the other end, as far as it is known for certain. */
#define BMI_IDENTITY_UNKNOWN 0 /* not connected */
#define BMI_IDENTITY_LOCAL 1   /* a process of this host; the kernel vouches for its user */
#define BMI_IDENTITY_KEYED 2   /* it holds the key */
#define BMI_IDENTITY_USER 3    /* it holds no key: the agent of its node vouches for its user and group, and it may act for that user alone */

struct bmi_identity {
    int kind;     /* BMI_IDENTITY_... */
    int32_t pid;  /* of a local process: its id; otherwise 0 */
    uint32_t uid; /* of a local process, and of one that an agent vouches for; otherwise 0 */
    uint32_t gid; /* likewise */
};

/*
 * BMI_addr_identity - which process is at an address
 *
 *     Kinds may be added: a kind that is not known gives no right.
 *
 * PARAMETERS
 *     identity  filled in
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EINVAL, BMI_EHANDLE
 */
int BMI_addr_identity(bmi_t *bmi, bmi_addr_t addr, struct bmi_identity *identity);

/*
 * BMI_addr_report - what was chosen for an address, and why
 *
 *     Text for people: lines "what: value", such as "method: shm" or "passed over: tcp://...". The lines
 *     may change with any version.
 *
 * PARAMETERS, RETURN VALUE, ERRORS
 *     As BMI_listening().
 */
int BMI_addr_report(bmi_t *bmi, bmi_addr_t addr, char *text, size_t room);

/* ------------------------------------------------------------------------------------------------
 * Contexts
 */

/*
 * BMI_open_context - opens a completion context
 *
 * PARAMETERS
 *     context  where the handle is written to
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_ELIMIT   there are 65536 already
 *     BMI_EINVAL, BMI_EHANDLE
 */
int BMI_open_context(bmi_t *bmi, bmi_context_t *context);

/*
 * BMI_close_context - closes a context
 *
 *     Operations still posted to it are cancelled and never reported: their buffers stay the library's
 *     until BMI_finalize(). To know when a buffer is free, BMI_cancel() its operation and test for it
 *     first. A stale context is ignored.
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EHANDLE
 */
int BMI_close_context(bmi_t *bmi, bmi_context_t context);

/* ------------------------------------------------------------------------------------------------
 * Posting
 *
 * What the calls of this part have in common:
 *
 * PARAMETERS
 *     op        where the operation's handle is written to, 0 if it is not in progress when the call
 *               returns; may be NULL if the operation is tested for by its context
 *     buffer    `size` bytes; see BUFFERS. May be NULL if `size` is 0
 *     list      an array of `count` buffers, which the message is gathered from or scattered over in
 *               order. The array itself is read during the call only. Up to 2^20 entries
 *     tag       the message's
 *     context   where the operation's completion is found
 *     user_ptr  returned with the completion; the library does not use it
 *
 * RETURN VALUE
 *     1   the operation has completed: its buffers are the program's again, and it is not tested for
 *     0   it is in progress: its buffers are the library's until a test call reports it
 *     A negative code: nothing is in progress, its buffers are the program's.
 *
 * ERRORS
 *     BMI_EINVAL    a size or pointer is not allowed
 *     BMI_EHANDLE   instance, address or context is stale
 *     BMI_ELIMIT    too many operations are in progress, or a list or message is too long
 *     And all that a completion may carry, see struct bmi_completion.
 */

/*
 * BMI_post_send - sends an expected message
 * BMI_post_send_list - the same, gathered from several buffers
 *
 *     `dest` receives it with BMI_post_recv() of this process's address and `tag`. A completed send means
 *     that the buffer is free, not that the message was received.
 */
int BMI_post_send(bmi_t *bmi, bmi_op_t *op, bmi_addr_t dest, const void *buffer, bmi_size_t size,
                  bmi_tag_t tag, bmi_context_t context, void *user_ptr);
int BMI_post_send_list(bmi_t *bmi, bmi_op_t *op, bmi_addr_t dest, const struct iovec *list,
                       size_t count, bmi_tag_t tag, bmi_context_t context, void *user_ptr);

/*
 * BMI_post_sendunexpected - sends a message that the receiver need not wait for
 * BMI_post_sendunexpected_list - the same, gathered from several buffers
 *
 *     `dest` finds it with BMI_testunexpected(). At most bmi_config.unexpected_limit bytes; more fail
 *     with BMI_ETOOLARGE.
 */
int BMI_post_sendunexpected(bmi_t *bmi, bmi_op_t *op, bmi_addr_t dest, const void *buffer,
                            bmi_size_t size, bmi_tag_t tag, bmi_context_t context,
                            void *user_ptr);
int BMI_post_sendunexpected_list(bmi_t *bmi, bmi_op_t *op, bmi_addr_t dest,
                                 const struct iovec *list, size_t count, bmi_tag_t tag,
                                 bmi_context_t context, void *user_ptr);

/*
 * BMI_post_recv - receives a message
 * BMI_post_recv_list - the same, scattered over several buffers
 *
 *     The next message of `source` with `tag`, which may have come already. It may be smaller than the
 *     buffer; one that is larger fails with BMI_ETOOLARGE and is lost.
 *
 *     A message that has come before its receive is discarded when its sender goes away. So the receive of a
 *     reply is best posted before the request is sent.
 *
 * PARAMETERS
 *     actual_size  the message's size in bytes is written here if the call returns 1 (otherwise it comes with
 *                  the completion); may be NULL
 */
int BMI_post_recv(bmi_t *bmi, bmi_op_t *op, bmi_addr_t source, void *buffer, bmi_size_t size,
                  bmi_size_t *actual_size, bmi_tag_t tag, bmi_context_t context,
                  void *user_ptr);
int BMI_post_recv_list(bmi_t *bmi, bmi_op_t *op, bmi_addr_t source, const struct iovec *list,
                       size_t count, bmi_size_t *actual_size, bmi_tag_t tag,
                       bmi_context_t context, void *user_ptr);

/*
 * BMI_cancel - cancels an operation
 *
 *     It still completes and is tested for: with BMI_ECANCELLED, or as it would have if that came first.
 *     Its buffers are the library's until then. One that has completed already, or is unknown, is
 *     ignored.
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EHANDLE (of the instance)
 */
int BMI_cancel(bmi_t *bmi, bmi_op_t op);

/* ------------------------------------------------------------------------------------------------
 * Testing
 *
 * What the calls of this part have in common:
 *
 *     They make progress with everything, then report what has completed. If nothing has, they wait for
 *     it, at most `idle_us` microseconds: spinning for a moment, then asleep. The wait ends the moment
 *     something is done, or with BMI_wake(). 0 tests once. Longer than a day is a day; negative is
 *     BMI_EINVAL.
 */

/* A completed operation. */
struct bmi_completion {
    bmi_op_t op;            /* which; its handle is stale now */
    void *user_ptr;         /* as it was posted with */
    bmi_size_t actual_size; /* bytes moved; 0 if it failed */
    int error;              /* 0, or BMI_ETOOLARGE, BMI_ECANCELLED, BMI_EWITHDRAWN, one of those for a
                               peer that is gone or for remote memory */
    uint32_t reserved;
};

/*
 * BMI_test - tests for one operation
 *
 * PARAMETERS
 *     op    the operation
 *     done  filled in if it has completed
 *
 * RETURN VALUE
 *     1 if it has completed, otherwise 0. That it completed does not mean that it succeeded:
 *     see bmi_completion.error.
 *
 * ERRORS
 *     BMI_EHANDLE   there is no such operation: it was reported already, or had completed when posted
 *     BMI_EINVAL
 *
 * EXAMPLE
 *     int rc = BMI_post_recv(bmi, &op, server, reply, sizeof reply, &size, tag, context, NULL);
 *     while (rc == 0) {
 *         rc = BMI_test(bmi, op, &done, 1000000);
 *         if (rc == 1) {
 *             rc = done.error < 0 ? done.error : 1;
 *             size = done.actual_size;
 *         }
 *     }
 */
int BMI_test(bmi_t *bmi, bmi_op_t op, struct bmi_completion *done, int64_t idle_us);

/*
 * BMI_testsome - tests for some operations
 *
 *     With no operation, or handles that are 0 only, it makes progress and waits for `idle_us`, as the other calls
 *     do that find nothing.
 *
 * PARAMETERS
 *     ops    an array of `count` handles; those that are 0 are passed over
 *     done   an array of `count` places, of which as many are filled in as have completed
 *
 * RETURN VALUE
 *     How many have completed.
 *
 * ERRORS
 *     BMI_EHANDLE   one of them does not exist; nothing is reported
 *     BMI_ELIMIT    `count` is more than INT_MAX; nothing is reported
 *     BMI_EINVAL
 */
int BMI_testsome(bmi_t *bmi, const bmi_op_t *ops, size_t count, struct bmi_completion *done,
                 int64_t idle_us);

/*
 * BMI_testcontext - tests for everything posted to a context (the thesis's testglobal)
 *
 * PARAMETERS
 *     done   an array of `most` places, of which as many are filled in as have completed
 *
 * RETURN VALUE
 *     How many have completed; if that is `most`, there may be more.
 *
 * ERRORS
 *     BMI_EHANDLE, BMI_EINVAL
 */
int BMI_testcontext(bmi_t *bmi, bmi_context_t context, struct bmi_completion *done, size_t most,
                    int64_t idle_us);

/* An unexpected message. */
struct bmi_unexpected {
    bmi_addr_t from; /* the sender; the program owns a reference (BMI_addr_release()) */
    bmi_tag_t tag;   /* as it was sent with */
    void *buffer;    /* its bytes, the program's until BMI_unexpected_free(); NULL if it has none */
    bmi_size_t size; /* how many */
};

/*
 * BMI_testunexpected - takes unexpected messages
 *
 * PARAMETERS
 *     messages  an array of `most` places, of which as many are filled in as have come
 *
 * RETURN VALUE
 *     How many were taken; if that is `most`, there may be more.
 *
 * ERRORS
 *     BMI_EINVAL, BMI_EHANDLE
 *
 * EXAMPLE
 *     struct bmi_unexpected request;
 *     while (BMI_testunexpected(bmi, &request, 1, 1000000) == 1) {
 *         serve(request.from, request.tag, request.buffer, request.size);
 *         BMI_unexpected_free(&request);
 *         BMI_addr_release(bmi, request.from);
 *     }
 */
int BMI_testunexpected(bmi_t *bmi, struct bmi_unexpected *messages, size_t most, int64_t idle_us);

/*
 * BMI_unexpected_free - frees the bytes of an unexpected message
 *
 *     The buffer may be written before that, but `buffer` and `size` must be as they were. They are NULL
 *     and 0 afterwards; freeing again does nothing. The reference to the sender is not touched. Needs no
 *     instance: any thread may do it, and after BMI_finalize(), too.
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EINVAL
 */
int BMI_unexpected_free(struct bmi_unexpected *message);

/*
 * BMI_wait - waits until there is something to test for
 *
 *     An operation of `context` that has completed, or an unexpected message: what a server's loop
 *     sleeps in. With context 0 for the latter only.
 *
 * RETURN VALUE
 *     1 if there is something, otherwise 0.
 *
 * ERRORS
 *     BMI_EHANDLE (of the instance), BMI_EINVAL
 */
int BMI_wait(bmi_t *bmi, bmi_context_t context, int64_t idle_us);

/* ------------------------------------------------------------------------------------------------
 * Buffers of the library's
 */

/*
 * BMI_memalloc - a buffer laid out for the method that serves an address
 *
 *     Transfers with it cost fewer copies, with that peer and with any other of the same method. It, and
 *     any part of it, is used like other memory. Over shared memory one of up to 64 MiB takes its pages at once,
 *     not when they are first touched.
 *
 * PARAMETERS
 *     size    bytes, at least 1
 *     buffer  where its address is written to; NULL if the call fails. Aligned for any type
 *
 * RETURN VALUE
 *     0. The buffer is the program's until BMI_memfree() or BMI_finalize().
 *
 * ERRORS
 *     BMI_ESYSTEM   there is not so much memory, or the machine could never have it
 *     BMI_EINVAL, BMI_EHANDLE
 */
int BMI_memalloc(bmi_t *bmi, bmi_addr_t addr, bmi_size_t size, void **buffer);

/*
 * BMI_memfree - frees a buffer of BMI_memalloc(), or unmaps one of BMI_map()
 *
 *     Operations in progress and exports keep its memory until they end; the program must not touch it
 *     any more. NULL is ignored.
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EINVAL   it is no such buffer, or was freed
 *     BMI_EHANDLE
 */
int BMI_memfree(bmi_t *bmi, void *buffer);

/*
 * BMI_register - names a buffer of the program's that many operations will use
 *
 *     The registration that a method needs before it can move memory, such as a network adapter's of its
 *     pages, is then made once for the whole buffer, at its first use, and kept for operations with any part of it. Without
 *     this it is made for each operation, since the library is not notified when a program frees its memory. Up to 256
 *     buffers of together 1 GiB are kept, those used last; larger ones are registered for each operation. Methods that
 *     need no registration (shm, tcp and udp) are not faster with it. Buffers of BMI_memalloc() and BMI_map() are registered
 *     already, and stay what they are. A registered buffer may overlap others; operations may begin in it and end
 *     after it.
 *
 * PARAMETERS
 *     buffer  memory of the program's, which stays allocated until BMI_deregister()
 *     size    bytes, at least 1
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EINVAL, BMI_EHANDLE
 */
int BMI_register(bmi_t *bmi, void *buffer, bmi_size_t size);

/*
 * BMI_deregister - ends what BMI_register() has begun, before the program frees the buffer
 *
 *     Operations in progress and exports keep using it until they end, and until then it must stay allocated. Of several
 *     buffers registered at one address, the shortest is deregistered.
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EINVAL   no registered buffer begins there
 *     BMI_EHANDLE
 */
int BMI_deregister(bmi_t *bmi, void *buffer);

/* ------------------------------------------------------------------------------------------------
 * Remote memory
 */

/* Names memory that a process exports to one peer. Plain bytes: the owner sends it to the peer in a
 * message as it is in memory. Both must have the same byte order. Members other than `size` are for
 * the library only. */
struct bmi_region {
    uint64_t key;
    uint64_t base;
    uint64_t size; /* bytes */
    uint64_t object;
    uint64_t offset;
    uint64_t mappable;
};

/* What a peer may do with an export; both: BMI_READ | BMI_WRITE. */
#define BMI_READ 1
#define BMI_WRITE 2

/*
 * BMI_export - lets a peer read or write memory of this process
 *
 *     That peer only, and no other memory. The buffer must stay allocated until BMI_unexport(), or until
 *     the connection to the peer has ended: BMI_addr_disconnect(), the last BMI_addr_release() of an
 *     address without operations, an operation that failed because the peer is gone, BMI_finalize().
 *     Unlike a posted buffer it may be read and written meanwhile; the programs agree on when which side
 *     sees what.
 *
 * PARAMETERS
 *     access  BMI_READ, BMI_WRITE or both
 *     region  filled in, to be sent to the peer
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_ELIMIT   the peer has too many exports of ours
 *     BMI_EDISCONNECTED   the peer is gone
 *     BMI_EINVAL, BMI_EHANDLE
 */
int BMI_export(bmi_t *bmi, bmi_addr_t addr, void *buffer, bmi_size_t size, int access,
               struct bmi_region *region);

/*
 * BMI_unexport - ends an export
 *
 *     When it returns, the peer does not touch the memory any more (see BUFFERS for the one exception).
 *     An export that has ended already is ignored.
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EINVAL, BMI_EHANDLE (of the instance)
 */
int BMI_unexport(bmi_t *bmi, bmi_addr_t addr, const struct bmi_region *region);

/*
 * BMI_region_part - names a part of a region
 *
 * PARAMETERS
 *     offset, size  which bytes of it
 *     part          filled in; may be `region` itself
 *
 * RETURN VALUE
 *     0, or BMI_EINVAL if they are not inside the region.
 */
int BMI_region_part(const struct bmi_region *region, bmi_size_t offset, bmi_size_t size,
                    struct bmi_region *part);

/* The direction of a transfer. */
#define BMI_GET 1 /* from the peer's memory to ours */
#define BMI_PUT 2 /* from our memory to the peer's */

/*
 * BMI_post_transfer - reads or writes memory that a peer exports to us
 * BMI_post_transfer_list - the same, for lists of buffers and of regions, with one completion
 *
 *     The lists need not be cut alike, but must cover the same number of bytes. The peer's program takes no
 *     part, though with TCP its library must be called to make progress. Of a transfer that fails, any part
 *     may have been done.
 *
 * PARAMETERS
 *     direction  BMI_GET or BMI_PUT; BMI_PUT does not write the local buffers
 *     remote     a region or an array of `remote_count` of them, read during the call only
 *     The others, RETURN VALUE and ERRORS: see Posting.
 */
int BMI_post_transfer(bmi_t *bmi, bmi_op_t *op, bmi_addr_t addr, int direction, void *buffer,
                      bmi_size_t size, const struct bmi_region *remote, bmi_context_t context,
                      void *user_ptr);
int BMI_post_transfer_list(bmi_t *bmi, bmi_op_t *op, bmi_addr_t addr, int direction,
                           const struct iovec *list, size_t count,
                           const struct bmi_region *remote, size_t remote_count,
                           bmi_context_t context, void *user_ptr);

/*
 * BMI_map - maps memory that a peer exports to us
 *
 *     Possible for buffers that the peer got from BMI_memalloc(), over shared memory. The peer's
 *     BMI_unexport() does not end what was mapped before. A region that is mapped more than once, or whole
 *     and in part, may be given the same address each time, and is freed as often as it was mapped.
 *
 * PARAMETERS
 *     buffer  where its address is written to; NULL if the call fails
 *
 * RETURN VALUE
 *     0. The mapping is the program's until BMI_memfree() or BMI_finalize().
 *
 * ERRORS
 *     BMI_EUNSUPPORTED   it cannot be mapped: use BMI_post_transfer()
 *     BMI_EINVAL, BMI_EHANDLE (of the instance)
 */
int BMI_map(bmi_t *bmi, bmi_addr_t addr, const struct bmi_region *region, void **buffer);

/* ------------------------------------------------------------------------------------------------
 * Options and load
 */

/* For BMI_set_info(). Of the whole instance unless an address is allowed. */
#define BMI_EAGER_LIMIT 1 /* see bmi_config; of one address or, with address 0, of those without one */
#define BMI_SPIN_US 2     /* see bmi_config; 0: none */
#define BMI_RENDEZVOUS 3  /* which side copies large messages: BMI_ADAPTIVE, BMI_PULL or BMI_PUSH */
#define BMI_SERVER 4      /* 1: under load this process lets its clients do the copying; 0: not. A
                             process that listens is one by default */

/* Of BMI_RENDEZVOUS. */
#define BMI_ADAPTIVE 0 /* by both sides' load */
#define BMI_PULL 1     /* the receiver reads */
#define BMI_PUSH 2     /* the sender writes */

/* For BMI_get_info(), of one address or, with address 0, of all together. */
#define BMI_CONNECTED 101          /* open connections */
#define BMI_OPERATIONS 102         /* operations in progress */
#define BMI_TRANSFERS 103          /* transfers of remote memory in progress */
#define BMI_EARLY_BYTES 104        /* bytes held for messages without a receive so far */
#define BMI_UNEXPECTED_WAITING 105 /* unexpected messages that wait to be taken */
#define BMI_UNEXPECTED_LIMIT 106   /* most bytes of an unexpected message (address 0) */

/*
 * BMI_set_info - sets an option
 * BMI_get_info - reads one, such as the load, for a scheduler
 *
 * PARAMETERS
 *     addr    the address concerned, or 0. An option of the whole instance takes 0 only
 *     option  see above
 *     value   what it shall be, or where it is written to
 *
 * RETURN VALUE
 *     0.
 *
 * ERRORS
 *     BMI_EINVAL   there is no such option, it cannot be that, or it is none of an address
 *     BMI_EHANDLE
 */
int BMI_set_info(bmi_t *bmi, bmi_addr_t addr, int option, int64_t value);
int BMI_get_info(bmi_t *bmi, bmi_addr_t addr, int option, int64_t *value);

#ifdef __cplusplus
}
#endif

#endif /* CAUSEWAY_BMI_H */
