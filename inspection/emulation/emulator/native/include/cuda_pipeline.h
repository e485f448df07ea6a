#pragma once
#include "fw_async.hpp"
inline __attribute__((always_inline)) void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0) {
    fw::copy_async(to, from, int(bytes), int(bytes - zeros));
}
inline __attribute__((always_inline)) void __pipeline_commit() { fw::commit_group(); }
inline __attribute__((always_inline)) void __pipeline_wait_prior(size_t n) { fw::wait_group(int(n)); }
