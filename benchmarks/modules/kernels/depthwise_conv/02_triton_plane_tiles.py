import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def conv_tile(x, w, b, y, C, H, W, TH: tl.constexpr, TW: tl.constexpr):
    plane = tl.program_id(0)
    c = plane % C
    tiles_w = tl.cdiv(W, TW)
    t = tl.program_id(1)
    r = t // tiles_w * TH + tl.arange(0, TH)[:, None]
    k = t % tiles_w * TW + tl.arange(0, TW)[None, :]
    base = plane.to(tl.int64) * H * W
    acc = tl.zeros((TH, TW), tl.float32) + tl.load(b + c)
    for i in tl.static_range(9):
        rr = r + i // 3 - 1
        kk = k + i % 3 - 1
        ok = (rr >= 0) & (rr < H) & (kk >= 0) & (kk < W)
        acc += tl.load(x + base + rr * W + kk, mask=ok, other=0.0) * tl.load(w + c * 9 + i)
    tl.store(y + base + r * W + k, acc, mask=(r < H) & (k < W))


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x):
        B, C, H, W = x.shape
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        grid = (B * C, triton.cdiv(H, 16) * triton.cdiv(W, 64))
        conv_tile[grid](x, self.conv.weight, self.conv.bias, out, C, H, W, TH=16, TW=64)
        return out
