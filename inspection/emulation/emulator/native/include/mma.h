// nvcuda::wmma: a fragment's elements lie in the lanes as on sm_80 and later where they do not repeat.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}

namespace shim {

template <class T>
struct Storage {
    typedef T type;
};
template <>
struct Storage<precision::tf32> {
    typedef float type;
};

template <class Use, int M, int N, int K>
struct Shape;
template <int M, int N, int K>
struct Shape<matrix_a, M, N, K> {
    static constexpr int rows = M, cols = K;
};
template <int M, int N, int K>
struct Shape<matrix_b, M, N, K> {
    static constexpr int rows = K, cols = N;
};
template <int M, int N, int K>
struct Shape<accumulator, M, N, K> {
    static constexpr int rows = M, cols = N;
};

// The place of element i of a lane: 8 x 8 tiles, in each of which a lane has two neighbours.
template <int Rows, int Cols>
inline void place(int lane, int i, int& row, int& col) {
    constexpr int down = Rows / 8;
    const int tile = i / 2;
    row = lane / 4 + 8 * (tile % down);
    col = lane % 4 * 2 + i % 2 + 8 * (tile / down);
}

}  // namespace shim

template <class Use, int M, int N, int K, class T, class Layout = void>
class fragment {
  public:
    typedef typename shim::Storage<T>::type element_type;
    typedef element_type storage_element_type;
    static constexpr int rows = shim::Shape<Use, M, N, K>::rows, cols = shim::Shape<Use, M, N, K>::cols;
    static constexpr int num_elements = rows * cols / 32;
    static constexpr int num_storage_elements = num_elements;
    element_type x[num_elements];
};

template <class Use, int M, int N, int K, class T, class Layout>
inline void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, const typename fragment<Use, M, N, K, T, Layout>::element_type& v) {
    for (int i = 0; i < f.num_elements; i++) f.x[i] = v;
}

namespace shim {

template <class F, class P>
FW_QUIET void load(F& f, const P* p, unsigned ldm, bool by_rows) {
    const void* from = FW_FROM;
    fw::fw_meet(0xffffffffu, nullptr, nullptr);
    for (int i = 0; i < f.num_elements; i++) {
        int row, col;
        place<F::rows, F::cols>(int(fw::fw_lane()), i, row, col);
        const P* element = p + (by_rows ? size_t(row) * ldm + col : size_t(col) * ldm + row);
        fw::fw_read(element, sizeof(P), from);
        f.x[i] = *element;
    }
    fw::fw_meet(0xffffffffu, nullptr, nullptr);
}

template <class A, class B, class C, class D>
struct Product {
    const A* a;
    const B* b;
    const C* c;
    D* d;
};

template <class T>
inline T rounded(T x, T) { return x; }
inline float to_tf32(float x) { return fw::bits<float>((fw::bits<uint32_t>(x) + 0x1000u) & 0xFFFFE000u); }

template <class T, class X>
inline float operand(X x) {
    if (std::is_same<T, precision::tf32>::value) return to_tf32(float(x));
    return float(x);
}

template <class TA, int M, int N, int K, class A, class B, class C, class D>
FW_QUIET void multiply(void** lanes) {
    typedef typename std::conditional<std::is_same<typename D::element_type, int>::value, int, float>::type Sum;
    typedef Product<A, B, C, D> P;
    static Sum a[M][K], b[K][N], c[M][N];
    for (int lane = 0; lane < 32; lane++) {
        if (!lanes[lane]) fw::fw_trap("failed", "mma_sync needs all 32 lanes of a warp");
        const P& p = *static_cast<P*>(lanes[lane]);
        int row, col;
        for (int i = 0; i < A::num_elements; i++) place<M, K>(lane, i, row, col), a[row][col] = Sum(operand<TA>(p.a->x[i]));
        for (int i = 0; i < B::num_elements; i++) place<K, N>(lane, i, row, col), b[row][col] = Sum(operand<TA>(p.b->x[i]));
        for (int i = 0; i < C::num_elements; i++) place<M, N>(lane, i, row, col), c[row][col] = Sum(p.c->x[i]);
    }
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) c[i][j] += a[i][k] * b[k][j];
    for (int lane = 0; lane < 32; lane++) {
        const P& p = *static_cast<P*>(lanes[lane]);
        int row, col;
        for (int i = 0; i < D::num_elements; i++) place<M, N>(lane, i, row, col), p.d->x[i] = typename D::element_type(c[row][col]);
    }
}

}  // namespace shim

template <class Use, int M, int N, int K, class T, class Layout, class P>
inline __attribute__((always_inline)) void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f, const P* p, unsigned ldm) {
    shim::load(f, p, ldm, std::is_same<Layout, row_major>::value);
}

template <int M, int N, int K, class T, class P>
inline __attribute__((always_inline)) void load_matrix_sync(fragment<accumulator, M, N, K, T, void>& f, const P* p, unsigned ldm, layout_t layout) {
    shim::load(f, p, ldm, layout == mem_row_major);
}

template <class P, int M, int N, int K, class T>
FW_QUIET void store_matrix_sync(P* p, const fragment<accumulator, M, N, K, T, void>& f, unsigned ldm, layout_t layout) {
    fw::fw_meet(0xffffffffu, nullptr, nullptr);
    for (int i = 0; i < f.num_elements; i++) {
        int row, col;
        shim::place<M, N>(int(fw::fw_lane()), i, row, col);
        P* element = p + (layout == mem_row_major ? size_t(row) * ldm + col : size_t(col) * ldm + row);
        fw::fw_write(element, sizeof(P), FW_FROM);
        *element = f.x[i];
    }
}

template <int M, int N, int K, class TA, class LA, class LB, class TD, class TC>
FW_QUIET void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, TA, LA>& a,
                       const fragment<matrix_b, M, N, K, TA, LB>& b, const fragment<accumulator, M, N, K, TC>& c, bool = false) {
    typedef fragment<matrix_a, M, N, K, TA, LA> A;
    typedef fragment<matrix_b, M, N, K, TA, LB> B;
    typedef fragment<accumulator, M, N, K, TC> C;
    typedef fragment<accumulator, M, N, K, TD> D;
    shim::Product<A, B, C, D> mine = {&a, &b, &c, &d};
    fw::fw_meet(0xffffffffu, &shim::multiply<TA, M, N, K, A, B, C, D>, &mine);
}

inline float __float_to_tf32(float x) { return shim::to_tf32(x); }

}  // namespace wmma
}  // namespace nvcuda
inline float __float_to_tf32(float x) { return nvcuda::wmma::shim::to_tf32(x); }
