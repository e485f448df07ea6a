// ldmatrix, stmatrix and mma.sync, for the calls that ptx.py makes.
#pragma once
#include "fw_ptx_registers.hpp"

namespace fw {
namespace ptx {

// Matrices: what a lane brings to and takes from the one that does the work for all.
struct Rows {
    const char* row;
    uint32_t r[4];
    const void* from;
};
template <int N, bool Trans>
FW_QUIET void load_rows(void** lanes) {
    for (int m = 0; m < N; m++) {
        uint16_t tile[8][8];
        for (int i = 0; i < 8; i++) {
            if (!lanes[8 * m + i]) fw_trap("failed", "ldmatrix needs all 32 lanes of a warp");
            __builtin_memcpy(tile[i], static_cast<Rows*>(lanes[8 * m + i])->row, 16);
        }
        for (int lane = 0; lane < 32; lane++) {
            if (!lanes[lane]) continue;
            const int i = lane / 4, j = lane % 4 * 2;
            const uint16_t lo = Trans ? tile[j][i] : tile[i][j], hi = Trans ? tile[j + 1][i] : tile[i][j + 1];
            static_cast<Rows*>(lanes[lane])->r[m] = uint32_t(hi) << 16 | lo;
        }
    }
}
template <int N, bool Trans>
FW_QUIET void store_rows(void** lanes) {
    for (int m = 0; m < N; m++) {
        uint16_t tile[8][8];
        for (int lane = 0; lane < 32; lane++) {
            if (!lanes[lane]) fw_trap("failed", "stmatrix needs all 32 lanes of a warp");
            const int i = lane / 4, j = lane % 4 * 2;
            const uint32_t r = static_cast<Rows*>(lanes[lane])->r[m];
            (Trans ? tile[j][i] : tile[i][j]) = uint16_t(r);
            (Trans ? tile[j + 1][i] : tile[i][j + 1]) = uint16_t(r >> 16);
        }
        for (int i = 0; i < 8; i++) __builtin_memcpy(const_cast<char*>(static_cast<Rows*>(lanes[8 * m + i])->row), tile[i], 16);
    }
}
template <int N, bool Trans>
FW_QUIET void rows_of(const char* p, uint32_t* r, bool stores) {
    const void* from = FW_FROM;
    Rows mine = {p, {r[0], N > 1 ? r[1] : 0, N > 2 ? r[2] : 0, N > 2 ? r[3] : 0}, from};
    if (int(fw_lane()) < 8 * N) {
        if (uintptr_t(p) % 16) fw_trap("failed", "a row of ldmatrix or stmatrix does not begin at a multiple of 16 bytes");
        stores ? fw_write(p, 16, from) : fw_read(p, 16, from);
    }
    fw_meet(0xffffffffu, stores ? &store_rows<N, Trans> : &load_rows<N, Trans>, &mine);
    for (int i = 0; i < N; i++) r[i] = mine.r[i];
}
template <int N, bool Trans, class A>
FW_HERE std::enable_if_t<N == 1> ldmatrix(A& a, const char* p) {
    uint32_t r[4] = {};
    rows_of<N, Trans>(p, r, false), out(a, r[0]);
}
template <int N, bool Trans, class A, class B>
FW_HERE std::enable_if_t<N == 2> ldmatrix(A& a, B& b, const char* p) {
    uint32_t r[4] = {};
    rows_of<N, Trans>(p, r, false), out(a, r[0]), out(b, r[1]);
}
template <int N, bool Trans, class A, class B, class C, class D>
FW_HERE std::enable_if_t<N == 4> ldmatrix(A& a, B& b, C& c, D& d, const char* p) {
    uint32_t r[4] = {};
    rows_of<N, Trans>(p, r, false), out(a, r[0]), out(b, r[1]), out(c, r[2]), out(d, r[3]);
}
template <int N, bool Trans, class... R>
FW_HERE void stmatrix(const char* p, R... values) {
    uint32_t r[4] = {as<uint32_t>(values)...};
    rows_of<N, Trans>(p, r, true);
}

struct Mma {
    uint32_t a[4], b[2], c[4];
};
struct F16 {
    static float get(const uint32_t* r, int i) { return half_to_float(uint16_t(r[i / 2] >> i % 2 * 16)); }
    static constexpr int per = 2;
    typedef float sum;
};
struct BF16 {
    static float get(const uint32_t* r, int i) { return bfloat_to_float(uint16_t(r[i / 2] >> i % 2 * 16)); }
    static constexpr int per = 2;
    typedef float sum;
};
struct TF32 {
    // The hardware ignores the lower bits.
    static float get(const uint32_t* r, int i) { return bits<float>(r[i] & 0xFFFFE000u); }
    static constexpr int per = 1;
    typedef float sum;
};
struct S8 {
    static int get(const uint32_t* r, int i) { return int8_t(r[i / 4] >> i % 4 * 8); }
    static constexpr int per = 4;
    typedef int sum;
};
struct U8 {
    static int get(const uint32_t* r, int i) { return uint8_t(r[i / 4] >> i % 4 * 8); }
    static constexpr int per = 4;
    typedef int sum;
};

/// D = A B + C with 16 rows, 8 columns and K terms. A register holds `per` neighbours; two make 8 rows apart of A.
template <class T, int K, bool HalfSum>
FW_QUIET void multiply(void** lanes) {
    typedef typename T::sum Sum;
    static Sum a[16][K], b[K][8];
    constexpr int per = T::per, group = 4 * per;
    for (int lane = 0; lane < 32; lane++) {
        if (!lanes[lane]) fw_trap("failed", "mma.sync needs all 32 lanes of a warp");
        const Mma& m = *static_cast<Mma*>(lanes[lane]);
        const int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 2 * K / 4; i++) {
            const int reg = i / per, part = i % per;
            a[g + reg % 2 * 8][reg / 2 * group + t * per + part] = T::get(m.a, i);
        }
        for (int i = 0; i < K / 4; i++) b[i / per * group + t * per + i % per][g] = T::get(m.b, i);
    }
    for (int lane = 0; lane < 32; lane++) {
        Mma& m = *static_cast<Mma*>(lanes[lane]);
        for (int e = 0; e < 4; e++) {
            const int row = lane / 4 + e / 2 * 8, col = lane % 4 * 2 + e % 2;
            Sum sum = HalfSum ? Sum(half_to_float(uint16_t(m.c[e / 2] >> e % 2 * 16))) : bits<Sum>(m.c[e]);
            for (int k = 0; k < K; k++) sum += a[row][k] * b[k][col];
            if (!HalfSum) m.c[e] = bits<uint32_t>(sum);
            if (HalfSum) {
                const uint32_t shift = e % 2 * 16;
                m.c[e / 2] = (m.c[e / 2] & ~(0xFFFFu << shift)) | uint32_t(float_to_half(float(sum))) << shift;
            }
        }
    }
}
template <class T, int K, bool HalfSum>
FW_QUIET void mma(Mma& m) { fw_meet(0xffffffffu, &multiply<T, K, HalfSum>, &m); }

// The number of operands follows from K and the type: 4 + 2 or 2 + 1 registers of A and B.
#define FW_MMA(name, T)                                                                                              \
    template <int K, class D, class A, class B, class C>                                                             \
    inline void name(D& d0, D& d1, D& d2, D& d3, A a0, A a1, A a2, A a3, B b0, B b1, C c0, C c1, C c2, C c3) {       \
        static_assert(2 * K / 4 == 4 * T::per, "operands");                                                          \
        Mma m = {{as<uint32_t>(a0), as<uint32_t>(a1), as<uint32_t>(a2), as<uint32_t>(a3)}, {as<uint32_t>(b0), as<uint32_t>(b1)}, \
                 {as<uint32_t>(c0), as<uint32_t>(c1), as<uint32_t>(c2), as<uint32_t>(c3)}};                          \
        mma<T, K, false>(m);                                                                                         \
        out(d0, m.c[0]), out(d1, m.c[1]), out(d2, m.c[2]), out(d3, m.c[3]);                                          \
    }                                                                                                                \
    template <int K, class D, class A, class B, class C>                                                             \
    inline void name(D& d0, D& d1, D& d2, D& d3, A a0, A a1, B b0, C c0, C c1, C c2, C c3) {                         \
        static_assert(2 * K / 4 == 2 * T::per, "operands");                                                          \
        Mma m = {{as<uint32_t>(a0), as<uint32_t>(a1)}, {as<uint32_t>(b0)},                                           \
                 {as<uint32_t>(c0), as<uint32_t>(c1), as<uint32_t>(c2), as<uint32_t>(c3)}};                          \
        mma<T, K, false>(m);                                                                                         \
        out(d0, m.c[0]), out(d1, m.c[1]), out(d2, m.c[2]), out(d3, m.c[3]);                                          \
    }
FW_MMA(mma_f16_f32, F16)
FW_MMA(mma_bf16_f32, BF16)
FW_MMA(mma_tf32_f32, TF32)
FW_MMA(mma_s8_s32, S8)
FW_MMA(mma_u8_s32, U8)
template <int K, class D, class A, class B, class C>
inline void mma_f16_f16(D& d0, D& d1, A a0, A a1, A a2, A a3, B b0, B b1, C c0, C c1) {
    Mma m = {{as<uint32_t>(a0), as<uint32_t>(a1), as<uint32_t>(a2), as<uint32_t>(a3)}, {as<uint32_t>(b0), as<uint32_t>(b1)}, {as<uint32_t>(c0), as<uint32_t>(c1)}};
    mma<F16, K, true>(m);
    out(d0, m.c[0]), out(d1, m.c[1]);
}

}  // namespace ptx
}  // namespace fw
