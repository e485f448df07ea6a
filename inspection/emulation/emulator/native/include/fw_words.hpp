// CUDA's own words, for a host compiler. Comes before everything else in the candidate's translation unit.
#pragma once
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmath>
#include <limits>
#include <source_location>
#include <type_traits>
#include <utility>

#include "../fw_runtime.h"

#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 900
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
// "used", or else the compiler reads zero from what nobody writes to.
#define __shared__ __attribute__((used)) static thread_local
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
#define __cdecl

// Code that must not announce its accesses: they are not the candidate's.
#define FW_QUIET __attribute__((noinline, no_sanitize("thread"), no_sanitize("undefined")))
#define FW_FROM __builtin_return_address(0)

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;
typedef unsigned long long ulonglong;
typedef unsigned int uint;
typedef unsigned short ushort;
typedef unsigned char uchar;
typedef int cudaError_t;
typedef struct CUstream_st* cudaStream_t;
typedef unsigned long long cudaTextureObject_t;

namespace fw {

template <class To, class From>
inline __attribute__((always_inline)) To bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "sizes differ");
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return to;
}

template <class T>
constexpr Parameter parameter() {
    return {unsigned(sizeof(T)),
            (std::is_pointer<T>::value ? POINTER : 0u) | (std::is_floating_point<T>::value ? FLOATING : 0u)};
}

template <auto function>
struct Entry;

template <class... A, void (*function)(A...)>
struct Entry<function> {
    static constexpr Parameter parameters[sizeof...(A) + 1] = {parameter<std::remove_cv_t<A>>()..., {0, 0}};
    template <size_t... I>
    FW_QUIET static void pass(void** arguments, std::index_sequence<I...>) {
        function(*static_cast<std::remove_cv_t<A>*>(arguments[I])...);
    }
    FW_QUIET static void call(void** arguments) { pass(arguments, std::index_sequence_for<A...>()); }
    static constexpr Kernel named(const char* name) { return {name, &call, int(sizeof...(A)), parameters}; }
};

}  // namespace fw
