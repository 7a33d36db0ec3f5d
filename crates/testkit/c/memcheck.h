/* What C programs tell memcheck, if they run under it. */
#ifndef MEMCHECK_H
#define MEMCHECK_H

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif

/* Has memcheck look for no leaks when this process ends. A child of fork() has all of its parent's memory, and not the threads
 * whose stacks refer to some of it, which counts as lost; and each page of it is read, which takes minutes. The parent's leaks are found in the parent. */
static inline void look_for_no_leaks(void) {
#ifdef VALGRIND_CLO_CHANGE
    VALGRIND_CLO_CHANGE("--leak-check=no");
#endif
}
#endif
