// What the emulated device offers to the candidate's translation unit and to the program around it.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace fw {

/// Where a block's dynamic shared memory lies: a fixed address, so that a pointer to it can be a constant.
constexpr uintptr_t DYNAMIC_SHARED = 0x3f0000000000;

enum Size : unsigned { POINTER = 1, FLOATING = 2 };

struct Parameter {
    unsigned bytes, flags;
};

struct Kernel {
    const char* name;
    void (*call)(void** arguments);
    int count;
    const Parameter* parameters;
};

extern const Kernel kernels[];
extern const int kernel_count;

/// Combines what the lanes of a warp brought; `lanes[i]` is null where lane i takes no part.
typedef void (*Meeting)(void** lanes);

extern "C" {
/// Waits for `count` threads of the block (0: all that are left); returns how many brought a predicate other than 0.
/// `line` and `column` are the call's in the source: the compiler may have made code for one barrier twice.
int fw_barrier(int id, int count, int predicate, bool arrive_only, unsigned line, unsigned column);
/// Waits for the lanes of `mask` to call with the same `meeting`; the last one runs it.
void fw_meet(unsigned mask, Meeting meeting, void* mine);
/// Returns the lanes that are at this call together: those that cannot come are not waited for.
unsigned fw_together();
/// Returns the byte that values from nowhere consist of: large numbers of either sign, by the order of the run.
int fw_garbage();
unsigned fw_lane();
unsigned fw_thread();
void* fw_dynamic_shared();
unsigned fw_dynamic_bytes();
uint32_t fw_to_shared(const void* pointer);
void* fw_from_shared(uint32_t address);
bool fw_is_shared(const void* pointer);
/// Says that the calling code reads, writes or changes `bytes` at `pointer`: for code that is not instrumented.
void fw_read(const void* pointer, size_t bytes, const void* from);
void fw_write(const void* pointer, size_t bytes, const void* from);
void fw_atomic(const void* pointer, size_t bytes, const void* from);
/// Says that what the block has done to memory so far becomes visible before what it does next.
void fw_fence();
/// Says that the launch orders its blocks in a way that is not followed.
void fw_order_unknown();
/// Says that an atomic operation has changed a value.
void fw_changed();
/// Copies to shared memory that land when their thread waits for their group.
void fw_copy_async(void* to, const void* from, int bytes, int have, const void* at);
void fw_commit_group();
void fw_wait_group(int pending);
/// Lets the others of the block run: called where a thread may be waiting for what they write.
void fw_relax();
[[noreturn]] void fw_trap(const char* kind, const char* message);
uint64_t fw_clock();
}
}  // namespace fw
