import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_source = r"""
#include <torch/extension.h>

__global__ void depthwise_conv3x3(const float* x, const float* w, const float* bias, float* y, int C, int H, int W, int total) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= total) return;
    int ow = idx % W;
    int oh = (idx / W) % H;
    int c = (idx / (W * H)) % C;
    int plane = idx - oh * W - ow;
    float sum = bias[c];
    for (int kh = 0; kh < 3; kh++) {
        for (int kw = 0; kw < 3; kw++) {
            int ih = oh + kh - 1;
            int iw = ow + kw - 1;
            if (ih >= 0 && ih < H && iw >= 0 && iw < W) sum += x[plane + ih * W + iw] * w[c * 9 + kh * 3 + kw];
        }
    }
    y[idx] = sum;
}

torch::Tensor depthwise(torch::Tensor x, torch::Tensor w, torch::Tensor bias) {
    auto y = torch::empty_like(x);
    int total = x.numel();
    depthwise_conv3x3<<<(total + 255) / 256, 256>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), x.size(1), x.size(2), x.size(3), total);
    return y;
}
"""

ext = load_inline(
    name="depthwise_naive",
    cpp_sources="torch::Tensor depthwise(torch::Tensor x, torch::Tensor w, torch::Tensor bias);",
    cuda_sources=cuda_source,
    functions=["depthwise"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x):
        return ext.depthwise(x, self.conv.weight, self.conv.bias)
