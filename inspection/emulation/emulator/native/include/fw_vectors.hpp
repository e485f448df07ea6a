// int2, float4 and their kin.
#pragma once

#define FW_VECTORS(T, name, a1, a2, a3, a4)                                             \
    struct alignas(a1) name##1 { T x; };                                                \
    struct alignas(a2) name##2 { T x, y; };                                             \
    struct alignas(a3) FW_V3(name) { T x, y, z; };                                      \
    struct alignas(a4) name##4 { T x, y, z, w; };                                       \
    inline name##1 make_##name##1(T x) { return {x}; }                                  \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                          \
    inline FW_V3(name) FW_CAT(make_, FW_V3(name))(T x, T y, T z) { return {x, y, z}; }  \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define FW_CAT_(a, b) a##b
#define FW_CAT(a, b) FW_CAT_(a, b)
#define FW_V3(name) name##3

FW_VECTORS(signed char, char, 1, 2, 1, 4)
FW_VECTORS(unsigned char, uchar, 1, 2, 1, 4)
FW_VECTORS(short, short, 2, 4, 2, 8)
FW_VECTORS(unsigned short, ushort, 2, 4, 2, 8)
FW_VECTORS(int, int, 4, 8, 4, 16)
FW_VECTORS(long, long, 8, 16, 8, 16)
FW_VECTORS(unsigned long, ulong, 8, 16, 8, 16)
FW_VECTORS(long long, longlong, 8, 16, 8, 16)
FW_VECTORS(unsigned long long, ulonglong, 8, 16, 8, 16)
FW_VECTORS(float, float, 4, 8, 4, 16)
FW_VECTORS(double, double, 8, 16, 8, 16)
struct alignas(4) uint1 { unsigned x; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
inline uint1 make_uint1(unsigned x) { return {x}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
#undef FW_V3
#undef FW_VECTORS
