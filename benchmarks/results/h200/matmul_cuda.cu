/*forewarp
format = 1
inputs = ["a", "b"]
outputs = ["c"]
constraints = [
  "WARPS_M * WARPS_N >= 2",
  "FM * FN <= 8",
  "WARPS_M * FM <= 16 and WARPS_N * FN <= 16",
]

[tunables]
WARPS_M = [2, 1, 4]    # warps per block, down and across
WARPS_N = [4, 2, 1]
FM = [4, 1, 2]         # 16 x 16 fragments per warp, down and across
FN = [2, 1, 4]
BK = [64, 16, 32]      # depth per step
VEC = [8, 2]           # elements per load where rows are aligned to it
PAD = [8, 0]           # extra elements at the end of each row in shared memory

[let]
m = "a.shape[0]"
k = "a.shape[1]"
n = "b.shape[1]"
bm = "16 * WARPS_M * FM"
bn = "16 * WARPS_N * FN"

[constants]
LOAD_A = "VEC if k % VEC == 0 else 1"
LOAD_B = "VEC if n % VEC == 0 else 1"

[[launch]]
kernel = "matmul"
args = ["a", "b", "c", "m", "n", "k"]
grid = ["cdiv(n, bn)", "cdiv(m, bm)"]
block = ["32 * WARPS_M * WARPS_N"]
shared = "max(2 * bm * (BK + PAD) + 2 * BK * (bn + PAD), 1024 * WARPS_M * WARPS_N)"
*/
#include <cuda_bf16.h>
#include <mma.h>

using namespace nvcuda;
using bf16 = __nv_bfloat16;

constexpr int BM = 16 * WARPS_M * FM, BN = 16 * WARPS_N * FN, THREADS = 32 * WARPS_M * WARPS_N;

// Copies the H x W tile at (row, col) of a matrix into shared memory; zeros stand for what lies outside.
template <int H, int W, int N>
__device__ void copy_tile(bf16* to, const bf16* from, int row, int col, int rows, int cols) {
    struct alignas(2 * N) Pack {
        unsigned short v[N];
    };
    for (int i = threadIdx.x; i < H * W / N; i += THREADS) {
        const int r = i / (W / N), c = i % (W / N) * N;
        Pack p = {};
        if (row + r < rows && col + c < cols)
            p = *reinterpret_cast<const Pack*>(from + (long long)(row + r) * cols + col + c);
        *reinterpret_cast<Pack*>(to + r * (W + PAD) + c) = p;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
matmul(const bf16* __restrict__ a, const bf16* __restrict__ b, bf16* __restrict__ c, int m, int n, int k) {
    extern __shared__ __align__(128) unsigned char shared[];
    bf16* as = reinterpret_cast<bf16*>(shared);
    bf16* bs = as + BM * (BK + PAD);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = blockIdx.y * BM, col = blockIdx.x * BN;
    const int down = warp / WARPS_N * FM * 16, across = warp % WARPS_N * FN * 16;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[FM][FN];
    for (int i = 0; i < FM; i++)
        for (int j = 0; j < FN; j++) wmma::fill_fragment(acc[i][j], 0.0f);

    for (int start = 0; start < k; start += BK) {
        copy_tile<BM, BK, LOAD_A>(as, a, row, start, m, k);
        copy_tile<BK, BN, LOAD_B>(bs, b, start, col, k, n);
        __syncthreads();
        for (int p = 0; p < BK; p += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa[FM];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> fb[FN];
            for (int i = 0; i < FM; i++)
                wmma::load_matrix_sync(fa[i], as + (down + 16 * i) * (BK + PAD) + p, BK + PAD);
            for (int j = 0; j < FN; j++)
                wmma::load_matrix_sync(fb[j], bs + p * (BN + PAD) + across + 16 * j, BN + PAD);
            for (int i = 0; i < FM; i++)
                for (int j = 0; j < FN; j++) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
        }
        __syncthreads();
    }

    // A fragment's layout is private: it passes through shared memory on its way to rows of c.
    float* staging = reinterpret_cast<float*>(shared) + 256 * warp;
    for (int i = 0; i < FM; i++)
        for (int j = 0; j < FN; j++) {
            wmma::store_matrix_sync(staging, acc[i][j], 16, wmma::mem_row_major);
            __syncwarp();
            for (int e = lane; e < 256; e += 32) {
                const int r = row + down + 16 * i + e / 16, s = col + across + 16 * j + e % 16;
                if (r < m && s < n) c[(long long)r * n + s] = __float2bfloat16(staging[e]);
            }
            __syncwarp();
        }
}
