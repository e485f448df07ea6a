// Minimal declarations with which NVRTC compiles device code that expects nvcc and torch's headers.
// Without FOREWARP_FULL they do for plain C++, and take a twentieth of a second to compile; with it come torch's 16-bit
// types and accessors, and the device's part of the standard library.
#ifdef FOREWARP_FULL
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#include <cuda/std/array>
#include <cuda/std/cmath>
using cuda::std::int8_t; using cuda::std::int16_t; using cuda::std::int32_t; using cuda::std::int64_t;
using cuda::std::uint8_t; using cuda::std::uint16_t; using cuda::std::uint32_t; using cuda::std::uint64_t;
using cuda::std::uintptr_t; using cuda::std::intptr_t;
namespace std {
using cuda::std::numeric_limits; using cuda::std::is_same; using cuda::std::is_same_v; using cuda::std::enable_if;
using cuda::std::enable_if_t; using cuda::std::conditional; using cuda::std::conditional_t; using cuda::std::array;
using cuda::std::true_type; using cuda::std::false_type; using cuda::std::move; using cuda::std::forward;
using cuda::std::integral_constant; using cuda::std::decay_t; using cuda::std::remove_reference_t;
using cuda::std::is_floating_point; using cuda::std::is_integral; using cuda::std::size_t;
using cuda::std::int8_t; using cuda::std::int32_t; using cuda::std::int64_t; using cuda::std::uint32_t;
using ::fmax; using ::fmin; using ::isnan; using ::isinf; using ::erf; using ::log1p; using ::expm1; using ::round;
using ::sin; using ::cos; using ::exp2; using ::log2; using ::cosh; using ::sinh;
}
#else
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long uint64_t; typedef unsigned long uintptr_t; typedef unsigned int uint; typedef unsigned char uchar;
namespace std {
using ::size_t; using ::int8_t; using ::int32_t; using ::int64_t; using ::uint32_t; using ::uint8_t;
}
#endif
namespace std {
template <typename T> __device__ constexpr T min(T a, T b) { return b < a ? b : a; }
template <typename T> __device__ constexpr T max(T a, T b) { return a < b ? b : a; }
using ::abs; using ::fabs; using ::exp; using ::log; using ::sqrt; using ::pow; using ::tanh; using ::floor;
using ::ceil;
}

#ifndef FLT_MAX
#define FLT_MAX 3.402823466e+38F
#endif
#ifndef FLT_MIN
#define FLT_MIN 1.175494351e-38F
#endif
#ifndef FLT_EPSILON
#define FLT_EPSILON 1.192092896e-07F
#endif
#ifndef DBL_MAX
#define DBL_MAX 1.7976931348623157e+308
#endif
#ifndef INT_MAX
#define INT_MAX 2147483647
#endif
#ifndef INT_MIN
#define INT_MIN (-2147483647 - 1)
#endif
#ifndef UINT_MAX
#define UINT_MAX 4294967295u
#endif
#ifndef M_PI
#define M_PI 3.14159265358979323846
#endif
#ifndef M_SQRT2
#define M_SQRT2 1.41421356237309504880
#endif
#ifndef M_SQRT1_2
#define M_SQRT1_2 0.70710678118654752440
#endif
#ifndef M_2_SQRTPI
#define M_2_SQRTPI 1.12837916709551257390
#endif
#ifndef M_E
#define M_E 2.7182818284590452354
#endif
#ifndef M_LOG2E
#define M_LOG2E 1.4426950408889634074
#endif
#ifndef M_LN2
#define M_LN2 0.69314718055994530942
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef HUGE_VALF
#define HUGE_VALF INFINITY
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_ALWAYS_INLINE __forceinline__
#define C10_LAUNCH_BOUNDS_1(a) __launch_bounds__(a)
#define C10_LAUNCH_BOUNDS_2(a, b) __launch_bounds__(a, b)
#define CUDA_KERNEL_LOOP_TYPE(i, n, T) \
  for (T i = (T)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (T)blockDim.x * gridDim.x)
#define CUDA_KERNEL_LOOP(i, n) CUDA_KERNEL_LOOP_TYPE(i, n, int)

