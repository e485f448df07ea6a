/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]

[params]
weight = "conv_transpose3d.weight"

[tunables]
BLOCKS = [132, 264]     # as many as there are multiprocessors

[constants]
DEPTH = "x.shape[2]"
HEIGHT = "x.shape[3]"
WIDTH = "x.shape[4]"
IN = "x.shape[1]"
OUT = "y.shape[1]"

[let]
tiles = "x.shape[0] * x.shape[2] * (x.shape[3] // 4)"

[[launch]]
kernel = "clear"
args = ["y", "numel(y) // 8"]
grid = ["cdiv(numel(y), 8 * 1024)"]
block = [256]

[[launch]]
kernel = "convolve"
args = ["x", "weight", "y", "tiles"]
grid = ["min(BLOCKS, tiles)"]
block = [256]
shared = "80 * (3 * 6 * (WIDTH + 2) + 27 * OUT)"
*/
// Stride 2, padding 1, dilation 2: output 2j + 1 in each direction is a sum over inputs j - 1, j, j + 1, and all other
// outputs are zero. So this is a plain 3 × 3 × 3 convolution on the tensor cores, written into a cleared output.
#include <cuda_bf16.h>

static_assert(WIDTH == 32 && HEIGHT % 4 == 0 && IN == 32 && OUT == 64, "of this problem alone");

using bf16 = __nv_bfloat16;

#define PITCH 40                       // of 32 channels in shared memory, so that ldmatrix meets no bank twice
#define ROW (WIDTH + 2)                // of inputs with their neighbours
#define OUT_D (2 * DEPTH + 1)
#define OUT_H (2 * HEIGHT + 1)
#define OUT_W (2 * WIDTH + 1)

__device__ __forceinline__ void load4(unsigned (&to)[4], const bf16* from) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(from));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(address));
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(256) clear(uint4* __restrict__ y, int pieces) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const int i = (blockIdx.x * 4 + k) * 256 + threadIdx.x;
        if (i < pieces) y[i] = make_uint4(0, 0, 0, 0);
    }
}

extern "C" __global__ void __launch_bounds__(256)
convolve(const bf16* __restrict__ x, const bf16* __restrict__ weight, unsigned* __restrict__ y, int tiles) {
    extern __shared__ __align__(16) bf16 shared[];
    bf16* input = shared;                        // [3 planes][6 rows][ROW columns][PITCH]
    bf16* weights = shared + 18 * ROW * PITCH;   // [27 taps][OUT][PITCH]
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = threadIdx.x; i < IN * OUT * 27; i += 256)
        weights[(i % 27 * OUT + i / 27 % OUT) * PITCH + i / (27 * OUT)] = weight[i];
    for (int i = threadIdx.x; i < 18 * 2 * IN; i += 256)  // columns left and right of the input
        input[(i / (2 * IN) * ROW + i / IN % 2 * (ROW - 1)) * PITCH + i % IN] = __float2bfloat16(0.0f);

    const int own_row = warp % 4, half = warp / 4;  // of positions, and of channels
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int h0 = tile % (HEIGHT / 4) * 4, d0 = tile / (HEIGHT / 4) % DEPTH, n = tile / (HEIGHT / 4 * DEPTH);
        __syncthreads();
        for (int i = warp; i < 18 * 2; i += 8) {  // a lane takes 16 columns of its channel
            const int d = d0 + i / 12 - 1, h = h0 + i / 2 % 6 - 1, w = i % 2 * 16;
            uint4 left = {}, right = {};
            if (d >= 0 && d < DEPTH && h >= 0 && h < HEIGHT) {
                const bf16* from = x + (((long long)(n * IN + lane) * DEPTH + d) * HEIGHT + h) * WIDTH + w;
                left = *reinterpret_cast<const uint4*>(from);
                right = *reinterpret_cast<const uint4*>(from + 8);
            }
            const unsigned words[8] = {left.x, left.y, left.z, left.w, right.x, right.y, right.z, right.w};
            bf16* to = input + (i / 2 * ROW + w + 1) * PITCH + lane;
#pragma unroll
            for (int j = 0; j < 16; j++) to[j * PITCH] = __ushort_as_bfloat16(words[j / 2] >> j % 2 * 16);
        }
        __syncthreads();
        float sums[2][4][4] = {};
#pragma unroll 1
        for (int plane = 0; plane < 3; plane++) {
#pragma unroll
            for (int k = 0; k < 9; k++) {
                // Tap t reads input j + 1 - t.
                const int tap = (2 - plane) * 9 + (2 - k / 3) * 3 + (2 - k % 3);
                const bf16* from = input + ((plane * 6 + own_row + k / 3) * ROW + k % 3) * PITCH;
                const bf16* by = weights + (tap * OUT + half * 32) * PITCH;
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    unsigned a[2][4], b[2][4];
#pragma unroll
                    for (int m = 0; m < 2; m++) load4(a[m], from + (m * 16 + lane % 16) * PITCH + c * 16 + lane / 16 * 8);
#pragma unroll
                    for (int p = 0; p < 2; p++)
                        load4(b[p], by + (p * 16 + lane / 16 * 8 + lane % 8) * PITCH + c * 16 + lane / 8 % 2 * 8);
#pragma unroll
                    for (int m = 0; m < 2; m++)
#pragma unroll
                        for (int q = 0; q < 4; q++) multiply(sums[m][q], a[m], b[q / 2][q % 2 * 2], b[q / 2][q % 2 * 2 + 1]);
                }
            }
        }
        // A value and the zero beside it are one word: which half it is depends on where its row begins.
#pragma unroll
        for (int q = 0; q < 4; q++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                const int channel = half * 32 + q * 8 + lane % 4 * 2 + e;
                const int row = ((n * OUT + channel) * OUT_D + 2 * d0 + 1) * OUT_H + 2 * (h0 + own_row) + 1;
                const long long begin = (long long)row * OUT_W;
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int r = 0; r < 2; r++) {
                        const int w = m * 16 + r * 8 + lane / 4;
                        const unsigned bits = __bfloat16_as_ushort(__float2bfloat16(sums[m][q][r * 2 + e]));
                        y[(begin + 2 * w + 1) / 2] = begin % 2 ? bits : bits << 16;
                    }
            }
    }
}
