// The emulated device: each thread of a block is a fiber; blocks run one after another.
// Compiled with -fsanitize=thread, the candidate announces each access to memory by a call to a function here.
#include "runtime.hpp"

#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace fw {

Device device;

namespace {

constexpr size_t STACK = 256 << 10, STACK_GUARD = 64 << 10;
constexpr unsigned WARP = 32;
constexpr unsigned IDLE = 20000;
constexpr int CALLS = 8;

enum State : uint8_t { READY, BARRIER, MEETING, TOGETHER, DONE };

struct Fiber {
    void* stack_pointer;
    State state;
    uint3 index;
    // At a barrier or a meeting: what it waits for.
    int barrier, count, predicate, result;
    unsigned mask;
    Meeting meeting;
    void* mine;
    const void* at;
    unsigned line, column;
    // The calls that led to a barrier, the innermost first.
    const void* calls[CALLS];
};

Fiber fibers[MAX_THREADS];
unsigned threads, alive, current;
void* scheduler;
char* stacks;
const Launch* launch;
unsigned idle;
bool progressed, backwards;

extern "C" void fw_switch(void** save, void* load);
asm(R"(
.text
.globl fw_switch
.type fw_switch, @function
fw_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size fw_switch, .-fw_switch
)");

void leave() {
    settle_conflicts();
    fw_switch(&fibers[current].stack_pointer, scheduler);
}

void start() {
    launch->kernel->call(launch->arguments);
    fibers[current].state = DONE;
    alive--;
    progressed = true;
    release_after_exit();
    leave();
    abort();  // a finished fiber is never resumed
}

void prepare(unsigned i) {
    char* top = stacks + (i + 1) * (STACK + STACK_GUARD);
    void** frame = reinterpret_cast<void**>(top) - 8;
    for (int r = 0; r < 6; r++) frame[r] = nullptr;
    frame[6] = reinterpret_cast<void*>(&start);
    frame[7] = nullptr;
    fibers[i] = {};
    fibers[i].stack_pointer = frame;
    fibers[i].index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
}

void enter(unsigned i) {
    current = i;
    threadIdx = fibers[i].index;
    device.thread = i;
    fw_switch(&scheduler, fibers[i].stack_pointer);
}

unsigned lanes_of(unsigned warp) {
    const unsigned left = threads - warp * WARP;
    return left >= WARP ? ~0u : (1u << left) - 1;
}

// All threads of a block have to come to the same __syncthreads, not to one each in the branches of a condition.
void compare_places() {
    const Fiber* first = nullptr;
    for (unsigned i = 0; i < threads; i++) {
        const Fiber& one = fibers[i];
        if (one.state != BARRIER || one.barrier != 0) continue;
        if (!first) first = &one;
        int call = 0;
        while (call < CALLS && one.calls[call] == first->calls[call]) call++;
        if (one.at == first->at && call == CALLS) continue;
        if (one.at == first->at) {
            if (!known("divergent barrier", one.calls[call]))
                report("divergent barrier", one.calls[call], first->calls[call],
                       "thread %u comes to a barrier by this call while thread %u comes by another one, which is "
                       "undefined", i, unsigned(first - fibers));
            count_more("divergent barrier", one.calls[call], 1);
            return;
        }
        const bool beside = one.line == first->line && one.column != first->column;
        if (!known("divergent barrier", one.at))
            report("divergent barrier", one.at, beside ? nullptr : first->at,
                   "thread %u is at this barrier while thread %u is at another one%s, which is undefined", i,
                   unsigned(first - fibers), beside ? " in the same line" : "");
        count_more("divergent barrier", one.at, 1);
        return;
    }
}

void note_skips() {
    const void* at = nullptr;
    for (unsigned i = 0; i < threads; i++)
        if (fibers[i].state == BARRIER && fibers[i].barrier == 0) at = fibers[i].at;
    for (unsigned i = 0; i < threads && at; i++)
        if (fibers[i].state == DONE) skipped_barrier(i, at);
}

// Lets the threads at a barrier go on once it has all it waits for. Since Volta it waits for no thread that has returned.
void try_barrier(int id) {
    unsigned waiting = 0;
    int count = 0, predicates = 0;
    for (unsigned i = 0; i < threads; i++) {
        if (fibers[i].state != BARRIER || fibers[i].barrier != id) continue;
        waiting++;
        predicates += fibers[i].predicate != 0;
        if (fibers[i].count) count = fibers[i].count;
    }
    waiting += device.arrived[id];
    if (waiting == 0 || waiting < (count ? unsigned(count) : alive)) return;
    if (id == 0 && !count) compare_places(), note_skips();
    device.arrived[id] = 0;
    device.epoch++;
    progressed = true;
    for (unsigned i = 0; i < threads; i++) {
        if (fibers[i].state != BARRIER || fibers[i].barrier != id) continue;
        fibers[i].state = READY;
        fibers[i].result = predicates;
        device.wrote[i] = 0;
    }
}

bool try_meeting(unsigned who) {
    const Fiber& one = fibers[who];
    const unsigned base = who / WARP * WARP, wanted = one.mask & lanes_of(who / WARP);
    void* lanes[WARP] = {};
    for (unsigned lane = 0; lane < WARP; lane++) {
        if (!(wanted >> lane & 1)) continue;
        const Fiber& other = fibers[base + lane];
        if (other.state == DONE) continue;
        if (other.state != MEETING || other.meeting != one.meeting || other.mask != one.mask) return false;
        lanes[lane] = other.mine;
    }
    if (one.meeting) one.meeting(lanes);
    device.warp_epochs[who / WARP]++;
    progressed = true;
    for (unsigned lane = 0; lane < WARP; lane++)
        if (lanes[lane]) fibers[base + lane].state = READY;
    return true;
}

bool release_together() {
    bool any = false;
    for (unsigned warp = 0; warp * WARP < threads; warp++) {
        const void* at = nullptr;
        unsigned mask = 0;
        const unsigned end = warp * WARP + WARP < threads ? warp * WARP + WARP : threads;
        for (unsigned i = warp * WARP; i < end; i++) {
            if (fibers[i].state != TOGETHER || (at && fibers[i].at != at)) continue;
            at = fibers[i].at;
            mask |= 1u << (i - warp * WARP);
        }
        for (unsigned i = warp * WARP; i < end; i++)
            if (mask >> (i - warp * WARP) & 1) fibers[i].mask = mask, fibers[i].state = READY, any = true;
    }
    return any;
}

[[noreturn]] void deadlock() {
    unsigned barrier = 0, meeting = 0, done = 0, first = threads, lane = threads;
    for (unsigned i = 0; i < threads; i++) {
        if (fibers[i].state == DONE) done++;
        if (fibers[i].state == BARRIER && barrier++ == 0) first = i;
        if (fibers[i].state == MEETING && meeting++ == 0) lane = i;
    }
    const unsigned who = first < threads ? first : lane;
    device.thread = who;
    threadIdx = fibers[who].index;
    report("divergent barrier", fibers[who].at, nullptr,
           "the block waits for ever: %u of its %u threads are at a barrier, %u at a warp operation (mask 0x%08x) whose "
           "other lanes do not come, %u have returned",
           barrier, threads, meeting, lane < threads ? fibers[lane].mask : 0, done);
    finish("failed", "the block never ends: its threads wait for each other (a deadlock)");
}

}  // namespace

