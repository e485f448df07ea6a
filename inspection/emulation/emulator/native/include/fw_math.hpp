// Device mathematics: the host's functions, and intrinsics by the same rounding or better.
#pragma once

// min and max of mixed integers behave as CUDA's overloads do.
#define FW_PICK(T)                                          \
    inline T min(T a, T b) { return b < a ? b : a; }        \
    inline T max(T a, T b) { return a < b ? b : a; }
FW_PICK(int)
FW_PICK(unsigned)
FW_PICK(long)
FW_PICK(unsigned long)
FW_PICK(long long)
FW_PICK(unsigned long long)
#undef FW_PICK
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline double min(float a, double b) { return fmin(a, b); }
inline double max(float a, double b) { return fmax(a, b); }
inline double min(double a, float b) { return fmin(a, b); }
inline double max(double a, float b) { return fmax(a, b); }
#define FW_PICK(A, B, R)                                                   \
    inline R min(A a, B b) { return (R)b < (R)a ? (R)b : (R)a; }           \
    inline R max(A a, B b) { return (R)a < (R)b ? (R)b : (R)a; }           \
    inline R min(B a, A b) { return (R)b < (R)a ? (R)b : (R)a; }           \
    inline R max(B a, A b) { return (R)a < (R)b ? (R)b : (R)a; }
FW_PICK(int, unsigned, unsigned)
FW_PICK(long long, unsigned long long, unsigned long long)
FW_PICK(long, unsigned long, unsigned long)
#undef FW_PICK
using std::abs;
inline unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned umax(unsigned a, unsigned b) { return a < b ? b : a; }
inline long long llmin(long long a, long long b) { return a < b ? a : b; }
inline long long llmax(long long a, long long b) { return a < b ? b : a; }

inline float rsqrtf(float x) { return float(1.0 / sqrt(double(x))); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrtf(float x) { return 1.0f / cbrtf(x); }
inline float fdividef(float a, float b) { return a / b; }
inline float fdimf_(float a, float b) { return a > b ? a - b : 0.0f; }
inline float normcdff(float x) { return float(0.5 * erfc(-double(x) * M_SQRT1_2)); }
inline double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
inline float erfcxf(float x) { return float(exp(double(x) * x) * erfc(double(x))); }
inline float sinpif(float x) { return float(sin(double(x) * M_PI)); }
inline float cospif(float x) { return float(cos(double(x) * M_PI)); }
inline float rnormf(int n, const float* p) {
    double s = 0;
    for (int i = 0; i < n; i++) s += double(p[i]) * p[i];
    return float(1.0 / sqrt(s));
}
inline float norm3df(float a, float b, float c) { return float(sqrt(double(a) * a + double(b) * b + double(c) * c)); }
inline float rhypotf(float a, float b) { return 1.0f / hypotf(a, b); }
#ifndef __USE_GNU
inline float exp10f(float x) { return powf(10.0f, x); }
#endif

inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return float(pow(10.0, double(x))); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline float __tanhf(float x) { return tanhf(x); }
inline void __sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }

#define FW_ROUNDINGS(suffix)                                                                    \
    inline float __fadd_##suffix(float a, float b) { return a + b; }                            \
    inline float __fsub_##suffix(float a, float b) { return a - b; }                            \
    inline float __fmul_##suffix(float a, float b) { return a * b; }                            \
    inline float __fdiv_##suffix(float a, float b) { return a / b; }                            \
    inline float __fmaf_##suffix(float a, float b, float c) { return fmaf(a, b, c); }           \
    inline float __frcp_##suffix(float a) { return 1.0f / a; }                                  \
    inline float __fsqrt_##suffix(float a) { return sqrtf(a); }                                 \
    inline double __dadd_##suffix(double a, double b) { return a + b; }                         \
    inline double __dsub_##suffix(double a, double b) { return a - b; }                         \
    inline double __dmul_##suffix(double a, double b) { return a * b; }                         \
    inline double __ddiv_##suffix(double a, double b) { return a / b; }                         \
    inline double __drcp_##suffix(double a) { return 1.0 / a; }                                 \
    inline double __dsqrt_##suffix(double a) { return sqrt(a); }                                \
    inline double __fma_##suffix(double a, double b, double c) { return fma(a, b, c); }         \
    inline float __int2float_##suffix(int x) { return float(x); }                               \
    inline float __uint2float_##suffix(unsigned x) { return float(x); }                         \
    inline float __ll2float_##suffix(long long x) { return float(x); }                          \
    inline float __ull2float_##suffix(unsigned long long x) { return float(x); }                \
    inline double __ll2double_##suffix(long long x) { return double(x); }                       \
    inline float __double2float_##suffix(double x) { return float(x); }
