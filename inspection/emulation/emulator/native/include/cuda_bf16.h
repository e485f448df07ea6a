#pragma once
#include "cuda_shim.hpp"
#include "fw_small_floats.hpp"
FW_SMALL_FLOAT(__nv_bfloat16, bfloat_to_float, float_to_bfloat)
FW_SMALL_PAIR(__nv_bfloat16, __nv_bfloat162)
FW_SMALL_FUNCTIONS(__nv_bfloat16, __nv_bfloat162)
FW_SMALL_NAMES(__nv_bfloat16, __nv_bfloat162, bfloat16)
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;
struct __nv_bfloat16_raw { unsigned short x; };
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
inline __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
