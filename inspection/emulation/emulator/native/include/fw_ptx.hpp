// What inline PTX stands for, by the functions that ptx.py calls. Registers hold bits: any type of the right size will do.
#pragma once
#include "fw_ptx_matrices.hpp"

namespace fw {
namespace ptx {

FW_PTX mov(D& d, A a) { out(d, in<D>(a)); }
FW_PTX policy(D& d, A) { out(d, uint64_t(0)); }
FW_PTX2 policy(D& d, A, B) { out(d, uint64_t(0)); }
FW_PTX to_shared(D& d, A a) { d = D((uint64_t)a); }
FW_PTX2 pack(D& d, A a, B b) {
    char bytes[sizeof(A) + sizeof(B)];
    __builtin_memcpy(bytes, &a, sizeof a), __builtin_memcpy(bytes + sizeof a, &b, sizeof b);
    __builtin_memcpy(&d, bytes, sizeof d < sizeof bytes ? sizeof d : sizeof bytes);
}
template <class A, class B, class S>
inline void unpack(A& a, B& b, S s) {
    __builtin_memcpy(&a, &s, sizeof a);
    __builtin_memcpy(&b, reinterpret_cast<const char*>(&s) + sizeof a, sizeof b);
}

#define FW_ONE(name, expression) \
    template <class T, class D, class A> inline void name##_(D& d, A a_) { const T a = in<T>(a_); out(d, T(expression)); }
FW_ONE(neg, -a)
FW_ONE(abs, a < 0 ? -a : a)
FW_ONE(rcp, T(1) / a)
FW_ONE(sqrt, ::sqrt(a))
FW_ONE(rsqrt, T(1.0 / ::sqrt(double(a))))
FW_ONE(ex2, ::exp2(a))
FW_ONE(lg2, ::log2(a))
FW_ONE(sin, ::sin(a))
FW_ONE(cos, ::cos(a))
// The hardware's tanh has a relative error of up to 2^-11: a fraction of ten bits.
FW_ONE(tanh, bits<float>((bits<uint32_t>(float(::tanh(a))) + 0x1000u) & 0xFFFFE000u))
FW_ONE(not, ~(uint64_t)a)
FW_ONE(popc, __builtin_popcountll(uint64_t(a)))
FW_ONE(clz, sizeof(T) == 8 ? __clzll((long long)a) : __clz(int(a)))
FW_ONE(brev, sizeof(T) == 8 ? T(__brevll(uint64_t(a))) : T(__brev(unsigned(a))))
#define FW_TWO(name, expression)                            \
    template <class T, class D, class A, class B>           \
    inline void name##_(D& d, A a_, B b_) {                 \
        const T a = in<T>(a_), b = in<T>(b_);               \
        out(d, T(expression));                              \
    }
FW_TWO(add, a + b)
FW_TWO(sub, a - b)
FW_TWO(mul, a * b)
FW_TWO(div, a / b)
FW_TWO(min, ::min(a, b))
FW_TWO(max, ::max(a, b))
FW_TWO(rem, (int64_t)a % (int64_t)b)
FW_TWO(and, (uint64_t)a & (uint64_t)b)
FW_TWO(or, (uint64_t)a | (uint64_t)b)
FW_TWO(xor, (uint64_t)a ^ (uint64_t)b)
FW_TWO(copysign, ::copysign(b, a))
template <class T, class D, class A, class B>
inline void shl_(D& d, A a, B b) { out(d, T((uint64_t)in<uint32_t>(b) >= 8 * sizeof(T) ? 0 : (uint64_t)in<T>(a) << in<uint32_t>(b))); }
template <class T, class D, class A, class B>
inline void shr_(D& d, A a, B b) { out(d, T(in<T>(a) >> (in<uint32_t>(b) >= 8 * sizeof(T) ? 8 * sizeof(T) - 1 : in<uint32_t>(b)))); }
template <class T, class D, class A, class B, class C>
inline void fma_(D& d, A a, B b, C c) { out(d, T(::fma(in<T>(a), in<T>(b), in<T>(c)))); }
template <class T, class D, class A, class B, class C>
inline void mad(D& d, A a, B b, C c) { out(d, T(in<T>(a) * in<T>(b) + in<T>(c))); }
template <class T, class D, class A, class B>
inline void mul__wide(D& d, A a, B b) { out(d, (long long)in<T>(a) * (long long)in<T>(b)); }
template <class T, class D, class A, class B, class C>
inline void mad_wide(D& d, A a, B b, C c) { out(d, (long long)in<T>(a) * (long long)in<T>(b) + in<long long>(c)); }

#define FW_SET(name, op)                          \
    template <class T, class A, class B>          \
    inline void setp_##name(bool& p, A a, B b) { p = in<T>(a) op in<T>(b); }
FW_SET(eq, ==)
FW_SET(ne, !=)
FW_SET(lt, <)
FW_SET(le, <=)
FW_SET(gt, >)
FW_SET(ge, >=)
FW_PTX2 selp(D& d, A a, B b, bool p) { out(d, p ? in<D>(a) : in<D>(b)); }
FW_PTX3 prmt(D& d, A a, B b, C c) { out(d, __byte_perm(in<unsigned>(a), in<unsigned>(b), in<unsigned>(c))); }
template <class D, class A, class B, class C>
inline void lop3(D& d, A a_, B b_, C c_, int table) {
    const uint32_t a = in<uint32_t>(a_), b = in<uint32_t>(b_), c = in<uint32_t>(c_);
    uint32_t r = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    out(d, r);
}

// The first source goes to the upper half.
FW_PTX2 to_f16x2(D& d, A hi, B lo) { out(d, uint32_t(float_to_half(in<float>(hi))) << 16 | float_to_half(in<float>(lo))); }
FW_PTX2 to_bf16x2(D& d, A hi, B lo) { out(d, uint32_t(float_to_bfloat(in<float>(hi))) << 16 | float_to_bfloat(in<float>(lo))); }
FW_PTX to_tf32(D& d, A a) { out(d, nvcuda::wmma::shim::to_tf32(in<float>(a))); }
FW_PTX from_f16(D& d, A a) { out(d, half_to_float(as<uint16_t>(a))); }
FW_PTX from_bf16(D& d, A a) { out(d, bfloat_to_float(as<uint16_t>(a))); }
FW_PTX to_f16(D& d, A a) { out(d, float_to_half(in<float>(a))); }
FW_PTX to_bf16(D& d, A a) { out(d, float_to_bfloat(in<float>(a))); }
template <class To, class From, class D>
inline void converted(D& d, From a, double rounded) {
    out(d, std::is_integral<To>::value && std::is_floating_point<From>::value ? saturated<To>(rounded) : To(a));
}
#define FW_CONVERT(how, function) \
    template <class To, class From, class D, class A> \
    inline void convert_##how(D& d, A a) { converted<To, From>(d, in<From>(a), function(double(in<From>(a)))); }
FW_CONVERT(rn, ::rint)
FW_CONVERT(rni, ::rint)
FW_CONVERT(rz, ::trunc)
FW_CONVERT(rzi, ::trunc)
FW_CONVERT(rmi, ::floor)
FW_CONVERT(rpi, ::ceil)

#define FW_SMALL(kind, Type, fma_, max_, min_, ex2_, tanh_, abs_)                                            \
    namespace small_##kind {                                                                                 \
    FW_PTX2 add(D& d, A a, B b) { out(d, Type(as<Type>(a) + as<Type>(b))); }                                 \
    FW_PTX2 sub(D& d, A a, B b) { out(d, Type(as<Type>(a) - as<Type>(b))); }                                 \
    FW_PTX2 mul(D& d, A a, B b) { out(d, Type(as<Type>(a) * as<Type>(b))); }                                 \
    FW_PTX neg(D& d, A a) { out(d, Type(-as<Type>(a))); }                                                    \
    FW_PTX3 fma(D& d, A a, B b, C c) { out(d, fma_(as<Type>(a), as<Type>(b), as<Type>(c))); }                \
    FW_PTX2 max(D& d, A a, B b) { out(d, max_(as<Type>(a), as<Type>(b))); }                                  \
    FW_PTX2 min(D& d, A a, B b) { out(d, min_(as<Type>(a), as<Type>(b))); }                                  \
    FW_PTX ex2(D& d, A a) { out(d, ex2_(as<Type>(a))); }                                                     \
    FW_PTX tanh(D& d, A a) { out(d, tanh_(as<Type>(a))); }                                                   \
    FW_PTX abs(D& d, A a) { out(d, abs_(as<Type>(a))); }                                                     \
    }
