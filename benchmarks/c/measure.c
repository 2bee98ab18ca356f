/* Times single calls of a kernel. */
#include "common.h"
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Seconds of single calls for about `seconds`, at least one and at most `most`; returns how many there are. */
long measure(kernel run, void **args, double seconds, long most, double *times) {
    double end = now() + seconds;
    long count = 0;
    run(args);
    while (count < most) {
        double start = now();
        run(args);
        double stop = now();
        times[count++] = stop - start;
        if (stop > end) break;
    }
    return count;
}
