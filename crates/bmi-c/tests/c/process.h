/* State of the whole process that a library must not change: dispositions of signals, limits, the mask of file modes. */
#ifndef PROCESS_H
#define PROCESS_H

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

struct process_state {
    struct {
        void (*handler)(int);
        int flags;
        unsigned char blocked[NSIG];
    } actions[NSIG];
    unsigned char blocked[NSIG];
    struct rlimit limits[RLIM_NLIMITS];
    mode_t mask;
};

/* One after the other: of a set, the kernel writes no more than it has signals for. */
static inline void list_signals(const sigset_t *set, unsigned char *signals) {
    for (int i = 1; i < NSIG; i++) signals[i] = sigismember(set, i) == 1;
}

static inline void look_at_process(struct process_state *state) {
    memset(state, 0, sizeof *state);
    /* Calls fail for signals that the C library keeps for itself, and for limits that the kernel does not know. */
    for (int i = 1; i < NSIG; i++) {
        struct sigaction action;
        if (sigaction(i, NULL, &action) != 0) continue;
        state->actions[i].handler = action.sa_handler;
        state->actions[i].flags = action.sa_flags;
        list_signals(&action.sa_mask, state->actions[i].blocked);
    }
    for (int i = 0; i < RLIM_NLIMITS; i++) (void)getrlimit(i, &state->limits[i]);
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    list_signals(&blocked, state->blocked);
    state->mask = umask(077);
    umask(state->mask);
}

/* The changed part, or NULL. */
static inline const char *what_changed(const struct process_state *before) {
    static struct process_state now;
    look_at_process(&now);
    if (memcmp(before->actions, now.actions, sizeof now.actions) != 0) return "what happens on a signal";
    if (memcmp(before->blocked, now.blocked, sizeof now.blocked) != 0) return "which signals are blocked";
    if (memcmp(before->limits, now.limits, sizeof now.limits) != 0) return "a limit";
    return before->mask == now.mask ? NULL : "the mask of file modes";
}
#endif
