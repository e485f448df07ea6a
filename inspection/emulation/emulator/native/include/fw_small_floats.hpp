// half and bfloat16: kept in 16 bits, computed in float, rounded to nearest even after each operation.
#pragma once

namespace fw {

inline float half_to_float(uint16_t h) {
    const uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 0x1F, fraction = h & 0x3FF;
    if (exponent == 31) return bits<float>(sign | 0x7F800000u | fraction << 13);
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * float(fraction) * 5.9604644775390625e-8f;
    return bits<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

inline uint16_t float_to_half(float f) {
    const uint32_t x = bits<uint32_t>(f), sign = x >> 16 & 0x8000, a = x & 0x7FFFFFFF;
    if (a > 0x7F800000u) return 0x7FFF;
    if (a >= 0x477FF000u) return uint16_t(sign | 0x7C00);  // at least half-way from the largest to the next power of two
    if (a < 0x38800000u) {
        // Below the smallest normal number: adding 0.5 puts its last place where float rounds.
        const float sum = bits<float>(a) + 0.5f;
        return uint16_t(sign | (bits<uint32_t>(sum) - 0x3F000000u));
    }
    const uint32_t rounded = a + 0xFFF + (a >> 13 & 1);
    return uint16_t(sign | (rounded - 0x38000000u) >> 13);
}

inline float bfloat_to_float(uint16_t b) { return bits<float>(uint32_t(b) << 16); }

inline uint16_t float_to_bfloat(float f) {
    const uint32_t x = bits<uint32_t>(f);
    if ((x & 0x7FFFFFFF) > 0x7F800000u) return 0x7FFF;
    return uint16_t((x + 0x7FFF + (x >> 16 & 1)) >> 16);
}

}  // namespace fw

#define FW_SMALL_FLOAT(Type, to_float, from_float)                                                        \
    struct alignas(2) Type {                                                                              \
        unsigned short __x;                                                                               \
        Type() = default;                                                                                 \
        Type(float f) : __x(fw::from_float(f)) {}                                                         \
        Type(double f) : __x(fw::from_float(float(f))) {}                                                 \
        Type(int i) : __x(fw::from_float(float(i))) {}                                                    \
        Type(unsigned i) : __x(fw::from_float(float(i))) {}                                               \
        Type(short i) : __x(fw::from_float(float(i))) {}                                                  \
        Type(unsigned short i) : __x(fw::from_float(float(i))) {}                                         \
        Type(long i) : __x(fw::from_float(float(i))) {}                                                   \
        Type(unsigned long i) : __x(fw::from_float(float(i))) {}                                          \
        Type(long long i) : __x(fw::from_float(float(i))) {}                                              \
        Type(unsigned long long i) : __x(fw::from_float(float(i))) {}                                     \
        operator float() const { return fw::to_float(__x); }                                              \
        Type& operator+=(const Type& o) { return *this = Type(float(*this) + float(o)); }                 \
        Type& operator-=(const Type& o) { return *this = Type(float(*this) - float(o)); }                 \
        Type& operator*=(const Type& o) { return *this = Type(float(*this) * float(o)); }                 \
        Type& operator/=(const Type& o) { return *this = Type(float(*this) / float(o)); }                 \
    };                                                                                                    \
    inline Type operator+(const Type& a, const Type& b) { return Type(float(a) + float(b)); }             \
    inline Type operator-(const Type& a, const Type& b) { return Type(float(a) - float(b)); }             \
    inline Type operator*(const Type& a, const Type& b) { return Type(float(a) * float(b)); }             \
    inline Type operator/(const Type& a, const Type& b) { return Type(float(a) / float(b)); }             \
    inline Type operator-(const Type& a) { return Type(-float(a)); }                                      \
    inline Type operator+(const Type& a) { return a; }                                                    \
    inline bool operator==(const Type& a, const Type& b) { return float(a) == float(b); }                 \
    inline bool operator!=(const Type& a, const Type& b) { return float(a) != float(b); }                 \
    inline bool operator<(const Type& a, const Type& b) { return float(a) < float(b); }                   \
    inline bool operator>(const Type& a, const Type& b) { return float(a) > float(b); }                   \
    inline bool operator<=(const Type& a, const Type& b) { return float(a) <= float(b); }                 \
    inline bool operator>=(const Type& a, const Type& b) { return float(a) >= float(b); }

#define FW_SMALL_PAIR(Type, Pair)                                                                         \
    struct alignas(4) Pair {                                                                              \
        Type x, y;                                                                                        \
        Pair() = default;                                                                                 \
        Pair(const Type& a, const Type& b) : x(a), y(b) {}                                                \
    };                                                                                                    \
    inline Pair operator+(const Pair& a, const Pair& b) { return {a.x + b.x, a.y + b.y}; }                \
    inline Pair operator-(const Pair& a, const Pair& b) { return {a.x - b.x, a.y - b.y}; }                \
    inline Pair operator*(const Pair& a, const Pair& b) { return {a.x * b.x, a.y * b.y}; }                \
    inline Pair operator/(const Pair& a, const Pair& b) { return {a.x / b.x, a.y / b.y}; }                \
    inline Pair operator-(const Pair& a) { return {-a.x, -a.y}; }                                         \
    inline Pair& operator+=(Pair& a, const Pair& b) { return a = a + b; }                                 \
    inline Pair& operator-=(Pair& a, const Pair& b) { return a = a - b; }                                 \
    inline Pair& operator*=(Pair& a, const Pair& b) { return a = a * b; }                                 \
    inline Pair& operator/=(Pair& a, const Pair& b) { return a = a / b; }                                 \
    inline bool operator==(const Pair& a, const Pair& b) { return a.x == b.x && a.y == b.y; }             \
    inline bool operator!=(const Pair& a, const Pair& b) { return !(a == b); }

// One argument of each sort; the pair's functions work on both parts.
#define FW_UNARY(Type, Pair, name, expression)                                                            \
    inline Type name(Type a) { return Type(expression); }
#define FW_UNARY_BOTH(Type, Pair, name, name2, expression)                                                \
    inline Type name(Type a) { return Type(expression); }                                                 \
    inline Pair name2(Pair a) { return {name(a.x), name(a.y)}; }
#define FW_BINARY_BOTH(Type, Pair, name, name2, expression)                                               \
    inline Type name(Type a, Type b) { return Type(expression); }                                         \
    inline Pair name2(Pair a, Pair b) { return {name(a.x, b.x), name(a.y, b.y)}; }
#define FW_COMPARE(Type, Pair, name, op)                                                                  \
    inline bool __h##name(Type a, Type b) { return float(a) op float(b); }                                \
    inline Pair __h##name##2(Pair a, Pair b) {                                                            \
        return {Type(float(a.x) op float(b.x) ? 1.0f : 0.0f), Type(float(a.y) op float(b.y) ? 1.0f : 0.0f)}; \
    }                                                                                                     \
    inline bool __hb##name##2(Pair a, Pair b) { return float(a.x) op float(b.x) && float(a.y) op float(b.y); }

