/*forewarp
format = 1
inputs = ["q", "k", "v"]
outputs = ["o"]

[tunables]
STAGES = [2]           # blocks of keys and of values in flight
TURNS = [1, 0]         # 1: one consumer multiplies while the other one takes exponentials

[let]
heads = "q.shape[0] * q.shape[1]"
length = "q.shape[2]"

[tensor_maps]
q_map = { of = "q", shape = ["heads", "length", 128], box = [1, 128, 64], swizzle = 128 }
k_map = { of = "k", shape = ["heads", "length", 128], box = [1, 128, 64], swizzle = 128 }
v_map = { of = "v", shape = ["heads", "length", 128], box = [1, 128, 64], swizzle = 128 }
o_map = { of = "o", shape = ["heads", "length", 128], box = [1, 64, 64], swizzle = 128 }

[[launch]]
kernel = "attention"
args = ["q_map", "k_map", "v_map", "o_map", "length"]
grid = ["heads", "cdiv(length, 128)"]
block = [384]
shared = "32768 + STAGES * 65536 + 2048"
*/
#include <cuda_bf16.h>

using u32 = unsigned int;
using u64 = unsigned long long;

struct alignas(64) TensorMap {
    char bytes[128];
};

constexpr int TILE = 32768, HALF = 16384;  // bytes of 128 rows of 128 and of 64 numbers

__device__ u32 address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

__device__ void init(u32 bar, int count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count)); }

__device__ void expect(u32 bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ void arrive(u32 bar) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory"); }

__device__ void wait(u32 bar, int parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::"r"(bar),
        "r"(parity)
        : "memory");
}

// Loads 128 rows of a head as two halves of 64 columns.
__device__ void load(u32 to, const TensorMap* map, int row, int head, u32 bar) {
    for (int h = 0; h < 2; h++)
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to + h * HALF),
            "l"(map), "r"(64 * h), "r"(row), "r"(head), "r"(bar)
            : "memory");
}

// A tile in shared memory whose rows of 128 bytes are swizzled; strides are in bytes.
__device__ u64 descriptor(u32 at, int leading) {
    return u64(at >> 4 & 0x3FFF) | u64(leading >> 4) << 16 | u64(1024 >> 4) << 32 | 1ull << 62;
}

#define TEN(d) "%" #d "0,%" #d "1,%" #d "2,%" #d "3,%" #d "4,%" #d "5,%" #d "6,%" #d "7,%" #d "8,%" #d "9,"
#define D64 "{" TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) "%60,%61,%62,%63}"
#define F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F16(i) F4(i), F4(i + 4), F4(i + 8), F4(i + 12)
#define F64 F16(0), F16(16), F16(32), F16(48)

// d = q * k^T (+ d): 64 x 128 += 64 x 16 * 16 x 128.
__device__ void scores(float* d, u64 a, u64 b, int add) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " D64
                 ", %64, %65, p, 1, 1, 0, 0;\n}"
                 : F64
                 : "l"(a), "l"(b), "r"(add));
}

// d += p * v, with p in registers.
__device__ void values(float* d, const u32* a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 " D64
                 ", {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
                 : F64
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> __device__ void finish() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }
__device__ void keep(float* d) {
#pragma unroll
    for (int i = 0; i < 64; i++) asm volatile("" : "+f"(d[i])::"memory");
}

