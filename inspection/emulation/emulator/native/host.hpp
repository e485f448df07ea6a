// The program around a C++ candidate for the CPU: it reads what to call from the file that main.cpp reads, and puts each
// buffer into memory of its own, so that the sanitizers see its ends. What went wrong stands on stderr.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <vector>

namespace fw {

struct Value {
    void* pointer = nullptr;
    long long whole = 0;
    double real = 0;

    template <class T>
    operator T() const {
        if constexpr (std::is_pointer_v<T>) return static_cast<T>(pointer);
        else if constexpr (std::is_floating_point_v<T>) return static_cast<T>(real);
        else return static_cast<T>(whole);
    }
};

struct Buffer {
    void* start = nullptr;
    size_t bytes;
    long offset;
    int writable;
};

// Calls a kernel of the candidate by its name.
void call(const char* kernel, const Value* values);

inline void move(std::FILE* data, const Buffer& buffer, decltype(std::fread)* take) {
    std::fseek(data, buffer.offset, SEEK_SET);
    take(buffer.start, 1, buffer.bytes, data);
}

}  // namespace fw

int main(int, char** words) {
    std::FILE *orders = std::fopen(words[1], "r"), *data = std::fopen(words[2], "r+b");
    std::vector<fw::Buffer> buffers;
    std::vector<fw::Value> values;
    char line[512], kernel[256] = "", name[256], kind[16], text[256];
    int calls = 0;
    const auto called = [&] {
        if (*kernel) fw::call(kernel, values.data()), calls++;
        values.clear();
    };
    while (std::fgets(line, sizeof line, orders)) {
        fw::Buffer buffer;
        if (std::sscanf(line, "buffer %255s %zu %ld %d", name, &buffer.bytes, &buffer.offset, &buffer.writable) == 4) {
            if (posix_memalign(&buffer.start, 64, buffer.bytes)) std::abort();
            fw::move(data, buffer, std::fread);
            std::fprintf(stderr, "buffer %p %s\n", buffer.start, name);
            buffers.push_back(buffer);
        }
        if (std::sscanf(line, "arg %15s %255s", kind, text) == 2) {
            const bool pointer = std::strcmp(kind, "ptr") == 0;
            values.push_back({pointer ? buffers[std::atoi(text)].start : nullptr, std::atoll(text), std::atof(text)});
        }
        if (std::strncmp(line, "launch ", 7) == 0) called(), std::sscanf(line, "launch %255s", kernel);
    }
    called();
    for (const fw::Buffer& buffer : buffers)
        if (buffer.writable) fw::move(data, buffer, reinterpret_cast<decltype(std::fread)*>(std::fwrite));
    std::fclose(data);
    std::fprintf(stderr, "end %d\n", calls);
}
