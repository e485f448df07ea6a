// Barriers, warp operations, atomics and loads with cache hints.
#pragma once

namespace fw {
inline __attribute__((always_inline)) int barrier_at(int p, std::source_location at) {
    return fw_barrier(0, 0, p, false, at.line(), at.column());
}
}
#define FW_AT std::source_location at = std::source_location::current()
inline __attribute__((always_inline)) void __syncthreads(FW_AT) { fw::barrier_at(0, at); }
inline __attribute__((always_inline)) int __syncthreads_count(int p, FW_AT) { return fw::barrier_at(p, at); }
inline __attribute__((always_inline)) int __syncthreads_or(int p, FW_AT) { return fw::barrier_at(p, at) != 0; }
inline __attribute__((always_inline)) int __syncthreads_and(int p, FW_AT) { return fw::barrier_at(!p, at) == 0; }
inline __attribute__((always_inline)) void __syncwarp(unsigned mask = 0xffffffffu) { fw::fw_meet(mask, nullptr, nullptr); }
inline __attribute__((always_inline)) unsigned __activemask() { return fw::fw_together(); }
inline void __threadfence() { fw::fw_fence(); }
inline void __threadfence_block() {}
inline void __threadfence_system() { fw::fw_fence(); }
inline void __nanosleep(unsigned) { fw::fw_relax(); }
[[noreturn]] inline void __trap() { fw::fw_trap("failed", "the kernel called __trap()"); }
inline void __brkpt() {}
inline void __prof_trigger(int) {}
inline long long clock64() { return (long long)fw::fw_clock(); }
inline long clock() { return long(fw::fw_clock()); }
#define __builtin_assume(x) ((void)0)
#define __assume(x) ((void)0)

namespace fw {

// Prefixed, because a candidate's tunables are macros.
enum Move { FW_INDEX, FW_UP, FW_DOWN, FW_XOR };

template <class T>
struct Shuffle {
    T value, result;
    int width, by;
    Move move;
};

/// Gives each lane another one's value; from a lane that is not there comes what no kernel may rely on. Masks may name
/// lanes that have returned, since Volta, but a maximum hides what comes from there if it is small or not a number.
template <class T>
FW_QUIET void shuffle_lanes(void** lanes) {
    T from[32];
    for (int i = 0; i < 32; i++) {
        __builtin_memset(static_cast<void*>(&from[i]), fw_garbage(), sizeof(T));
        if (lanes[i]) from[i] = static_cast<Shuffle<T>*>(lanes[i])->value;
    }
    for (int i = 0; i < 32; i++) {
        if (!lanes[i]) continue;
        Shuffle<T>& s = *static_cast<Shuffle<T>*>(lanes[i]);
        const int first = i / s.width * s.width, end = first + s.width;
        int source = i;
        if (s.move == FW_INDEX) source = first + (s.by & (s.width - 1));
        if (s.move == FW_UP && i - s.by >= first) source = i - s.by;
        if (s.move == FW_DOWN && i + s.by < end) source = i + s.by;
        if (s.move == FW_XOR && (i ^ s.by) < end) source = i ^ s.by;
        s.result = from[source & 31];
    }
}

template <class T>
FW_QUIET T shuffle(unsigned mask, T value, int by, int width, Move move) {
    if (width < 1 || width > 32 || (width & (width - 1))) fw_trap("failed", "a shuffle's width is not a power of two up to 32");
    Shuffle<T> mine = {value, value, width, by, move};
    fw_meet(mask, &shuffle_lanes<T>, &mine);
    return mine.result;
}

template <class T>
struct Vote {
    T value;
    unsigned result;
};

FW_QUIET inline void ballot_lanes(void** lanes) {
    unsigned all = 0;
    for (int i = 0; i < 32; i++)
        if (lanes[i] && static_cast<Vote<int>*>(lanes[i])->value) all |= 1u << i;
    for (int i = 0; i < 32; i++)
        if (lanes[i]) static_cast<Vote<int>*>(lanes[i])->result = all;
}

template <class T>
FW_QUIET void match_lanes(void** lanes) {
    for (int i = 0; i < 32; i++) {
        if (!lanes[i]) continue;
        Vote<T>& mine = *static_cast<Vote<T>*>(lanes[i]);
        mine.result = 0;
        for (int k = 0; k < 32; k++)
            if (lanes[k] && static_cast<Vote<T>*>(lanes[k])->value == mine.value) mine.result |= 1u << k;
    }
}

template <class T, class Op>
FW_QUIET void reduce_lanes(void** lanes) {
    bool any = false;
    T all{};
    for (int i = 0; i < 32; i++) {
        if (!lanes[i]) continue;
        const T value = *static_cast<T*>(lanes[i]);
        all = any ? Op::apply(all, value) : value;
        any = true;
    }
    for (int i = 0; i < 32; i++)
        if (lanes[i]) *static_cast<T*>(lanes[i]) = all;
}

#define FW_OP(name, expression)                                  \
    struct name {                                                \
        template <class T>                                       \
        static T apply(T a, T b) { return expression; }          \
    };
FW_OP(Add, T(a + b))
FW_OP(Min, b < a ? b : a)
FW_OP(Max, a < b ? b : a)
FW_OP(And, T(a & b))
FW_OP(Or, T(a | b))
FW_OP(Xor, T(a ^ b))
#undef FW_OP

template <class Op, class T>
FW_QUIET T reduce(unsigned mask, T value) {
    fw_meet(mask, &reduce_lanes<T, Op>, &value);
    return value;
}

template <class T, class Op>
FW_QUIET T change(T* p, Op op) {
    fw_atomic(p, sizeof(T), FW_FROM);
    const T old = *p, now = op(old);
    *p = now;
    if (__builtin_memcmp(&old, &now, sizeof(T))) fw_changed();
    fw_relax();
    return old;
}

}  // namespace fw