#ifdef FOREWARP_FULL
// A type of 16 bits that computes in float, as c10's do.
#define FOREWARP_MIXED(name, kind, result, sign) \
  __device__ inline result operator sign(name a, kind b) { return float(a) sign b; } \
  __device__ inline result operator sign(kind a, name b) { return a sign float(b); }
#define FOREWARP_OPERATOR(name, sign) \
  __device__ inline name operator sign(name a, name b) { return float(a) sign float(b); } \
  __device__ inline name& operator sign##=(name& a, name b) { return a = a sign b; } \
  FOREWARP_MIXED(name, float, float, sign) FOREWARP_MIXED(name, double, double, sign) \
  FOREWARP_MIXED(name, int, name, sign) FOREWARP_MIXED(name, long, name, sign)
#define FOREWARP_SMALL_FLOAT(name, raw, to_float, from_float) \
  struct alignas(2) name { \
    unsigned short x; \
    name() = default; \
    __device__ name(float v) : x(from_float) {} \
    __device__ name(raw v) : x(*reinterpret_cast<unsigned short*>(&v)) {} \
    __device__ operator float() const { return to_float(*reinterpret_cast<const raw*>(&x)); } \
    __device__ operator raw() const { return *reinterpret_cast<const raw*>(&x); } \
  }; \
  FOREWARP_OPERATOR(name, +) FOREWARP_OPERATOR(name, -) FOREWARP_OPERATOR(name, *) FOREWARP_OPERATOR(name, /) \
  __device__ inline name operator-(name a) { return -float(a); }

namespace c10 {
FOREWARP_SMALL_FLOAT(Half, __half, __half2float, __half_as_ushort(__float2half(v)))
FOREWARP_SMALL_FLOAT(BFloat16, __nv_bfloat16, __bfloat162float, __bfloat16_as_ushort(__float2bfloat16(v)))
}

namespace at {
template <typename T> struct DefaultPtrTraits { typedef T* PtrType; };
template <typename T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <typename T, int N, template <typename> class P, typename I> struct TensorAccessor {
  T* data_; const I* sizes_; const I* strides_;
  __device__ TensorAccessor<T, N - 1, P, I> operator[](I i) const {
    return {data_ + strides_[0] * i, sizes_ + 1, strides_ + 1};
  }
  __device__ I size(I i) const { return sizes_[i]; }
  __device__ I stride(I i) const { return strides_[i]; }
  __device__ T* data() const { return data_; }
};
template <typename T, template <typename> class P, typename I> struct TensorAccessor<T, 1, P, I> {
  T* data_; const I* sizes_; const I* strides_;
  __device__ T& operator[](I i) const { return data_[strides_[0] * i]; }
  __device__ I size(I i) const { return sizes_[i]; }
  __device__ I stride(I i) const { return strides_[i]; }
  __device__ T* data() const { return data_; }
};
template <typename T, int N, template <typename> class P, typename I> struct GenericPackedTensorAccessor {
  T* data_; I sizes_[N]; I strides_[N];
  __device__ decltype(auto) operator[](I i) const { return TensorAccessor<T, N, P, I>{data_, sizes_, strides_}[i]; }
  __device__ I size(I i) const { return sizes_[i]; }
  __device__ I stride(I i) const { return strides_[i]; }
  __device__ T* data() const { return data_; }
};
template <typename T, int N, template <typename> class P = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, P, int>;
template <typename T, int N, template <typename> class P = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, P, long>;
using c10::Half; using c10::BFloat16;
template <typename T> struct OpMathType { using type = T; };
template <> struct OpMathType<c10::Half> { using type = float; };
template <> struct OpMathType<c10::BFloat16> { using type = float; };
template <typename T> using opmath_type = typename OpMathType<T>::type;
template <typename T, bool cuda> using acc_type = typename OpMathType<T>::type;
}
namespace torch {
using at::PackedTensorAccessor32; using at::PackedTensorAccessor64; using at::RestrictPtrTraits;
using at::DefaultPtrTraits; using c10::Half; using c10::BFloat16;
}
#endif
