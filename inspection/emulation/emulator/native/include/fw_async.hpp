// cp.async: a copy lands when its thread waits for it, not before, so that a missing wait shows.
#pragma once
#include "cuda_shim.hpp"

namespace fw {

FW_QUIET inline void copy_async(void* to, const void* from, int bytes, int have) {
    const void* at = FW_FROM;
    if (bytes != 4 && bytes != 8 && bytes != 16) fw_trap("failed", "an asynchronous copy takes 4, 8 or 16 bytes");
    if (have < 0 || have > bytes) fw_trap("failed", "an asynchronous copy has more bytes to read than to write");
    if (!fw_is_shared(to)) fw_trap("failed", "an asynchronous copy goes to shared memory only");
    if (uintptr_t(to) % bytes || (have && uintptr_t(from) % bytes))
        fw_trap("failed", "an asynchronous copy needs addresses that are multiples of its size");
    fw_copy_async(to, from, bytes, have, at);
}
inline __attribute__((always_inline)) void commit_group() { fw_commit_group(); }
inline __attribute__((always_inline)) void wait_group(int n) { fw_wait_group(n); }
inline __attribute__((always_inline)) void wait_all() { fw_commit_group(), fw_wait_group(0); }

}  // namespace fw