FW_ROUNDINGS(rn)
FW_ROUNDINGS(rz)
FW_ROUNDINGS(ru)
FW_ROUNDINGS(rd)
#undef FW_ROUNDINGS
inline double __int2double_rn(int x) { return double(x); }
inline double __uint2double_rn(unsigned x) { return double(x); }

namespace fw {
template <class I, class F>
inline I saturated(F x) {
    if (!(x == x)) return 0;
    if (x <= F(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
    if (x >= F(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
    return I(x);
}
}  // namespace fw
#define FW_TO_INTEGER(suffix, how)                                                                             \
    inline int __float2int_##suffix(float x) { return fw::saturated<int>(how##f(x)); }                         \
    inline unsigned __float2uint_##suffix(float x) { return fw::saturated<unsigned>(how##f(x)); }              \
    inline long long __float2ll_##suffix(float x) { return fw::saturated<long long>(how##f(x)); }              \
    inline unsigned long long __float2ull_##suffix(float x) {                                                  \
        return fw::saturated<unsigned long long>(how##f(x));                                                   \
    }                                                                                                          \
    inline int __double2int_##suffix(double x) { return fw::saturated<int>(how(x)); }                          \
    inline long long __double2ll_##suffix(double x) { return fw::saturated<long long>(how(x)); }
FW_TO_INTEGER(rn, rint)
FW_TO_INTEGER(rz, trunc)
FW_TO_INTEGER(ru, ceil)
FW_TO_INTEGER(rd, floor)
#undef FW_TO_INTEGER

inline int __float_as_int(float x) { return fw::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return fw::bits<unsigned>(x); }
inline float __int_as_float(int x) { return fw::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return fw::bits<float>(x); }
inline long long __double_as_longlong(double x) { return fw::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return fw::bits<double>(x); }
inline int __double2hiint(double x) { return int(fw::bits<uint64_t>(x) >> 32); }
inline int __double2loint(double x) { return int(fw::bits<uint64_t>(x)); }
inline double __hiloint2double(int hi, int lo) { return fw::bits<double>(uint64_t(unsigned(hi)) << 32 | unsigned(lo)); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long r = 0;
    for (int i = 0; i < 64; i++) r |= (x >> i & 1) << (63 - i);
    return r;
}
inline unsigned __brev(unsigned x) { return unsigned(__brevll(x) >> 32); }
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    const uint64_t both = uint64_t(b) << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned pick = s >> (4 * i) & 0xF;
        unsigned byte = unsigned(both >> (8 * (pick & 7))) & 0xFF;
        if (pick & 8) byte = byte & 0x80 ? 0xFF : 0;
        r |= byte << (8 * i);
    }
    return r;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned s) { return unsigned((uint64_t(hi) << 32 | lo) << (s & 31) >> 32); }
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned s) { return unsigned((uint64_t(hi) << 32 | lo) >> (s & 31)); }
inline int __mulhi(int a, int b) { return int(int64_t(a) * b >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned(uint64_t(a) * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
inline int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); }
inline int __sad(int a, int b, int c) { return c + (a > b ? a - b : b - a); }
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += int(int8_t(a >> (8 * i))) * int(int8_t(b >> (8 * i)));
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (a >> (8 * i) & 0xFF) * (b >> (8 * i) & 0xFF);
    return c;
}

#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_PI_F 3.141592654f
#define CUDART_MAX_NORMAL_F __int_as_float(0x7f7fffff)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000ll)