void release_after_exit() {
    for (int id = 0; id < BARRIERS; id++) try_barrier(id);
    const unsigned warp = current / WARP, end = warp * WARP + WARP < threads ? warp * WARP + WARP : threads;
    for (unsigned i = warp * WARP; i < end; i++)
        if (fibers[i].state == MEETING && try_meeting(i)) break;
}

void run_block(const Launch& what, bool descending) {
    launch = &what;
    backwards = descending;
    threads = alive = blockDim.x * blockDim.y * blockDim.z;
    idle = 0;
    begin_block_memory();
    for (unsigned i = 0; i < threads; i++) prepare(i);
    while (alive) {
        const uint64_t changes = device.changes;
        bool ran = false;
        progressed = false;
        device.running = true;
        for (unsigned k = 0; k < threads; k++) {
            const unsigned i = descending ? threads - 1 - k : k;
            if (fibers[i].state != READY) continue;
            enter(i);
            ran = true;
        }
        device.running = false;
        if (!ran && !release_together()) deadlock();
        idle = progressed || changes != device.changes ? 0 : idle + 1;
        if (idle > IDLE) finish("waits", "threads wait in a loop for a value that no thread of their block writes");
    }
}

void make_stacks() {
    const size_t all = MAX_THREADS * (STACK + STACK_GUARD);
    stacks = static_cast<char*>(
        mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (stacks == MAP_FAILED) finish("failed", "no memory for the threads' stacks");
    for (unsigned i = 0; i < MAX_THREADS; i++) mprotect(stacks + i * (STACK + STACK_GUARD), STACK_GUARD, PROT_NONE);
    add_range({uintptr_t(stacks), uintptr_t(stacks) + all, STACKS, false, "a local array"});
}

bool in_stack_guard(uintptr_t address) {
    const uintptr_t base = uintptr_t(stacks);
    return address >= base && address < base + MAX_THREADS * (STACK + STACK_GUARD) &&
           (address - base) % (STACK + STACK_GUARD) < STACK_GUARD;
}

bool in_own_stack(uintptr_t address) {
    const uintptr_t base = uintptr_t(stacks) + current * (STACK + STACK_GUARD);
    return address >= base + STACK_GUARD && address + sizeof(uintptr_t) <= base + STACK_GUARD + STACK;
}

unsigned thread_count() { return threads; }

extern "C" {

int fw_barrier(int id, int count, int predicate, bool arrive_only, unsigned line, unsigned column) {
    if (id < 0 || id >= BARRIERS) fw_trap("failed", "a barrier's number is not from 0 to 15");
    settle_conflicts();
    Fiber& me = fibers[current];
    if (arrive_only) {
        device.arrived[id]++;
        try_barrier(id);
        return 0;
    }
    me.state = BARRIER, me.barrier = id, me.count = count, me.predicate = predicate, me.at = __builtin_return_address(0);
    me.line = line, me.column = column;
    auto frame = static_cast<const uintptr_t*>(__builtin_frame_address(0));
    for (const void*& call : me.calls) {
        auto outer = reinterpret_cast<const uintptr_t*>(frame[0]);
        const bool more = outer > frame && in_own_stack(uintptr_t(outer + 1));
        call = more ? reinterpret_cast<const void*>(outer[1]) : nullptr;
        if (more) frame = outer;
    }
    try_barrier(id);
    if (me.state != READY) leave();
    return me.result;
}

void fw_meet(unsigned mask, Meeting meeting, void* mine) {
    settle_conflicts();
    Fiber& me = fibers[current];
    if (!(mask >> (current % WARP) & 1))
        fw_trap("failed", "a thread calls a warp operation with a mask that leaves the thread itself out");
    char nothing = 0;
    me.state = MEETING, me.mask = mask, me.meeting = meeting, me.mine = mine ? mine : &nothing;
    me.at = __builtin_return_address(0);
    if (!try_meeting(current)) leave();
}

unsigned fw_together() {
    settle_conflicts();
    Fiber& me = fibers[current];
    me.state = TOGETHER, me.at = __builtin_return_address(0);
    leave();
    return me.mask;
}

int fw_garbage() { return backwards ? 0xFB : 0x7B; }
unsigned fw_lane() { return current % WARP; }
unsigned fw_thread() { return current; }

void fw_relax() {
    if (device.running) leave();
}

uint64_t fw_clock() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}
}
}  // namespace fw
