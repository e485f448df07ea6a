// What the candidate may touch, and in which order: bounds, uninitialised and racing accesses to shared memory, and
// accesses of two blocks of a launch to the same bytes of a buffer that nothing orders.
// g++ -fsanitize=thread calls __tsan_* before each access, -fsanitize=bounds and =alignment __ubsan_* at a fault.
#include "runtime.hpp"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace fw {
namespace {

constexpr unsigned SLOTS = 96, CONFLICTS = 64, COPIES = 4096, NOTICES = 1024;
/// More blocks than these are not told apart.
constexpr uint32_t MOST_BLOCKS = 1 << 14;
constexpr uint32_t DYNAMIC_WINDOW = 0x400, STATIC_WINDOW = 0x100000;

/// The last access of its sort to one byte. `many`: 1 where several lanes of a warp had it, 2 where several warps.
struct Access {
    uint32_t epoch, warp_epoch;
    const void* at;
    uint16_t thread;
    uint8_t many, atomic;
};
struct Cell {
    Access write, read;
    uint32_t block;
};
struct Conflict {
    uintptr_t address;
    unsigned bytes, other;
    const void *at, *before;
    bool read_first;
    /// 0, or one more than the other block's number: the bytes are in a buffer.
    uint32_t other_block;
    uint8_t old[16];
};

/// The last access of its sort to one byte of a buffer: by which block of the launch, and when.
struct Visit {
    const void* at;
    uint32_t launch, block, time;
    bool atomic;
};
struct Spot {
    Visit write, read;
};
/// What whoever uses this address atomically learns: until when accesses of each block of the launch are visible.
struct Notice {
    uintptr_t address;
    uint32_t* seen;
};

/// A copy under way; `group` counts the groups that its thread had closed before.
struct Copy {
    uint8_t data[16];
    void* to;
    const void* at;
    uint16_t thread;
    uint8_t bytes;
    uint32_t group;
};

// A thread that returned while others waited at a barrier, and where it had written last.
struct Skip {
    uintptr_t way;
    unsigned thread;
    const void* barrier;
};

Skip skips[SLOTS];
unsigned skip_count;
Range ranges[SLOTS];
unsigned range_count;
const Range* last = ranges;
Range* dynamic_range;
Range* static_range;
Cell *dynamic_cells, *static_cells;
Conflict conflicts[CONFLICTS];
Spot* spots[SLOTS];
Notice notices[NOTICES];
unsigned notice_count;
uint32_t* seen;
uint32_t blocks, launch_number, linear_block, moment, fenced;
bool across_blocks;
Copy* copies;
unsigned copy_count, copy_room;
uint32_t groups[MAX_THREADS];
unsigned conflict_count;
uint32_t block_number;

const Range* find(uintptr_t address, size_t bytes) {
    if (last->begin <= address && address + bytes <= last->end) return last;
    for (unsigned i = 0; i < range_count; i++)
        if (ranges[i].begin <= address && address + bytes <= ranges[i].end) return last = &ranges[i];
    return nullptr;
}

bool ordered(const Access& before) {
    if (before.epoch != device.epoch) return true;
    if (before.many == 2) return false;
    const unsigned warp = before.thread / 32;
    if (before.many == 0 && before.thread == device.thread) return true;
    return warp == device.thread / 32 && before.warp_epoch != device.warp_epochs[warp];
}

void race(const Access& before, const void* at, unsigned bytes, const char* did, const char* had) {
    if (!known("race", at)) {
        char who[32] = "another thread";
        if (before.thread != device.thread) snprintf(who, sizeof who, "thread %u", unsigned(before.thread));
        report("race", at, before.at, "thread %u of the block %s shared memory that %s %s, with no barrier between",
               device.thread, did, who, had);
    }
    count_more("race", at, bytes);
}

void conflict(const Access& before, uintptr_t address, unsigned bytes, const void* at, bool read_first) {
    if (conflict_count == CONFLICTS || bytes > sizeof(Conflict::old)) return;
    Conflict& c = conflicts[conflict_count++];
    c = {address, bytes, before.thread, at, before.at, read_first, 0, {}};
    memcpy(c.old, reinterpret_cast<const void*>(address), bytes);
}

Access mine(const void* at, bool atomic) {
    return {device.epoch, device.warp_epochs[device.thread / 32], at, uint16_t(device.thread), 0, atomic};
}

void note_read(Access& old, const Access& now) {
    if (old.epoch == now.epoch && old.thread != now.thread) {
        const bool same_warp = old.thread / 32 == now.thread / 32;
        const uint8_t many = !same_warp || old.many == 2 ? 2 : old.warp_epoch == now.warp_epoch ? 1 : 0;
        old = now, old.many = many;
    } else {
        const uint8_t many = old.epoch == now.epoch ? old.many : 0;
        old = now, old.many = many;
    }
}

void shadow(const Range& range, uintptr_t address, size_t bytes, bool writes, bool atomic, const void* at,
            bool later = false) {
    Cell* cells = (range.kind == DYNAMIC ? dynamic_cells : static_cells) + (address - range.begin);
    const Access now = mine(at, atomic);
    bool told = false;
    for (size_t i = 0; i < bytes; i++) {
        Cell& cell = cells[i];
        if (cell.block != block_number) {
            cell = {};
            cell.block = block_number;
        }
        const bool both_atomic = atomic && cell.write.atomic;
        if (!told && !both_atomic && !ordered(cell.write)) {
            told = true;
            if (writes && !later)
                conflict(cell.write, address, bytes, at, false);
            else
                race(cell.write, at, unsigned(bytes), writes ? "writes to" : "reads", "writes");
        }
        if (!told && writes && !ordered(cell.read) && !(atomic && cell.read.atomic)) {
            told = true;
            if (later)
                race(cell.read, at, unsigned(bytes), "starts a copy to", "reads");
            else
                conflict(cell.read, address, bytes, at, true);
        }
        if (!writes && cell.write.at == nullptr) note_uninitialised(at);
        if (writes) cell.write = now;
        if (!writes) note_read(cell.read, now);
    }
}

/// Notes that a copy has landed: from here on, a barrier makes it visible to others.
void land(const Range& range, uintptr_t address, size_t bytes, const void* at) {
    Cell* cells = (range.kind == DYNAMIC ? dynamic_cells : static_cells) + (address - range.begin);
    for (size_t i = 0; i < bytes; i++) cells[i].write = mine(at, false);
}

void race_of_blocks(uint32_t other, const void* before, const void* at, unsigned bytes, const char* did, const char* had) {
    if (!known("race", at))
        report("race", at, before, "the block %s bytes of a buffer that block %u of the launch %s, neither atomically nor behind "
               "a fence and an atomic operation that both blocks make", did, other, had);
    count_more("race", at, bytes);
}

bool ordered_across(const Visit& before) {
    return !before.at || before.launch != launch_number || before.block == linear_block || seen[before.block] > before.time;
}

/// Notes an access to a buffer, and whether another block's is ordered before it.
void visit(const Range& range, uintptr_t address, size_t bytes, bool writes, bool atomic, const void* at) {
    Spot* cells = spots[&range - ranges] + (address - range.begin);
    const Visit now = {at, launch_number, linear_block, moment, atomic};
    bool found = false;
    for (size_t i = 0; i < bytes; i++) {
        Spot& spot = cells[i];
        const Visit* before = !ordered_across(spot.write) && !(spot.write.atomic && (atomic || !writes)) ? &spot.write
                              : writes && !ordered_across(spot.read) && !(spot.read.atomic && atomic)    ? &spot.read
                                                                                                         : nullptr;
        if (before && !found) {
            found = true;
            const bool read_first = before == &spot.read;
            if (!writes) {
                race_of_blocks(before->block, before->at, at, unsigned(bytes), "reads", "writes");
            } else if (conflict_count < CONFLICTS && bytes <= sizeof(Conflict::old)) {
                Conflict& c = conflicts[conflict_count++];
                c = {address, unsigned(bytes), 0, at, before->at, read_first, before->block + 1, {}};
                memcpy(c.old, reinterpret_cast<const void*>(address), bytes);
            }
        }
        (writes ? spot.write : spot.read) = now;
    }
}

/// Takes over what others have told at an address that the block uses atomically, and tells what it had fenced.
void exchange(uintptr_t address) {
    Notice* notice = nullptr;
    for (unsigned i = 0; i < notice_count && !notice; i++)
        if (notices[i].address == address) notice = &notices[i];
    if (!notice) {
        if (!fenced) return;  // nobody has anything to tell
        if (notice_count == NOTICES) {
            across_blocks = false;
            return;
        }
        notice = &notices[notice_count];
        if (!notice->seen) notice->seen = static_cast<uint32_t*>(malloc(MOST_BLOCKS * sizeof(uint32_t)));
        if (!notice->seen) finish("failed", "no memory to keep track of blocks");
        memset(notice->seen, 0, blocks * sizeof(uint32_t));
        notice->address = address;
        notice_count++;
    }
    if (fenced > seen[linear_block]) seen[linear_block] = fenced;
    for (uint32_t b = 0; b < blocks; b++) {
        const uint32_t both = seen[b] > notice->seen[b] ? seen[b] : notice->seen[b];
        seen[b] = notice->seen[b] = both;
    }
}

// Names the place of a write: where it is made, and the calls on the thread's stack that led there.
uintptr_t way_to(const void* at) {
    uintptr_t way = uintptr_t(at);
    auto frame = static_cast<const uintptr_t*>(__builtin_frame_address(0));
    while (in_own_stack(uintptr_t(frame + 1))) {
        way = way * 31 + frame[1];
        auto outer = reinterpret_cast<const uintptr_t*>(frame[0]);
        if (outer <= frame) break;
        frame = outer;
    }
    return way;
}

// Code that a thread has reached without the barrier before it, which others have waited at, is no early return.
void note_write(const void* at) {
    const uintptr_t way = way_to(at);
    device.wrote[device.thread] = way;
    for (unsigned i = 0; i < skip_count; i++) {
        const Skip& skip = skips[i];
        if (skip.way != way) continue;
        if (!known("divergent barrier", skip.barrier))
            report("divergent barrier", skip.barrier, at,
                   "thread %u came past this barrier without waiting, while thread %u of its block waited there",
                   skip.thread, device.thread);
        count_more("divergent barrier", skip.barrier, 1);
    }
}

[[noreturn]] void out_of_bounds(uintptr_t address, size_t bytes, bool writes, const void* at) {
    char text[256];
    report("out of bounds", at, nullptr, "%s %zu bytes %s", writes ? "writes" : "reads", bytes,
           describe_address(address, bytes, text, sizeof text));
    finish("failed", "a kernel reached outside its buffers");
}

inline void touch(uintptr_t address, size_t bytes, bool writes, const void* at, bool atomic = false) {
    if (!device.running) return;
    device.last_access = at;
    const Range* range = find(address, bytes);
    if (!range || (writes && range->read_only)) out_of_bounds(address, bytes, writes, at);
    device.changes += writes && !atomic;
    if (writes && range->kind != STACKS) note_write(at);
    device.atomics |= atomic && writes && range->kind == BUFFER;
    if (range->kind == DYNAMIC || range->kind == STATIC) shadow(*range, address, bytes, writes, atomic, at);
    if (range->kind == BUFFER && across_blocks && spots[range - ranges]) {
        if (atomic) exchange(address);
        visit(*range, address, bytes, writes, atomic, at);
    }
}

inline void aligned(uintptr_t address, size_t bytes, const void* at) {
    if (address % bytes == 0 || !device.running) return;
    char text[256];
    report("out of bounds", at, nullptr, "reaches %zu bytes at an address that is not a multiple of %zu, %s", bytes, bytes,
           describe_address(address, bytes, text, sizeof text));
    finish("failed", "a misaligned access, which a GPU refuses");
}

int own_segments(dl_phdr_info* info, size_t, void*) {
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)& segment = info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD) add_range({begin, begin + segment.p_memsz, IMAGE, false, "the program's own data"});
        if (segment.p_type == PT_TLS && info->dlpi_tls_data) {
            const uintptr_t tls = uintptr_t(info->dlpi_tls_data);
            static_range = &ranges[range_count];
            add_range({tls, tls + segment.p_memsz, STATIC, false, "a __shared__ variable"});
        }
    }
    return 1;  // the program comes first; its libraries hold nothing that a kernel may touch
}