FW_SMALL(f16, __half, __hfma, __hmax, __hmin, hexp2, htanh, __habs)
FW_SMALL(bf16, __nv_bfloat16, __hfma, __hmax, __hmin, hexp2, htanh, __habs)
FW_SMALL(f16x2, __half2, __hfma2, __hmax2, __hmin2, h2exp2, h2tanh, __habs2)
FW_SMALL(bf16x2, __nv_bfloat162, __hfma2, __hmax2, __hmin2, h2exp2, h2tanh, __habs2)

// Memory. A cache hint may follow the operands.
template <class T, int N>
struct alignas(sizeof(T) * N) Packed {
    T v[N];
};
template <class T, int N, class A, class... H>
inline std::enable_if_t<N == 1> load(A& a, const char* p, H...) { out(a, *reinterpret_cast<const T*>(p)); fw_relax(); }
template <class T, int N, class A, class B, class... H>
inline std::enable_if_t<N == 2> load(A& a, B& b, const char* p, H...) {
    const Packed<T, 2> v = *reinterpret_cast<const Packed<T, 2>*>(p);
    out(a, v.v[0]), out(b, v.v[1]);
}
template <class T, int N, class A, class B, class C, class D, class... H>
inline std::enable_if_t<N == 4> load(A& a, B& b, C& c, D& d, const char* p, H...) {
    const Packed<T, 4> v = *reinterpret_cast<const Packed<T, 4>*>(p);
    out(a, v.v[0]), out(b, v.v[1]), out(c, v.v[2]), out(d, v.v[3]);
}
template <class T, int N, class A, class... H>
inline std::enable_if_t<N == 1> store(char* p, A a, H...) { *reinterpret_cast<T*>(p) = in<T>(a); }
template <class T, int N, class A, class B, class... H>
inline std::enable_if_t<N == 2> store(char* p, A a, B b, H...) { *reinterpret_cast<Packed<T, 2>*>(p) = {in<T>(a), in<T>(b)}; }
template <class T, int N, class A, class B, class C, class D, class... H>
inline std::enable_if_t<N == 4> store(char* p, A a, B b, C c, D d, H...) {
    *reinterpret_cast<Packed<T, 4>*>(p) = {in<T>(a), in<T>(b), in<T>(c), in<T>(d)};
}
#define FW_RED(name, function)                                                                                     \
    template <class T, class A> inline void red_##name(char* p, A a) { function(reinterpret_cast<T*>(p), in<T>(a)); } \
    template <class T, class D, class A> inline void atom_##name(D& d, char* p, A a) { out(d, function(reinterpret_cast<T*>(p), in<T>(a))); }