__device__ float power(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

__device__ u32 pair(float x, float y) {
    __nv_bfloat162 two = __floats2bfloat162_rn(x, y);
    return *reinterpret_cast<u32*>(&two);
}

// Turns scores into exponentials; a thread holds every fourth pair of columns of two rows. Returns what the rows'
// sums so far are to be scaled by.
__device__ void softmax(float* s, float* most, float* sum, float* factor, int row, int col, bool diagonal) {
    constexpr float SCALE = 1.4426950408889634f * 0.08838834764831845f;
    if (diagonal) {
#pragma unroll
        for (int i = 0; i < 64; i++)
            if (col + i / 4 * 8 + i % 2 > row + i % 4 / 2 * 8) s[i] = -1e30f;
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float now = most[r];
#pragma unroll
        for (int i = 2 * r; i < 64; i += 4) now = fmaxf(now, fmaxf(s[i], s[i + 1]));
        now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
        now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
        factor[r] = power((most[r] - now) * SCALE);
        most[r] = now;
        const float shift = now * SCALE;
        float total = 0;
#pragma unroll
        for (int i = 2 * r; i < 64; i += 4) {
            s[i] = power(fmaf(s[i], SCALE, -shift));
            s[i + 1] = power(fmaf(s[i + 1], SCALE, -shift));
            total += s[i] + s[i + 1];
        }
        sum[r] = sum[r] * factor[r] + total;
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
attention(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
          const __grid_constant__ TensorMap o, int length) {
    extern __shared__ unsigned char raw[];
    const u32 base = (address(raw) + 1023) / 1024 * 1024, tiles = base + TILE;
    const u32 queries = tiles + 2 * STAGES * TILE, full = queries + 8, empty = full + 16 * STAGES;
    const int group = threadIdx.x / 128, lane = threadIdx.x % 128, head = blockIdx.x;
    const int block = gridDim.y - 1 - blockIdx.y;  // the longest rows first

    if (threadIdx.x == 0) {
        init(queries, 1);
        for (int s = 0; s < 2 * STAGES; s++) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncthreads();

    // Stage s holds keys in tile 2 * s and values in tile 2 * s + 1, each with barriers of its own.
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            expect(queries, TILE);
            load(base, &q, block * 128, head, queries);
            int s = 0, parity = 1;
            for (int j = block; j >= 0; j--) {
                for (int w = 0; w < 2; w++) {
                    const int slot = 2 * s + w;
                    wait(empty + 8 * slot, parity);
                    expect(full + 8 * slot, TILE);
                    load(tiles + slot * TILE, w ? &v : &k, j * 128, head, full + 8 * slot);
                }
                if (++s == STAGES) s = 0, parity ^= 1;
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        const int half = group - 1, warp = lane / 32, l = lane % 32;
        const u32 own = base + half * 64 * 128;
        const int row = half * 64 + 16 * warp + l / 4, col = l % 4 * 2;
        float acc[64] = {}, s[64], most[2] = {-1e30f, -1e30f}, sum[2] = {}, factor[2];
        u32 p[32];
        int stage = 0, parity = 0;

        auto multiply_keys = [&](int slot) {
#pragma unroll
            for (int i = 0; i < 8; i++)
                scores(s, descriptor(own + i / 4 * HALF + i % 4 * 32, 16),
                       descriptor(tiles + slot * TILE + i / 4 * HALF + i % 4 * 32, 16), i);
            commit();
        };
        auto multiply_values = [&](int slot) {
#pragma unroll
            for (int i = 0; i < 8; i++) values(acc, p + 4 * i, descriptor(tiles + slot * TILE + i * 2048, HALF));
            commit();
        };
        auto release = [&](int slot) {
            if (lane == 0) arrive(empty + 8 * slot);
        };
        auto round_off = [&]() {
#pragma unroll
            for (int i = 0; i < 32; i++) p[i] = pair(s[2 * i], s[2 * i + 1]);
        };
        auto take_turn = [&]() {
            if (TURNS) asm volatile("bar.sync %0, 256;" ::"r"(2 + half) : "memory");
        };
        auto pass_turn = [&]() {
            if (TURNS) asm volatile("bar.arrive %0, 256;" ::"r"(3 - half) : "memory");
        };

        if (half == 1) pass_turn();
        wait(queries, 0);
        wait(full, 0);
        take_turn();
        fence();
        multiply_keys(0);
        pass_turn();
        finish<0>();
        keep(s);
        release(0);
        softmax(s, most, sum, factor, row, col, true);
        round_off();
        for (int j = block - 1; j >= 0; j--) {
            const int before = stage, parity_before = parity;
            if (++stage == STAGES) stage = 0, parity ^= 1;
            wait(full + 16 * stage, parity);
            take_turn();
            fence();
            keep(s);
            multiply_keys(2 * stage);
            wait(full + 16 * before + 8, parity_before);
            keep(acc);
            multiply_values(2 * before + 1);
            pass_turn();
            finish<1>();
            keep(s);
            release(2 * stage);
            softmax(s, most, sum, factor, row, col, false);
            finish<0>();
            keep(acc);
            release(2 * before + 1);
#pragma unroll
            for (int i = 0; i < 64; i++) acc[i] *= factor[i % 4 / 2];
            round_off();
        }
        wait(full + 16 * stage + 8, parity);
        fence();
        multiply_values(2 * stage + 1);
        finish<0>();
        keep(acc);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
            sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
            sum[r] = 1.0f / sum[r];
        }
        // The queries of this half are read no more: results take their place.
#pragma unroll
        for (int i = 0; i < 8; i++) {
            const float* d = acc + 8 * i;
            const int r = 16 * warp + l % 16, chunk = 2 * (i % 4) + l / 16;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                             own + i / 4 * HALF + r * 128 + ((chunk ^ r % 8) << 4)),
                         "r"(pair(d[0] * sum[0], d[1] * sum[0])), "r"(pair(d[2] * sum[1], d[3] * sum[1])),
                         "r"(pair(d[4] * sum[0], d[5] * sum[0])), "r"(pair(d[6] * sum[1], d[7] * sum[1]))
                         : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("bar.sync %0, 128;" ::"r"(4 + half) : "memory");
        if (lane == 0) {
            for (int h = 0; h < 2; h++)
                asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(
                                 &o),
                             "r"(64 * h), "r"(block * 128 + half * 64), "r"(head), "r"(own + h * HALF)
                             : "memory");
            asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
        }
    }
}
