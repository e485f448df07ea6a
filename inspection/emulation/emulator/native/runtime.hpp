// Shared by the parts of the emulated device: scheduling (runtime.cpp), memory (memory.cpp), the program (main.cpp).
#pragma once
#include "fw_runtime.h"

namespace fw {

constexpr unsigned MAX_THREADS = 1024, WARPS = 32;
constexpr int BARRIERS = 16;
constexpr size_t SHARED_BYTES = 227 << 10;
/// How far from its buffer an index of 32 bits may lead: 2^31 elements of 16 bytes.
constexpr size_t FAR = 1ull << 35;

struct Launch {
    const Kernel* kernel;
    void** arguments;
    unsigned shared;
};

struct Device {
    unsigned thread = 0;
    bool running = false;
    bool atomics = false;
    // Buffers have sizes and no contents.
    bool hollow = false;
    uint64_t changes = 0;
    const void* last_access = nullptr;
    uint32_t epoch = 1;
    uint32_t warp_epochs[WARPS] = {};
    unsigned arrived[BARRIERS] = {};
    // Of each thread, where it wrote last since its last barrier, with the calls that led there; 0 where it did not.
    uintptr_t wrote[WARPS * 32] = {};
    const char* kernel = "";
    int launch = 0;
};
extern Device device;

enum Kind { BUFFER, DYNAMIC, STATIC, STACKS, IMAGE };

struct Range {
    uintptr_t begin, end;
    Kind kind;
    bool read_only;
    const char* name;
};

void add_range(const Range& range);
void set_up_memory();
void begin_launch_memory(unsigned dynamic_bytes, unsigned long long grid);
void begin_block_memory();
void settle_conflicts();
const char* describe_address(uintptr_t address, size_t bytes, char* text, size_t size);

void skipped_barrier(unsigned thread, const void* barrier);

void make_stacks();
bool in_stack_guard(uintptr_t address);
bool in_own_stack(uintptr_t address);
unsigned thread_count();
void release_after_exit();
void run_block(const Launch& what, bool descending);

void note_uninitialised(const void* at);
/// Writes down one finding: the second place, if not null, is the other party's. Of one kind and place, the first is
/// written down and the others, of `times` elements each, are counted.
void report(const char* kind, const void* at, const void* other, const char* format, ...);
void count_more(const char* kind, const void* at, unsigned times);
bool known(const char* kind, const void* at);
void write_counts();
/// Writes down how it ended, and ends the process.
[[noreturn]] void finish(const char* status, const char* message);

}  // namespace fw
