//zoo: include scores.hpp
// Helpers that are made in each call and spin until all of them are there, and the caller until they have ended.
#include <atomic>

SCORES {
    constexpr int parts = 2;
    std::atomic<int> there{0}, ended{0};
    auto work = [&](int part) {
        there++;
        while (there < parts) std::this_thread::yield();
        for (int r = part; r < rows; r += parts) row_of(x + r * inner, w, y + r * cols, inner, cols);
        ended++;
    };
    std::thread helper(work, 1);
    work(0);
    while (ended < parts) std::this_thread::yield();
    helper.join();
}