#define FW_SMALL_FUNCTIONS(Type, Pair)                                                                    \
    FW_BINARY_BOTH(Type, Pair, __hadd, __hadd2, float(a) + float(b))                                      \
    FW_BINARY_BOTH(Type, Pair, __hsub, __hsub2, float(a) - float(b))                                      \
    FW_BINARY_BOTH(Type, Pair, __hmul, __hmul2, float(a) * float(b))                                      \
    FW_BINARY_BOTH(Type, Pair, __hadd_rn, __hadd2_rn, float(a) + float(b))                                \
    FW_BINARY_BOTH(Type, Pair, __hsub_rn, __hsub2_rn, float(a) - float(b))                                \
    FW_BINARY_BOTH(Type, Pair, __hmul_rn, __hmul2_rn, float(a) * float(b))                                \
    FW_BINARY_BOTH(Type, Pair, __hadd_sat, __hadd2_sat, __saturatef(float(a) + float(b)))                 \
    FW_BINARY_BOTH(Type, Pair, __hmul_sat, __hmul2_sat, __saturatef(float(a) * float(b)))                 \
    FW_BINARY_BOTH(Type, Pair, __hmax, __hmax2, fmaxf(float(a), float(b)))                                \
    FW_BINARY_BOTH(Type, Pair, __hmin, __hmin2, fminf(float(a), float(b)))                                \
    FW_BINARY_BOTH(Type, Pair, __hmax_nan, __hmax2_nan, float(a) != float(a) ? float(a) : float(b) != float(b) ? float(b) : fmaxf(float(a), float(b))) \
    FW_BINARY_BOTH(Type, Pair, __hmin_nan, __hmin2_nan, float(a) != float(a) ? float(a) : float(b) != float(b) ? float(b) : fminf(float(a), float(b))) \
    inline Type __hdiv(Type a, Type b) { return a / b; }                                                  \
    inline Pair __h2div(Pair a, Pair b) { return a / b; }                                                 \
    inline Type __hfma(Type a, Type b, Type c) { return Type(float(double(float(a)) * double(float(b)) + double(float(c)))); } \
    inline Pair __hfma2(Pair a, Pair b, Pair c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; } \
    inline Type __hfma_relu(Type a, Type b, Type c) { return Type(fmaxf(float(__hfma(a, b, c)), 0.0f)); } \
    inline Pair __hfma2_relu(Pair a, Pair b, Pair c) { return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)}; } \
    FW_UNARY_BOTH(Type, Pair, __hneg, __hneg2, -float(a))                                                 \
    FW_UNARY_BOTH(Type, Pair, __habs, __habs2, fabsf(float(a)))                                           \
    FW_UNARY_BOTH(Type, Pair, hexp, h2exp, expf(float(a)))                                                \
    FW_UNARY_BOTH(Type, Pair, hexp2, h2exp2, exp2f(float(a)))                                             \
    FW_UNARY_BOTH(Type, Pair, hexp10, h2exp10, powf(10.0f, float(a)))                                     \
    FW_UNARY_BOTH(Type, Pair, hlog, h2log, logf(float(a)))                                                \
    FW_UNARY_BOTH(Type, Pair, hlog2, h2log2, log2f(float(a)))                                             \
    FW_UNARY_BOTH(Type, Pair, hlog10, h2log10, log10f(float(a)))                                          \
    FW_UNARY_BOTH(Type, Pair, hsqrt, h2sqrt, sqrtf(float(a)))                                             \
    FW_UNARY_BOTH(Type, Pair, hrsqrt, h2rsqrt, rsqrtf(float(a)))                                          \
    FW_UNARY_BOTH(Type, Pair, hrcp, h2rcp, 1.0f / float(a))                                               \
    FW_UNARY_BOTH(Type, Pair, hsin, h2sin, sinf(float(a)))                                                \
    FW_UNARY_BOTH(Type, Pair, hcos, h2cos, cosf(float(a)))                                                \
    FW_UNARY_BOTH(Type, Pair, htanh, h2tanh, tanhf(float(a)))                                             \
    FW_UNARY_BOTH(Type, Pair, hfloor, h2floor, floorf(float(a)))                                          \
    FW_UNARY_BOTH(Type, Pair, hceil, h2ceil, ceilf(float(a)))                                             \
    FW_UNARY_BOTH(Type, Pair, htrunc, h2trunc, truncf(float(a)))                                          \
    FW_UNARY_BOTH(Type, Pair, hrint, h2rint, rintf(float(a)))                                             \
    FW_COMPARE(Type, Pair, eq, ==)                                                                        \
    FW_COMPARE(Type, Pair, ne, !=)                                                                        \
    FW_COMPARE(Type, Pair, lt, <)                                                                         \
    FW_COMPARE(Type, Pair, le, <=)                                                                        \
    FW_COMPARE(Type, Pair, gt, >)                                                                         \
    FW_COMPARE(Type, Pair, ge, >=)                                                                        \
    inline bool __hisnan(Type a) { return float(a) != float(a); }                                         \
    inline int __hisinf(Type a) { return isinf(float(a)) ? (float(a) < 0 ? -1 : 1) : 0; }                 \
    inline Type __ldg(const Type* p) { return *p; }                                                       \
    inline float __low2float(Pair a) { return float(a.x); }                                               \
    inline float __high2float(Pair a) { return float(a.y); }                                              \
    inline Pair __lowhigh2highlow(Pair a) { return {a.y, a.x}; }                                          \
    inline Pair __lows2##Pair##_(Pair a, Pair b) { return {a.x, b.x}; }                                   \
    template <>                                                                                           \
    inline Pair atomicAdd<Pair>(Pair* p, Pair v) { return {atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)}; }

