/*forewarp
format = 1
inputs = ["x", "w"]
outputs = ["y"]
constraints = ["TX * TY >= 64 and TX * TY <= 1024", "(TX * RX + 4) * (TY * RY + 4) <= 12288"]

[tunables]
TX = [32, 8, 16, 64]
TY = [8, 2, 4, 16, 32]
RX = [1, 2, 4]
RY = [1, 2, 4, 8]

[let]
images = "x.shape[0]"
height = "x.shape[1]"
width = "x.shape[2]"

[[launch]]
kernel = "box_filter<TX, TY, RX, RY>"
args = ["x", "w", "y", "height", "width"]
grid = ["cdiv(width, TX * RX)", "cdiv(height, TY * RY)", "images"]
block = ["TX", "TY"]
*/

// A block filters a tile that it holds in shared memory with its border; a thread has RX x RY outputs, TX and TY apart.
template <int TX, int TY, int RX, int RY>
__global__ void __launch_bounds__(TX * TY)
box_filter(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int height, int width) {
    constexpr int W = TX * RX + 4, H = TY * RY + 4;
    __shared__ float tile[H][W];
    const int left = blockIdx.x * TX * RX - 2, top = blockIdx.y * TY * RY - 2;
    const float* image = x + (long long)blockIdx.z * height * width;
    for (int i = threadIdx.y; i < H; i += TY)
        for (int j = threadIdx.x; j < W; j += TX) {
            const int r = top + i, c = left + j;
            tile[i][j] = r >= 0 && r < height && c >= 0 && c < width ? image[(long long)r * width + c] : 0.0f;
        }
    float weight[25];
#pragma unroll
    for (int i = 0; i < 25; ++i) weight[i] = w[i];
    __syncthreads();
#pragma unroll
    for (int a = 0; a < RY; ++a)
#pragma unroll
        for (int b = 0; b < RX; ++b) {
            const int i = threadIdx.y + a * TY, j = threadIdx.x + b * TX;
            float sum = 0.0f;
#pragma unroll
            for (int u = 0; u < 5; ++u)
#pragma unroll
                for (int v = 0; v < 5; ++v) sum += weight[u * 5 + v] * tile[i + u][j + v];
            const int r = top + 2 + i, c = left + 2 + j;
            if (r < height && c < width) y[((long long)blockIdx.z * height + r) * width + c] = sum;
        }
}
