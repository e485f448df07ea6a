// PTX registers hold bits: a C++ variable of any type of the right size stands for one.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "fw_async.hpp"
#include "mma.h"

namespace fw {
namespace ptx {

#define FW_HERE inline __attribute__((always_inline))
#define FW_PTX template <class D, class A> inline void
#define FW_PTX2 template <class D, class A, class B> inline void
#define FW_PTX3 template <class D, class A, class B, class C> inline void

/// Gives or takes a register's value as another type of the same or a smaller size.
template <class T, class R>
inline T as(const R& r) {
    T value{};
    __builtin_memcpy(&value, &r, sizeof(T) < sizeof(R) ? sizeof(T) : sizeof(R));
    return value;
}
// An immediate number is an int or a double in C++, whatever the instruction's type.
template <class T>
inline T in(const int& r) { return std::is_floating_point<T>::value && !std::is_same<T, double>::value ? as<T>(r) : T(r); }
template <class T>
inline T in(const double& r) { return std::is_same<T, float>::value ? T(r) : as<T>(r); }
template <class T, class R>
inline T in(const R& r) { return as<T>(r); }
template <class D, class T>
inline void out(D& d, T value) { __builtin_memcpy(&d, &value, sizeof(T) < sizeof(D) ? sizeof(T) : sizeof(D)); }

struct Ignored {
    uint64_t bits;
};
inline Ignored& ignored() {
    static Ignored nothing;
    return nothing;
}

/// An address in a register of 32 bits is one of shared memory.
template <class T>
inline char* at(T* p) { return reinterpret_cast<char*>(const_cast<std::remove_cv_t<T>*>(p)); }
inline char* at(uint64_t a) { return reinterpret_cast<char*>(a); }
inline char* at(unsigned long long a) { return reinterpret_cast<char*>(a); }
inline char* at(int64_t a) { return reinterpret_cast<char*>(a); }
inline char* at(uint32_t a) { return static_cast<char*>(fw_from_shared(a)); }
inline char* at(int32_t a) { return static_cast<char*>(fw_from_shared(uint32_t(a))); }

}  // namespace ptx
}  // namespace fw
