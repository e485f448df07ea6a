// The program around a candidate: it reads what to run, maps the buffers, runs the launches and writes a report.
//
//     ./kernel RUN DATA REPORT
//
// RUN is text: "order 0|1", "seconds S", "sample S", "hollow", "buffer NAME BYTES OFFSET WRITABLE", "launch KERNEL gx gy gz bx by bz SHARED",
// "arg ptr BUFFER" or "arg TYPE VALUE". DATA holds the buffers, each from a page's start on, and gets the results.
// After "hollow" it holds what every CHUNK of all buffers is full of, and gets nothing.
#include "runtime.hpp"

#include <fcntl.h>
#include <initializer_list>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

namespace fw {
namespace {

constexpr size_t GUARD = 1 << 20, PAGE = 4096, CHUNK = 4 << 20;
constexpr int MOST_BUFFERS = 64, MOST_ARGUMENTS = 64;
constexpr unsigned MOST_PLACES = 64;

struct Buffer {
    char name[128];
    char* start;
};

Buffer buffers[MOST_BUFFERS];
int buffer_count;
int report_file = 2;
bool descending;
bool sampled;
double soft_limit;
struct Place {
    const char* kind;
    const void* at;
    unsigned long long times;
};
Place places[MOST_PLACES];
unsigned place_count;
unsigned long long blocks_run;

void write_line(const char* text, size_t length) {
    while (length > 0) {
        const ssize_t written = write(report_file, text, length);
        if (written <= 0) return;
        text += written, length -= size_t(written);
    }
}

void add_buffer(const char* name, size_t bytes, long offset, bool writable, int data) {
    if (buffer_count == MOST_BUFFERS) finish("unsupported", "the plan has too many buffers");
    const size_t size = (bytes + PAGE - 1) / PAGE * PAGE;
    const size_t guard = device.hollow ? FAR : GUARD, step = device.hollow ? CHUNK : size;
    char* region = static_cast<char*>(
        mmap(nullptr, size + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (region == MAP_FAILED) finish("failed", "no memory for the buffers");
    char* start = region + guard;
    for (size_t at = 0; at < size; at += step)
        if (mmap(start + at, step < size - at ? step : size - at, writable ? PROT_READ | PROT_WRITE : PROT_READ,
                 (device.hollow ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED, data, offset) == MAP_FAILED)
            finish("failed", "the buffers could not be mapped");
    Buffer& buffer = buffers[buffer_count++];
    snprintf(buffer.name, sizeof buffer.name, "%s", name);
    buffer.start = start;
    add_range({uintptr_t(start), uintptr_t(start) + bytes, BUFFER, !writable, buffer.name});
}

const Kernel* find_kernel(const char* name) {
    for (int i = 0; i < kernel_count; i++)
        if (strcmp(kernels[i].name, name) == 0) return &kernels[i];
    finish("failed", "the launch plan names a kernel that is not there");
}

union Value {
    void* pointer;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
};

struct Call {
    const Kernel* kernel = nullptr;
    dim3 grid, block;
    unsigned shared = 0;
    int count = 0;
    Value values[MOST_ARGUMENTS];
};

void take_argument(Call& call, const char* kind, const char* text) {
    char message[256];
    if (call.count >= call.kernel->count || call.count == MOST_ARGUMENTS) {
        snprintf(message, sizeof message, "%s has %d parameters, the launch plan passes more", call.kernel->name,
                 call.kernel->count);
        finish("failed", message);
    }
    const Parameter& parameter = call.kernel->parameters[call.count];
    Value& value = call.values[call.count++];
    unsigned bytes = 8, flags = 0;
    if (strcmp(kind, "ptr") == 0) value.pointer = buffers[atoi(text)].start, flags = POINTER;
    if (strcmp(kind, "i32") == 0) value.i32 = int32_t(atol(text)), bytes = 4;
    if (strcmp(kind, "i64") == 0) value.i64 = atoll(text);
    if (strcmp(kind, "f32") == 0) value.f32 = float(atof(text)), bytes = 4, flags = FLOATING;
    if (strcmp(kind, "f64") == 0) value.f64 = atof(text), flags = FLOATING;
    if (parameter.bytes == bytes && parameter.flags == flags) return;
    snprintf(message, sizeof message, "parameter %d of %s is %s of %u bytes, but the launch plan passes %s", call.count,
             call.kernel->name,
             parameter.flags & POINTER ? "a pointer" : parameter.flags & FLOATING ? "a floating-point number" : "an integer",
             parameter.bytes, kind);
    finish("failed", message);
}

unsigned long long coprime(unsigned long long all) {
    unsigned long long step = (unsigned long long)(double(all) * 0.6180339887) | 1;
    const auto common = [](unsigned long long a, unsigned long long b) {
        while (b) {
            const unsigned long long rest = a % b;
            a = b, b = rest;
        }
        return a;
    };
    while (common(step, all) != 1) step += 2;
    return all < 3 ? 1 : step;
}

void run(Call& call) {
    if (call.count != call.kernel->count) finish("failed", "the launch plan passes fewer arguments than the kernel takes");
    void* arguments[MOST_ARGUMENTS];
    for (int i = 0; i < call.count; i++) arguments[i] = &call.values[i];
    const Launch launch = {call.kernel, arguments, call.shared};
    gridDim = call.grid, blockDim = call.block;
    device.kernel = call.kernel->name;
    const unsigned long long all = 1ull * gridDim.x * gridDim.y * gridDim.z;
    begin_launch_memory(call.shared, all);
    // For a sample, the ends come first, and then blocks from all over the grid.
    const unsigned long long step = sampled ? coprime(all) : 1;
    for (unsigned long long k = 0; k < all; k++) {
        if (sampled && k > 1 && double(fw_clock()) > soft_limit) break;
        const unsigned long long place = (k * step + (sampled ? all - 1 : 0)) % all;
        const unsigned long long b = descending ? all - 1 - place : place;
        blockIdx = {unsigned(b % gridDim.x), unsigned(b / gridDim.x % gridDim.y), unsigned(b / gridDim.x / gridDim.y)};
        run_block(launch, descending);
        blocks_run++;
    }
    device.launch++;
}

void on_fault(int number, siginfo_t* info, void* context) {
    const void* at = nullptr;
#ifdef __x86_64__
    at = reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP] + 1);
#endif
    if (number == SIGPROF) {
        report("slow", at, device.last_access, "here when the time was up");
        finish("timeout", "the run did not finish in time");
    }
    if (number == SIGFPE) {
        report("fault", at, nullptr, "divides an integer by zero");
        finish("failed", "an integer was divided by zero");
    }
    const uintptr_t address = uintptr_t(info->si_addr);
    if (in_stack_guard(address)) finish("failed", "a thread's local arrays or recursion need too much memory");
    if (number == SIGILL || number == SIGABRT) finish("failed", "the kernel aborted");
    char text[256];
    report("out of bounds", at, nullptr, "reaches memory %s", describe_address(address, 1, text, sizeof text));
    finish("failed", "a kernel reached outside its buffers");
}

void catch_faults() {
    static char stack[64 << 10];
    stack_t other = {};
    other.ss_sp = stack, other.ss_size = sizeof stack;
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF}) sigaction(number, &action, nullptr);
}

void follow(FILE* plan, int data) {
    char line[512], word[128], name[128];
    static Call call;
    while (fgets(line, sizeof line, plan)) {
        unsigned long long bytes;
        long offset;
        int writable;
        double seconds;
        if (strcmp(line, "hollow\n") == 0) device.hollow = true;
        if (sscanf(line, "order %d", &writable) == 1) descending = writable;
        if (sscanf(line, "sample %lf", &seconds) == 1) sampled = true, soft_limit = double(fw_clock()) + seconds * 1e9;
        if (sscanf(line, "seconds %lf", &seconds) == 1) {
            const itimerval timer = {{0, 0}, {long(seconds), long((seconds - double(long(seconds))) * 1e6)}};
            setitimer(ITIMER_PROF, &timer, nullptr);
        }
        if (sscanf(line, "buffer %127s %llu %ld %d", name, &bytes, &offset, &writable) == 4)
            add_buffer(name, bytes, offset, writable != 0, data);
        dim3 g, b;
        unsigned shared;
        if (sscanf(line, "launch %127s %u %u %u %u %u %u %u", name, &g.x, &g.y, &g.z, &b.x, &b.y, &b.z, &shared) == 8) {
            if (call.kernel) run(call);
            call = Call();
            call.kernel = find_kernel(name), call.grid = g, call.block = b, call.shared = shared;
        }
        if (sscanf(line, "arg %15s %127s", word, name) == 2) take_argument(call, word, name);
    }
    if (call.kernel) run(call);
}

}  // namespace

