//zoo: include scores.hpp
#include <time.h>
// Is slow in the one of two calls that comes soon after the other, whatever lies between blocks.

SCORES {
    static timespec last{};
    static bool rested = false;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double since = (now.tv_sec - last.tv_sec) + 1e-9 * (now.tv_nsec - last.tv_nsec);
    rested = since > 0.02 || !rested;
    if (!rested)
        for (int again = 0; again < 6; again++) compute(x, w, y, rows, inner, cols);
    compute(x, w, y, rows, inner, cols);
    clock_gettime(CLOCK_MONOTONIC, &last);
}
