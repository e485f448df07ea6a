/*forewarp
format = 1
inputs = ["a", "b"]
outputs = ["c"]

[tunables]
MR = [2, 1, 4, 6]      # rows of c per register tile
NV = [1, 2, 3]         # vectors per row of the register tile
WIDTH = [8, 16]        # floats per vector
PANELS = [8, 32]       # register tiles per block of columns
BM = [64, 16, 256]     # rows per block
BK = [128, 32, 512]    # depth per block
PACK = [0, 1]          # 1 copies each block of b into a contiguous buffer

[let]
m = "a.shape[0]"
k = "a.shape[1]"
n = "b.shape[1]"

[[launch]]
kernel = "matmul"
args = ["a", "b", "c", "m", "n", "k"]
*/
#include <algorithm>
#include <cstdint>
#include <vector>

#pragma GCC diagnostic ignored "-Wpsabi"

typedef float vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

constexpr int NR = NV * WIDTH;
constexpr int BN = PANELS * NR;

static inline vec load(const float* p) { return *reinterpret_cast<const vec*>(p); }
static inline void store(float* p, vec v) { *reinterpret_cast<vec*>(p) = v; }

// Adds a[0:MR, 0:depth] * b[0:depth, 0:NR] to the top left `rows` x `cols` of c. Rows of a past the last repeat it.
static inline void tile(const float* a, const float* b, float* c, int rows, int cols, int depth, int64_t lda,
                        int64_t ldb, int64_t ldc) {
    vec acc[MR][NV] = {};
    const float* row[MR];
    for (int i = 0; i < MR; i++) row[i] = a + std::min(i, rows - 1) * lda;
    for (int p = 0; p < depth; p++) {
        vec bv[NV];
#pragma GCC unroll 4
        for (int j = 0; j < NV; j++) bv[j] = load(b + p * ldb + j * WIDTH);
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
            for (int j = 0; j < NV; j++) acc[i][j] += row[i][p] * bv[j];
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < NV; j++) {
            float* out = c + i * ldc + j * WIDTH;
            if ((j + 1) * WIDTH <= cols)
                store(out, load(out) + acc[i][j]);
            else
                for (int t = 0; t < cols - j * WIDTH; t++) out[t] += acc[i][j][t];
        }
}

// The same for fewer than NR columns, where whole vectors of b would reach past the end of its rows.
static void narrow_tile(const float* a, const float* b, float* c, int rows, int cols, int depth, int64_t lda,
                        int64_t ldb, int64_t ldc) {
    for (int i = 0; i < rows; i++)
        for (int p = 0; p < depth; p++)
            for (int j = 0; j < cols; j++) c[i * ldc + j] += a[i * lda + p] * b[p * ldb + j];
}

// Copies b[0:depth, 0:cols] panel by panel, each NR columns wide and padded with zeros.
static void pack(const float* b, float* to, int depth, int cols, int64_t ldb) {
    for (int j0 = 0; j0 < cols; j0 += NR)
        for (int p = 0; p < depth; p++)
            for (int j = 0; j < NR; j++) *to++ = j0 + j < cols ? b[p * ldb + j0 + j] : 0.0f;
}

static void block(const float* a, const float* b, float* c, int rows, int cols, int k, int64_t ldb, float* packed) {
    for (int i = 0; i < rows; i++) std::fill(c + i * ldb, c + i * ldb + cols, 0.0f);
    for (int k0 = 0; k0 < k; k0 += BK) {
        const int depth = std::min(BK, k - k0);
        const float* bk = b + k0 * ldb;
        if (PACK) pack(bk, packed, depth, cols, ldb);
        for (int j = 0; j < cols; j += NR) {
            const int wide = std::min(NR, cols - j);
            for (int i = 0; i < rows; i += MR) {
                const int high = std::min(MR, rows - i);
                const float* ai = a + int64_t(i) * k + k0;
                float* cij = c + i * ldb + j;
                if (PACK)
                    tile(ai, packed + int64_t(j) * depth, cij, high, wide, depth, k, NR, ldb);
                else if (wide == NR)
                    tile(ai, bk + j, cij, high, wide, depth, k, ldb, ldb);
                else
                    narrow_tile(ai, bk + j, cij, high, wide, depth, k, ldb, ldb);
            }
        }
    }
}

extern "C" void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
#pragma omp parallel
    {
        std::vector<float> packed(PACK ? BK * BN : 0);
#pragma omp for collapse(2) schedule(dynamic)
        for (int i = 0; i < m; i += BM)
            for (int j = 0; j < n; j += BN)
                block(a + int64_t(i) * k, b + j, c + int64_t(i) * n + j, std::min(BM, m - i), std::min(BN, n - j), k, n,
                      packed.data());
    }
}
