/*forewarp
format = 1
inputs = ["x", "packed", "scale", "zero"]
outputs = ["y"]
constraints = ["DEEP * STAGES <= 9"]

[tunables]
PARTS = [8, 4, 2]      # warps that share the depth of a tile of rows, where x is short
DEEP = [2, 4]          # and where it is tall
STAGES = [2, 4, 3]     # of copies in flight, where it is tall

[let]
rows = "x.shape[0]"
out = "packed.shape[0]"

[constants]
WIDE = "x.shape[1]"
GROUPS = "scale.shape[1]"

[[launch]]
kernel = "short_rows"
when = "rows <= 8"
args = ["x", "packed", "scale", "zero", "y", "rows", "out"]
grid = ["out // 16"]
block = ["32 * PARTS"]

[[launch]]
kernel = "tall"
when = "rows > 8"
args = ["x", "packed", "scale", "zero", "y", "rows", "out"]
grid = ["cdiv(out, 128)", "cdiv(rows, 64)"]
block = ["128 * DEEP"]
shared = "24576 * DEEP * STAGES"
*/
// Weights are the first operand of mma.m16n8k16: 16 of their rows, and x by its rows as the second. A lane reads 16 bytes,
// 32 columns, of a row at once; four lanes read a group of 128. Which column is which step of the depth does not matter
// as long as both operands agree: a word's nibbles i and i + 4 are unpacked together, so they are one pair.
#include <cuda_bf16.h>

static_assert(WIDE == 128 * GROUPS && GROUPS % PARTS == 0 && GROUPS % DEEP == 0, "groups of 128 columns");

using bf16 = __nv_bfloat16;

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ unsigned word_of(__nv_bfloat162 v) { return *reinterpret_cast<unsigned*>(&v); }
__device__ __forceinline__ __nv_bfloat162 pair_of(unsigned v) { return *reinterpret_cast<__nv_bfloat162*>(&v); }

// Nibbles i and i + 4 of a word as (level - zero); 0x4300 is 128 in bf16, whose last bits count ones.
__device__ __forceinline__ unsigned unpacked(unsigned word, int i, __nv_bfloat162 zero) {
    return word_of(__hsub2(pair_of((word >> 4 * i & 0x000f000fu) | 0x43004300u), zero));
}
__device__ __forceinline__ unsigned part(const uint4 v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }

extern "C" __global__ void __launch_bounds__(32 * PARTS)
short_rows(const bf16* __restrict__ x, const unsigned char* __restrict__ packed, const bf16* __restrict__ scale,
           const unsigned char* __restrict__ zero, bf16* __restrict__ y, int rows, int out) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, first = blockIdx.x * 16;
    float sums[4] = {};
    uint4 w[2][GROUPS / PARTS];
#pragma unroll
    for (int k = 0; k < GROUPS / PARTS; k++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            w[r][k] = __ldcs(reinterpret_cast<const uint4*>(
                packed + (long long)(first + g + 8 * r) * (WIDE / 2) + (k * PARTS + warp) * 64 + 16 * t));
#pragma unroll
    for (int k = 0; k < GROUPS / PARTS; k++) {
        const int group = k * PARTS + warp;
        __nv_bfloat162 zeros[2];
        float scales[2], inner[4] = {};
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const int at = (first + g + 8 * r) * GROUPS + group;
            zeros[r] = __bfloat162bfloat162(__ushort_as_bfloat16(0x4300 + zero[at]));
            scales[r] = __bfloat162float(scale[at]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint4 v = make_uint4(0, 0, 0, 0);
            if (g < rows) v = *reinterpret_cast<const uint4*>(x + (long long)g * WIDE + group * 128 + 32 * t + 8 * i);
            const unsigned b[4] = {__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632),
                                   __byte_perm(v.y, v.w, 0x5410), __byte_perm(v.y, v.w, 0x7632)};
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const unsigned a[4] = {unpacked(part(w[0][k], i), 2 * h, zeros[0]), unpacked(part(w[1][k], i), 2 * h, zeros[1]),
                                       unpacked(part(w[0][k], i), 2 * h + 1, zeros[0]),
                                       unpacked(part(w[1][k], i), 2 * h + 1, zeros[1])};
                multiply(inner, a, b[2 * h], b[2 * h + 1]);
            }
        }
#pragma unroll
        for (int e = 0; e < 4; e++) sums[e] = fmaf(scales[e / 2], inner[e], sums[e]);
    }
    __shared__ float parts[PARTS][4][32];
#pragma unroll
    for (int e = 0; e < 4; e++) parts[warp][e][lane] = sums[e];
    __syncthreads();
    for (int i = threadIdx.x; i < 128; i += 32 * PARTS) {
        const int e = i / 32, from = i % 32, row = from % 4 * 2 + e % 2, column = first + from / 4 + e / 2 * 8;
        float sum = 0;
#pragma unroll
        for (int p = 0; p < PARTS; p++) sum += parts[p][e][from];
        if (row < rows) y[(long long)row * out + column] = __float2bfloat16(sum);
    }
}

