#pragma once
#include "cuda_shim.hpp"
#include "fw_small_floats.hpp"
FW_SMALL_FLOAT(__half, half_to_float, float_to_half)
FW_SMALL_PAIR(__half, __half2)
FW_SMALL_FUNCTIONS(__half, __half2)
FW_SMALL_NAMES(__half, __half2, half)
typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
struct __half_raw { unsigned short x; };
inline __half2 __halves2half2(__half a, __half b) { return {a, b}; }
inline __half2 make_half2(__half a, __half b) { return {a, b}; }