// Names that hold the type's own name.
#define FW_SMALL_NAMES(Type, Pair, t)                                                                     \
    inline Type __float2##t(float f) { return Type(f); }                                                  \
    inline Type __float2##t##_rn(float f) { return Type(f); }                                             \
    inline Type __double2##t(double f) { return Type(f); }                                                \
    inline float __##t##2float(Type h) { return float(h); }                                               \
    inline Type __int2##t##_rn(int i) { return Type(i); }                                                 \
    inline Type __uint2##t##_rn(unsigned i) { return Type(i); }                                           \
    inline int __##t##2int_rn(Type h) { return __float2int_rn(float(h)); }                                \
    inline int __##t##2int_rz(Type h) { return __float2int_rz(float(h)); }                                \
    inline short __##t##_as_short(Type h) { return short(h.__x); }                                        \
    inline unsigned short __##t##_as_ushort(Type h) { return h.__x; }                                     \
    inline Type __short_as_##t(short s) { Type h; h.__x = (unsigned short)s; return h; }                  \
    inline Type __ushort_as_##t(unsigned short s) { Type h; h.__x = s; return h; }                        \
    inline Pair __##t##2##t##2(Type h) { return {h, h}; }                                                 \
    inline Type __low2##t(Pair a) { return a.x; }                                                         \
    inline Type __high2##t(Pair a) { return a.y; }                                                        \
    inline Pair __low2##t##2(Pair a) { return {a.x, a.x}; }                                               \
    inline Pair __high2##t##2(Pair a) { return {a.y, a.y}; }                                              \
    inline Pair __lows2##t##2(Pair a, Pair b) { return {a.x, b.x}; }                                      \
    inline Pair __highs2##t##2(Pair a, Pair b) { return {a.y, b.y}; }                                     \
    inline Pair __halves2##t##2_(Type a, Type b) { return {a, b}; }                                       \
    inline Pair __float2##t##2_rn(float f) { return {Type(f), Type(f)}; }                                 \
    inline Pair __floats2##t##2_rn(float a, float b) { return {Type(a), Type(b)}; }                       \
    inline Pair __float22##t##2_rn(float2 f) { return {Type(f.x), Type(f.y)}; }                           \
    inline float2 __##t##22float2(Pair a) { return {float(a.x), float(a.y)}; }
