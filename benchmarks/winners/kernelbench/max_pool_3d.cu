/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]

[tunables]
PARTS = [1, 2, 4]       # blocks that share the depth of a volume
RESIDENT = [2, 3, 1]    # blocks a multiprocessor is to hold

[constants]
DEPTH = "x.shape[2]"
HEIGHT = "x.shape[3]"
WIDTH = "x.shape[4]"
OUT_D = "y.shape[2]"
OUT_H = "y.shape[3]"
OUT_W = "y.shape[4]"

[[launch]]
kernel = "pool"
args = ["x", "y"]
grid = ["x.shape[0] * x.shape[1]", "PARTS"]
block = [256]
*/
// Windows of 3, stride 2, padding 1, dilation 3: an output reads odd 2i - 1, even 2i + 2 and odd 2i + 5 in each direction.
// A lane holds four neighbours of a row in two words of two bf16, so that the maximum over a row's window is three shuffles.
#include <cuda_bf16.h>

static_assert(WIDTH == 128 && HEIGHT == 128 && DEPTH % 2 == 0 && OUT_W == 62 && OUT_H == 62, "of this problem alone");

#define LOWEST 0xff80ff80u  // two of minus infinity
#define STRIPE 8            // rows of outputs of a warp

__device__ __forceinline__ unsigned most(unsigned a, unsigned b) {
    unsigned c;
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(c) : "r"(a), "r"(b));
    return c;
}

// Pool a plane over rows and columns; a lane gets outputs 2 * lane and 2 * lane + 1 of each row.
__device__ __forceinline__ void flat(const uint2* plane, int warp, int lane, unsigned (&out)[STRIPE]) {
    uint2 rows[2 * STRIPE + 5];  // from row 16 * warp - 1 on; what is not needed is not loaded
#pragma unroll
    for (int r = 0; r < 2 * STRIPE + 5; r++) {
        const int row = 2 * STRIPE * warp - 1 + r;
        rows[r] = make_uint2(LOWEST, LOWEST);
        if (row >= 0 && row < HEIGHT) rows[r] = __ldg(plane + row * (WIDTH / 4) + lane);
    }
#pragma unroll
    for (int i = 0; i < STRIPE; i++) {
        const uint2 a = rows[2 * i], b = rows[2 * i + 3], c = rows[2 * i + 6];
        const uint2 v = make_uint2(most(most(a.x, b.x), c.x), most(most(a.y, b.y), c.y));
        // Words of four neighbours: v.x holds elements 4l, 4l + 1, v.y 4l + 2, 4l + 3.
        const unsigned before = __shfl_up_sync(~0u, v.y, 1);       // elements 4l - 2, 4l - 1
        const unsigned next = __shfl_down_sync(~0u, v.x, 1);       // 4l + 4, 4l + 5
        const unsigned after = __shfl_down_sync(~0u, v.y, 1);      // 4l + 6, 4l + 7
        // Output 2l: 4l - 1, 4l + 2, 4l + 5. Output 2l + 1: 4l + 1, 4l + 4, 4l + 7.
        const unsigned first = __byte_perm(lane ? before : LOWEST, v.x, 0x7632);  // (4l - 1, 4l + 1)
        const unsigned second = __byte_perm(v.y, next, 0x5410);                   // (4l + 2, 4l + 4)
        const unsigned third = __byte_perm(next, after, 0x7632);                  // (4l + 5, 4l + 7)
        out[i] = most(most(first, second), third);
    }
}

extern "C" __global__ void __launch_bounds__(256, RESIDENT)
pool(const uint2* __restrict__ x, unsigned* __restrict__ y) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint2* volume = x + (long long)blockIdx.x * DEPTH * HEIGHT * (WIDTH / 4);
    unsigned* to = y + (long long)blockIdx.x * OUT_D * OUT_H * (OUT_W / 2);
    const int begin = OUT_D * (int)blockIdx.y / PARTS, end = OUT_D * ((int)blockIdx.y + 1) / PARTS;
    unsigned odd[3][STRIPE], even[STRIPE], last[STRIPE];
#pragma unroll
    for (int k = 0; k < 3; k++) {
        const int plane = 2 * begin - 1 + 2 * k;
#pragma unroll
        for (int i = 0; i < STRIPE; i++) odd[k][i] = LOWEST;
        if (plane >= 0) flat(volume + (long long)plane * HEIGHT * (WIDTH / 4), warp, lane, odd[k]);
    }
#pragma unroll 1
    for (int d = begin; d < end; d++) {
        flat(volume + (long long)(2 * d + 2) * HEIGHT * (WIDTH / 4), warp, lane, even);
        flat(volume + (long long)(2 * d + 5) * HEIGHT * (WIDTH / 4), warp, lane, last);
#pragma unroll
        for (int i = 0; i < STRIPE; i++) {
            const int row = STRIPE * warp + i;
            if (row < OUT_H && lane < OUT_W / 2)
                to[(d * OUT_H + row) * (OUT_W / 2) + lane] = most(most(odd[0][i], even[i]), last[i]);
            odd[0][i] = odd[1][i];
            odd[1][i] = odd[2][i];
            odd[2][i] = last[i];
        }
    }
}