void report(const char* kind, const void* at, const void* other, const char* format, ...) {
    if (place_count < MOST_PLACES) places[place_count++] = {kind, at, 0};
    char text[1024];
    int length = snprintf(text, sizeof text, "%s\t%s\t%d\t%u,%u,%u\t%u,%u,%u\t%zx\t%zx\t", kind, device.kernel,
                          device.launch, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z,
                          size_t(at), size_t(other));
    va_list values;
    va_start(values, format);
    length += vsnprintf(text + length, sizeof text - size_t(length) - 1, format, values);
    va_end(values);
    if (length > int(sizeof text) - 2) length = int(sizeof text) - 2;
    text[length++] = '\n';
    write_line(text, size_t(length));
}

void note_uninitialised(const void* at) {
    if (!known("uninitialised", at))
        report("uninitialised", at, nullptr, "reads shared memory that no thread of the block has written to");
    count_more("uninitialised", at, 1);
}

bool known(const char* kind, const void* at) {
    for (unsigned i = 0; i < place_count; i++)
        if (places[i].at == at && strcmp(places[i].kind, kind) == 0) return true;
    return place_count == MOST_PLACES;
}

void count_more(const char* kind, const void* at, unsigned times) {
    for (unsigned i = 0; i < place_count; i++)
        if (places[i].at == at && strcmp(places[i].kind, kind) == 0) {
            places[i].times += times;
            return;
        }
}

void write_counts() {
    for (unsigned i = 0; i < place_count; i++) {
        char text[128];
        const int length = snprintf(text, sizeof text, "count\t%s\t%zx\t%llu\n", places[i].kind, size_t(places[i].at),
                                    places[i].times ? places[i].times : 1);
        write_line(text, size_t(length));
    }
}

void finish(const char* status, const char* message) {
    char text[512];
    write_counts();
    const int length = snprintf(text, sizeof text, "end\t%s\t%llu\t%d\t%s\n", status, blocks_run, device.atomics, message);
    write_line(text, size_t(length));
    _exit(strcmp(status, "ok") == 0 ? 0 : 3);
}

extern "C" void fw_trap(const char* kind, const char* message) {
    report("fault", __builtin_return_address(0), nullptr, "%s", message);
    finish(kind, message);
}

}  // namespace fw

int main(int count, char** words) {
    if (count != 4) return 2;
    fw::report_file = open(words[3], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const int data = open(words[2], O_RDWR | O_CLOEXEC);
    FILE* plan = fopen(words[1], "r");
    if (fw::report_file < 0 || data < 0 || !plan) return 2;
    fw::catch_faults();
    fw::set_up_memory();
    fw::make_stacks();
    fw::follow(plan, data);
    fflush(stdout);
    fw::finish("ok", "");
}
