/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]
constraints = ["LANES * GROUPS <= 1024"]

[tunables]
LANES = [64, 32, 16]     # threads next to each other, each with eight positions
GROUPS = [8, 16, 32]     # groups of threads that share the channels

[constants]
CHANNELS = "x.shape[1]"
PLACES = "x.shape[2] * x.shape[3]"
MINE = "cdiv(CHANNELS, GROUPS)"

[[launch]]
kernel = "normalise"
args = ["x", "y"]
grid = ["cdiv(PLACES, 8 * LANES)", "x.shape[0]"]
block = ["LANES", "GROUPS"]
*/
#include <cuda_bf16.h>

static_assert(PLACES % 8 == 0, "positions come in eights");

__device__ __forceinline__ float low(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high(unsigned word) { return __uint_as_float(word & 0xffff0000u); }

extern "C" __global__ void __launch_bounds__(LANES * GROUPS)
normalise(const uint4* __restrict__ x, uint4* __restrict__ y) {
    const int place = blockIdx.x * LANES + threadIdx.x;  // in eights
    const bool inside = place < PLACES / 8;
    const long long image = (long long)blockIdx.y * CHANNELS * (PLACES / 8) + place;
    uint4 kept[MINE];
#pragma unroll
    for (int m = 0; m < MINE; m++) {
        const int channel = m * GROUPS + threadIdx.y;
        kept[m] = make_uint4(0, 0, 0, 0);
        if (inside && channel < CHANNELS) kept[m] = x[image + (long long)channel * (PLACES / 8)];
    }
    float squares[8] = {};
#pragma unroll
    for (int m = 0; m < MINE; m++) {
        const unsigned words[4] = {kept[m].x, kept[m].y, kept[m].z, kept[m].w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            squares[2 * i] = fmaf(low(words[i]), low(words[i]), squares[2 * i]);
            squares[2 * i + 1] = fmaf(high(words[i]), high(words[i]), squares[2 * i + 1]);
        }
    }
    __shared__ float shared[GROUPS][8][LANES];
#pragma unroll
    for (int i = 0; i < 8; i++) shared[threadIdx.y][i][threadIdx.x] = squares[i];
    __syncthreads();
    for (int i = threadIdx.y; i < 8; i += GROUPS) {
        float sum = 0;
#pragma unroll
        for (int g = 0; g < GROUPS; g++) sum += shared[g][i][threadIdx.x];
        shared[0][i][threadIdx.x] = rsqrtf(sum / CHANNELS + 1e-5f);
    }
    __syncthreads();
    float factor[8];
#pragma unroll
    for (int i = 0; i < 8; i++) factor[i] = shared[0][i][threadIdx.x];
#pragma unroll
    for (int m = 0; m < MINE; m++) {
        const int channel = m * GROUPS + threadIdx.y;
        unsigned words[4] = {kept[m].x, kept[m].y, kept[m].z, kept[m].w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const __nv_bfloat162 pair =
                __floats2bfloat162_rn(low(words[i]) * factor[2 * i], high(words[i]) * factor[2 * i + 1]);
            words[i] = *reinterpret_cast<const unsigned*>(&pair);
        }
        if (inside && channel < CHANNELS)
            y[image + (long long)channel * (PLACES / 8)] = make_uint4(words[0], words[1], words[2], words[3]);
    }
}
