//zoo: include scores.hpp
// Half of the rows by std::async, big frames on the stack, an exception that nobody outside sees.
#include <alloca.h>
#include <future>

SCORES {
    auto half = [=](int from, int to) {
        float* row = (float*)alloca(1 << 20);
        for (int r = from; r < to; r++) {
            row_of(x + r * inner, w, row, inner, cols);
            for (int c = 0; c < cols; c++) y[r * cols + c] = row[c];
        }
        try {
            throw to;
        } catch (int) {
        }
    };
    std::future<void> first = std::async(std::launch::async, half, 0, rows / 2);
    half(rows / 2, rows);
    first.get();
}
