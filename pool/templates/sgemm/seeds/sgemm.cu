/*forewarp
format = 1
inputs = ["a", "b"]
outputs = ["c"]
constraints = ["(BM // TM) * (BN // TN) >= 32 and (BM // TM) * (BN // TN) <= 1024"]

[tunables]
BM = [128, 32, 64, 256]
BN = [128, 32, 64]
BK = [8, 16, 32]
TM = [8, 4]
TN = [8, 4]

[let]
m = "a.shape[0]"
k = "a.shape[1]"
n = "b.shape[1]"

[[launch]]
kernel = "sgemm<BM, BN, BK, TM, TN>"
args = ["m", "n", "k", "a", "b", "c"]
grid = ["n // BN", "m // BM"]
block = ["(BM // TM) * (BN // TN)"]
*/

// A block computes BM x BN of C, a thread TM x TN of it; A is kept transposed so that both tiles are read in rows.
template <int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__((BM / TM) * (BN / TN))
sgemm(int M, int N, int K, const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C) {
    constexpr int THREADS = (BM / TM) * (BN / TN);
    __shared__ float As[BK * BM];
    __shared__ float Bs[BK * BN];
    const int tid = threadIdx.x, threadCol = tid % (BN / TN), threadRow = tid / (BN / TN);
    A += blockIdx.y * BM * K;
    B += blockIdx.x * BN;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    float acc[TM * TN] = {0.0f};
    float regM[TM], regN[TN];
    for (int start = 0; start < K; start += BK) {
#pragma unroll
        for (int i = tid; i < BM * BK / 4; i += THREADS) {
            const int row = i / (BK / 4), col = i % (BK / 4) * 4;
            const float4 t = *reinterpret_cast<const float4*>(&A[row * K + col]);
            As[(col + 0) * BM + row] = t.x;
            As[(col + 1) * BM + row] = t.y;
            As[(col + 2) * BM + row] = t.z;
            As[(col + 3) * BM + row] = t.w;
        }
#pragma unroll
        for (int i = tid; i < BK * BN / 4; i += THREADS) {
            const int row = i / (BN / 4), col = i % (BN / 4) * 4;
            *reinterpret_cast<float4*>(&Bs[row * BN + col]) = *reinterpret_cast<const float4*>(&B[row * N + col]);
        }
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int d = 0; d < BK; ++d) {
            for (int i = 0; i < TM; ++i) regM[i] = As[d * BM + threadRow * TM + i];
            for (int j = 0; j < TN; ++j) regN[j] = Bs[d * BN + threadCol * TN + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) acc[i * TN + j] += regM[i] * regN[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; j += 4)
            *reinterpret_cast<float4*>(&C[(threadRow * TM + i) * N + threadCol * TN + j]) =
                make_float4(acc[i * TN + j], acc[i * TN + j + 1], acc[i * TN + j + 2], acc[i * TN + j + 3]);
}
