//zoo: include scores.hpp
// A pool that is kept from call to call: its threads sleep in between, and each call waits for them.
#include <condition_variable>
#include <functional>
#include <mutex>

class Pool {
    std::mutex mutex;
    std::condition_variable changed;
    std::function<void(int)> work;
    long number = 0;
    int left = 0;

    void serve(int part) {
        for (long done = 0;; done++) {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return number > done; });
            lock.unlock();
            work(part);
            lock.lock();
            if (--left == 0) changed.notify_all();
        }
    }

   public:
    static constexpr int parts = 2;

    Pool() {
        for (int part = 0; part < parts; part++) std::thread(&Pool::serve, this, part).detach();
    }

    void run(std::function<void(int)> given) {
        std::unique_lock lock(mutex);
        work = std::move(given), left = parts, number++;
        changed.notify_all();
        changed.wait(lock, [&] { return left == 0; });
    }
};

SCORES {
    static Pool& pool = *new Pool;
    pool.run([=](int part) {
        for (int r = part; r < rows; r += Pool::parts) row_of(x + r * inner, w, y + r * cols, inner, cols);
    });
}