#define FW_INLINE template <class T> inline __attribute__((always_inline))
FW_INLINE T __shfl_sync(unsigned m, T v, int lane, int w = 32) { return fw::shuffle(m, v, lane, w, fw::FW_INDEX); }
FW_INLINE T __shfl_up_sync(unsigned m, T v, unsigned d, int w = 32) { return fw::shuffle(m, v, int(d), w, fw::FW_UP); }
FW_INLINE T __shfl_down_sync(unsigned m, T v, unsigned d, int w = 32) { return fw::shuffle(m, v, int(d), w, fw::FW_DOWN); }
FW_INLINE T __shfl_xor_sync(unsigned m, T v, int x, int w = 32) { return fw::shuffle(m, v, x, w, fw::FW_XOR); }
FW_QUIET inline unsigned __ballot_sync(unsigned mask, int predicate) {
    fw::Vote<int> mine = {predicate, 0};
    fw::fw_meet(mask, &fw::ballot_lanes, &mine);
    return mine.result;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }
template <class T>
FW_QUIET unsigned __match_any_sync(unsigned mask, T value) {
    fw::Vote<T> mine = {value, 0};
    fw::fw_meet(mask, &fw::match_lanes<T>, &mine);
    return mine.result;
}
template <class T>
FW_QUIET unsigned __match_all_sync(unsigned mask, T value, int* all) {
    const unsigned same = __match_any_sync(mask, value);
    *all = __all_sync(mask, (same & mask) == mask);
    return *all ? mask : 0;
}
FW_INLINE T __reduce_add_sync(unsigned m, T v) { return fw::reduce<fw::Add>(m, v); }
FW_INLINE T __reduce_min_sync(unsigned m, T v) { return fw::reduce<fw::Min>(m, v); }
FW_INLINE T __reduce_max_sync(unsigned m, T v) { return fw::reduce<fw::Max>(m, v); }
FW_INLINE T __reduce_and_sync(unsigned m, T v) { return fw::reduce<fw::And>(m, v); }
FW_INLINE T __reduce_or_sync(unsigned m, T v) { return fw::reduce<fw::Or>(m, v); }
FW_INLINE T __reduce_xor_sync(unsigned m, T v) { return fw::reduce<fw::Xor>(m, v); }

namespace fw {
template <class T>
struct Same {
    typedef T type;
};
template <class T>
using same = typename Same<T>::type;  // keeps the second argument out of deduction
}  // namespace fw

#define FW_ATOMIC(name, expression)                                                                              \
    template <class T>                                                                                           \
    inline __attribute__((always_inline)) T name(T* p, fw::same<T> v) {                                          \
        return fw::change(p, [=](T old) -> T { return expression; });                                            \
    }                                                                                                            \
    template <class T>                                                                                           \
    inline __attribute__((always_inline)) T name##_block(T* p, fw::same<T> v) { return name(p, v); }             \
    template <class T>                                                                                           \
    inline __attribute__((always_inline)) T name##_system(T* p, fw::same<T> v) { return name(p, v); }
FW_ATOMIC(atomicAdd, T(old + v))
FW_ATOMIC(atomicSub, T(old - v))
FW_ATOMIC(atomicMin, v < old ? v : old)
FW_ATOMIC(atomicMax, old < v ? v : old)
FW_ATOMIC(atomicExch, v)
FW_ATOMIC(atomicAnd, T(old & v))
FW_ATOMIC(atomicOr, T(old | v))
FW_ATOMIC(atomicXor, T(old ^ v))
FW_ATOMIC(atomicInc, old >= v ? T(0) : T(old + 1))
FW_ATOMIC(atomicDec, old == 0 || old > v ? v : T(old - 1))
#undef FW_ATOMIC
FW_INLINE T atomicCAS(T* p, fw::same<T> expected, fw::same<T> v) {
    return fw::change(p, [=](T old) -> T { return old == expected ? v : old; });
}
FW_INLINE T atomicCAS_block(T* p, fw::same<T> expected, fw::same<T> v) { return atomicCAS(p, expected, v); }
template <>
inline float2 atomicAdd<float2>(float2* p, float2 v) {
    return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)};
}
template <>
inline float4 atomicAdd<float4>(float4* p, float4 v) {
    return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y), atomicAdd(&p->z, v.z), atomicAdd(&p->w, v.w)};
}

#define FW_HINT(load, store)                                \
    FW_INLINE T load(const T* p) { return *p; }             \
    FW_INLINE void store(T* p, fw::same<T> v) { *p = v; }
FW_HINT(__ldg, __fw_unused_store)
FW_HINT(__ldcg, __stcg)
FW_HINT(__ldca, __stwb)
FW_HINT(__ldcs, __stcs)
FW_HINT(__ldlu, __stwt)
FW_HINT(__ldcv, __fw_unused_store_2)
#undef FW_HINT

inline size_t __cvta_generic_to_shared(const void* p) { return fw::fw_to_shared(p); }
inline void* __cvta_shared_to_generic(size_t a) { return fw::fw_from_shared(uint32_t(a)); }
inline size_t __cvta_generic_to_global(const void* p) { return size_t(p); }
inline bool __isShared(const void* p) { return fw::fw_is_shared(p); }
inline bool __isGlobal(const void* p) { return !fw::fw_is_shared(p); }