template <class T>
T* make_cells(size_t count) {
    void* cells = mmap(nullptr, count * sizeof(T) + 1, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED) finish("failed", "no memory to keep track of accesses");
    return static_cast<T*>(cells);
}

}  // namespace

void add_range(const Range& range) {
    if (range_count == SLOTS) finish("failed", "the plan has too many buffers");
    if (range.kind == BUFFER && !range.read_only && !device.hollow) spots[range_count] = make_cells<Spot>(range.end - range.begin);
    ranges[range_count++] = range;
}

void set_up_memory() {
    constexpr size_t guard = 1 << 20;
    char* region = static_cast<char*>(mmap(reinterpret_cast<void*>(DYNAMIC_SHARED - guard), SHARED_BYTES + 2 * guard,
                                           PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                                           -1, 0));
    if (region == MAP_FAILED || mprotect(region + guard, (SHARED_BYTES + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE))
        finish("failed", "no memory for shared memory");
    dynamic_range = &ranges[range_count];
    add_range({uintptr_t(region) + guard, uintptr_t(region) + guard, DYNAMIC, false, "dynamic shared memory"});
    dl_iterate_phdr(own_segments, nullptr);
    dynamic_cells = make_cells<Cell>(SHARED_BYTES);
    if (static_range) static_cells = make_cells<Cell>(static_range->end - static_range->begin);
    seen = make_cells<uint32_t>(MOST_BLOCKS);
}

void begin_launch_memory(unsigned bytes, unsigned long long grid) {
    launch_number++;
    moment = 1;
    notice_count = 0;
    across_blocks = grid > 1 && grid <= MOST_BLOCKS;
    blocks = across_blocks ? uint32_t(grid) : 0;
    if (bytes > SHARED_BYTES) finish("failed", "the launch asks for more shared memory than a block can have (227 KiB)");
    dynamic_range->end = dynamic_range->begin + bytes;
}

void begin_block_memory() {
    memset(device.wrote, 0, sizeof device.wrote);
    skip_count = 0;
    linear_block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    fenced = 0;
    memset(seen, 0, blocks * sizeof(uint32_t));
    block_number++;
    device.epoch++;
    copy_count = 0;
    memset(groups, 0, sizeof groups);
    memset(device.arrived, 0, sizeof device.arrived);
    // As float a NaN, as an integer the largest or -1.
    memset(reinterpret_cast<void*>(dynamic_range->begin), 0xFF, dynamic_range->end - dynamic_range->begin);
    if (static_range)
        memset(reinterpret_cast<void*>(static_range->begin), 0xFF, static_range->end - static_range->begin);
}

void skipped_barrier(unsigned thread, const void* barrier) {
    const uintptr_t way = device.wrote[thread];
    for (unsigned i = 0; i < skip_count; i++)
        if (skips[i].way == way) return;
    if (way && skip_count < SLOTS) skips[skip_count++] = {way, thread, barrier};
}

void settle_conflicts() {
    // A write that left the byte as it was, as where all threads write the same, harms nobody.
    for (unsigned i = 0; i < conflict_count; i++) {
        const Conflict& c = conflicts[i];
        if (memcmp(c.old, reinterpret_cast<const void*>(c.address), c.bytes) == 0) continue;
        if (c.other_block) {
            race_of_blocks(c.other_block - 1, c.before, c.at, c.bytes, "writes to", c.read_first ? "reads" : "writes");
            continue;
        }
        Access before = {};
        before.thread = uint16_t(c.other), before.at = c.before;
        race(before, c.at, c.bytes, "writes to", c.read_first ? "reads" : "writes");
    }
    conflict_count = 0;
}

const char* describe_address(uintptr_t address, size_t bytes, char* text, size_t size) {
    const Range* best = nullptr;
    size_t distance = ~size_t(0);
    for (unsigned i = 0; i < range_count; i++) {
        const Range& r = ranges[i];
        if (r.kind == IMAGE || r.kind == STACKS) continue;
        const size_t away = address < r.begin ? r.begin - address : address + bytes > r.end ? address + bytes - r.end : 0;
        if (away < distance) distance = away, best = &r;
    }
    if (!best || distance > FAR)
        snprintf(text, size, "at 0x%zx, which is in no buffer", size_t(address));
    else if (distance == 0)
        snprintf(text, size, "at byte %zu of %s%s", size_t(address - best->begin), best->name,
                 best->read_only ? ", which is read-only" : "");
    else if (address < best->begin)
        snprintf(text, size, "%zu bytes before the start of %s", size_t(best->begin - address), best->name);
    else
        snprintf(text, size, "from byte %zu of %s, which has %zu", size_t(address - best->begin), best->name,
                 size_t(best->end - best->begin));
    return text;
}

extern "C" {

void* fw_dynamic_shared() { return reinterpret_cast<void*>(dynamic_range->begin); }
unsigned fw_dynamic_bytes() { return unsigned(dynamic_range->end - dynamic_range->begin); }

bool fw_is_shared(const void* pointer) {
    const uintptr_t p = uintptr_t(pointer);
    return (p >= dynamic_range->begin && p <= dynamic_range->end) ||
           (static_range && p >= static_range->begin && p <= static_range->end);
}

uint32_t fw_to_shared(const void* pointer) {
    const uintptr_t p = uintptr_t(pointer);
    if (static_range && p >= static_range->begin && p < static_range->end)
        return STATIC_WINDOW + uint32_t(p - static_range->begin);
    return DYNAMIC_WINDOW + uint32_t(p - dynamic_range->begin);
}

void* fw_from_shared(uint32_t address) {
    if (static_range && address >= STATIC_WINDOW)
        return reinterpret_cast<void*>(static_range->begin + (address - STATIC_WINDOW));
    return reinterpret_cast<void*>(dynamic_range->begin + (address - DYNAMIC_WINDOW));
}

void fw_copy_async(void* to, const void* from, int bytes, int have, const void* at) {
    if (have > 0) touch(uintptr_t(from), size_t(have), false, at);
    const Range* range = find(uintptr_t(to), size_t(bytes));
    if (!range) out_of_bounds(uintptr_t(to), size_t(bytes), true, at);
    shadow(*range, uintptr_t(to), size_t(bytes), true, false, at, true);
    if (copy_count == copy_room) {
        copy_room = copy_room ? 2 * copy_room : COPIES;
        copies = static_cast<Copy*>(realloc(copies, copy_room * sizeof(Copy)));
        if (!copies) finish("failed", "no memory for asynchronous copies");
    }
    Copy& copy = copies[copy_count++];
    copy = {{}, to, at, uint16_t(device.thread), uint8_t(bytes), groups[device.thread]};
    memcpy(copy.data, from, size_t(have > 0 ? have : 0));
}

void fw_commit_group() { groups[device.thread]++; }

void fw_wait_group(int pending) {
    const uint32_t closed = groups[device.thread];
    unsigned kept = 0;
    for (unsigned i = 0; i < copy_count; i++) {
        const Copy copy = copies[i];
        if (copy.thread == device.thread && copy.group < closed && closed - copy.group > uint32_t(pending)) {
            const Range* range = find(uintptr_t(copy.to), copy.bytes);
            memcpy(copy.to, copy.data, copy.bytes);
            land(*range, uintptr_t(copy.to), copy.bytes, copy.at);
        } else {
            copies[kept++] = copy;
        }
    }
    copy_count = kept;
}

void fw_read(const void* p, size_t n, const void* from) { touch(uintptr_t(p), n, false, from); }
void fw_write(const void* p, size_t n, const void* from) { touch(uintptr_t(p), n, true, from); }
void fw_atomic(const void* p, size_t n, const void* from) {
    aligned(uintptr_t(p), n, from);
    touch(uintptr_t(p), n, true, from, true);
}

void fw_changed() { device.changes++; }

void fw_order_unknown() { across_blocks = false; }

void fw_fence() {
    if (device.running) fenced = ++moment;
}

#define FROM __builtin_return_address(0)
#define HOOKS(n)                                                                                                     \
    void __tsan_read##n(void* p) { aligned(uintptr_t(p), n, FROM), touch(uintptr_t(p), n, false, FROM); }            \
    void __tsan_write##n(void* p) { aligned(uintptr_t(p), n, FROM), touch(uintptr_t(p), n, true, FROM); }            \
    void __tsan_unaligned_read##n(void* p) { touch(uintptr_t(p), n, false, FROM); }                                  \
    void __tsan_unaligned_write##n(void* p) { touch(uintptr_t(p), n, true, FROM); }                                  \
    void __tsan_volatile_write##n(void* p) { touch(uintptr_t(p), n, true, FROM, true), device.changes++; }           \
    void __tsan_unaligned_volatile_write##n(void* p) { touch(uintptr_t(p), n, true, FROM, true), device.changes++; } \
    void __tsan_volatile_read##n(void* p) { touch(uintptr_t(p), n, false, FROM, true), fw_relax(); }                 \
    void __tsan_unaligned_volatile_read##n(void* p) { touch(uintptr_t(p), n, false, FROM, true), fw_relax(); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_read_range(void* p, size_t n) { touch(uintptr_t(p), n, false, FROM); }
void __tsan_write_range(void* p, size_t n) { touch(uintptr_t(p), n, true, FROM); }
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}

struct SourcePlace {
    const char* file;
    uint32_t line, column;
};
struct Type {
    uint16_t kind, info;
    char name[1];
};
struct BoundsData {
    SourcePlace place;
    const Type *array, *index;
};
struct MismatchData {
    SourcePlace place;
    const Type* type;
    uint8_t log_alignment, check;
};

void __ubsan_handle_out_of_bounds(BoundsData* data, uintptr_t index) {
    if (!device.running) return;
    // It goes on: one row of an array of rows may be used for all of it. Beyond the whole, the access itself is refused.
    if (!known("out of bounds", FROM))
        report("out of bounds", FROM, nullptr, "index %zd of an array of type %s", ssize_t(index), data->array->name);
    count_more("out of bounds", FROM, 1);
}

void __ubsan_handle_type_mismatch_v1(MismatchData* data, uintptr_t pointer) {
    if (pointer && data->log_alignment) aligned(pointer, size_t(1) << data->log_alignment, FROM);
}
}
}  // namespace fw