// 128 rows of weights by 64 rows of x a block: four warps below each other, for each of DEEP parts of the depth.
// A stage holds a group of every part of x: [part][row of x][16 pieces of 8 columns], then of the weights:
// [part][row][4 pieces of 32 columns]. Pieces of x that four lanes read at once lie next to each other.
#define X_BYTES (16384 * DEEP)
#define STAGE (24576 * DEEP)

__device__ __forceinline__ int place(int row, int piece) { return row * 256 + ((piece % 4 * 4 + piece / 4) ^ (row % 2 * 4)) * 16; }

__device__ __forceinline__ void copy16(unsigned char* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))), "l"(from));
}

extern "C" __global__ void __launch_bounds__(128 * DEEP, 1)
tall(const bf16* __restrict__ x, const unsigned char* __restrict__ packed, const bf16* __restrict__ scale,
     const unsigned char* __restrict__ zero, bf16* __restrict__ y, int rows, int out) {
    extern __shared__ __align__(128) unsigned char shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int part_of_depth = warp / 4, first = blockIdx.x * 128 + warp % 4 * 32, above = blockIdx.y * 64;
    constexpr int STEPS = GROUPS / DEEP;

    auto fetch = [&](int step) {
        unsigned char* stage = shared + step % STAGES * STAGE;
#pragma unroll
        for (int n = 0; n < 8; n++) {
            const int i = n * 128 * DEEP + threadIdx.x, piece = i % 16, row = i / 16 % 64, q = i / 1024;
            copy16(stage + q * 16384 + place(row, piece),
                   x + (long long)min(above + row, rows - 1) * WIDE + (q * STEPS + step) * 128 + piece * 8);
        }
#pragma unroll
        for (int n = 0; n < 4; n++) {
            const int i = n * 128 * DEEP + threadIdx.x, piece = i % 4, row = i / 4 % 128, q = i / 512;
            copy16(stage + X_BYTES + (q * 128 + row) * 64 + piece * 16,
                   packed + (long long)min((int)blockIdx.x * 128 + row, out - 1) * (WIDE / 2) + (q * STEPS + step) * 64 + piece * 16);
        }
    };
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        fetch(s);
        asm volatile("cp.async.commit_group;");
    }
    float sums[2][8][4] = {};
#pragma unroll 1
    for (int step = 0; step < STEPS; step++) {
        __nv_bfloat162 zeros[2][2], scales[2][2];
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int at = min(first + 16 * m + 8 * r + g, out - 1) * GROUPS + part_of_depth * STEPS + step;
                zeros[m][r] = __bfloat162bfloat162(__ushort_as_bfloat16(0x4300 + zero[at]));
                scales[m][r] = __bfloat162bfloat162(scale[at]);
            }
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();  // this stage is there, and nobody reads the one before any more
        if (step + STAGES - 1 < STEPS) fetch(step + STAGES - 1);
        asm volatile("cp.async.commit_group;");
        const unsigned char* from = shared + step % STAGES * STAGE + part_of_depth * 16384;
        uint4 w[2][2];
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                w[m][r] = *reinterpret_cast<const uint4*>(shared + step % STAGES * STAGE + X_BYTES +
                                                          (part_of_depth * 128 + warp % 4 * 32 + m * 16 + r * 8 + g) * 64 + t * 16);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            unsigned a[2][2][4];  // [tile][half of the word]
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        a[m][h][e] = word_of(__hmul2(pair_of(unpacked(part(w[m][e % 2], i), 2 * h + e / 2, zeros[m][e % 2])),
                                                     scales[m][e % 2]));
#pragma unroll
            for (int n = 0; n < 8; n++) {
                const int row = n * 8 + g;
                const uint4 v = *reinterpret_cast<const uint4*>(from + place(row, 4 * t + i));
                const unsigned b[4] = {__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632),
                                       __byte_perm(v.y, v.w, 0x5410), __byte_perm(v.y, v.w, 0x7632)};
#pragma unroll
                for (int m = 0; m < 2; m++)
#pragma unroll
                    for (int h = 0; h < 2; h++) multiply(sums[m][n], a[m][h], b[2 * h], b[2 * h + 1]);
            }
        }
    }
    // Parts are added up through shared memory, [row of x][row of weights].
    float* gathered = reinterpret_cast<float*>(shared);
    asm volatile("cp.async.wait_group 0;");
    for (int q = 0; q < DEEP; q++) {
        __syncthreads();
        if (part_of_depth != q) continue;
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int n = 0; n < 8; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float* at = gathered + (n * 8 + 2 * t + e % 2) * 132 + warp % 4 * 32 + m * 16 + g + e / 2 * 8;
                    *at = q ? *at + sums[m][n][e] : sums[m][n][e];
                }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 64 * 128; i += 128 * DEEP) {
        const int row = above + i / 128, column = blockIdx.x * 128 + i % 128;
        if (row < rows && column < out) y[(long long)row * out + column] = __float2bfloat16(gathered[i / 128 * 132 + i % 128]);
    }
}