FW_RED(add, atomicAdd)
FW_RED(min, atomicMin)
FW_RED(max, atomicMax)
FW_RED(exch, atomicExch)
FW_RED(and, atomicAnd)
FW_RED(or, atomicOr)
FW_RED(xor, atomicXor)
FW_RED(inc, atomicInc)
FW_RED(dec, atomicDec)
template <class T, class D, class A, class B>
inline void atom_cas(D& d, char* p, A a, B b) { out(d, atomicCAS(reinterpret_cast<T*>(p), in<T>(a), in<T>(b))); }

FW_HERE void barrier(int id = 0, int count = 0, FW_AT) { fw_barrier(id, count, 0, false, at.line(), at.column()); }
FW_HERE void barrier_arrive(int id, int count) { fw_barrier(id, count, 0, true, 0, 0); }
FW_HERE void warp_sync(unsigned mask) { fw_meet(mask, nullptr, nullptr); }

template <class... H>
FW_HERE void copy_async(char* to, const char* from, int bytes, H...) { fw::copy_async(to, from, bytes, bytes); }
template <class N, class... H>
FW_HERE std::enable_if_t<std::is_same<N, int>::value || std::is_same<N, unsigned>::value> copy_async(char* to, const char* from, int bytes, N have, H...) {
    fw::copy_async(to, from, bytes, int(have));
}
FW_HERE void commit_group() { fw::commit_group(); }
FW_HERE void wait_group(int n) { fw::wait_group(n); }
FW_HERE void wait_all() { fw::wait_all(); }

}  // namespace ptx
}  // namespace fw
