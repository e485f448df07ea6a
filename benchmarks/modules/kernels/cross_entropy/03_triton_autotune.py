import torch
import torch.nn as nn
import triton
import triton.language as tl


def get_configs():
    return [
        triton.Config({"BLOCK_V": 1024}, num_warps=4, num_stages=2),
        triton.Config({"BLOCK_V": 2048}, num_warps=4, num_stages=3),
        triton.Config({"BLOCK_V": 4096}, num_warps=8, num_stages=2),
    ]


@triton.autotune(configs=get_configs(), key=["V"])
@triton.jit
def cross_entropy_fwd(Logits, Target, Loss, stride, V, BLOCK_V: tl.constexpr):
    pid = tl.program_id(0)
    Logits += pid * stride
    target = tl.load(Target + pid)
    running_max = tl.full([BLOCK_V], float("-inf"), dtype=tl.float32)
    for off in tl.range(0, V, BLOCK_V):
        cols = off + tl.arange(0, BLOCK_V)
        running_max = tl.maximum(
            running_max, tl.load(Logits + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        )
    top = tl.max(running_max)
    acc = tl.zeros([BLOCK_V], dtype=tl.float32)
    hit = tl.zeros([BLOCK_V], dtype=tl.float32)
    for off in tl.range(0, V, BLOCK_V):
        cols = off + tl.arange(0, BLOCK_V)
        x = tl.load(Logits + cols, mask=cols < V, other=float("-inf")).to(tl.float32)
        acc += tl.exp(x - top)
        hit += tl.where(cols == target, x, 0.0)
    tl.store(Loss + pid, tl.log(tl.sum(acc)) + top - tl.sum(hit))


class ModelNew(nn.Module):
    def forward(self, logits, targets):
        B, V = logits.shape
        loss = torch.empty((B,), device=logits.device, dtype=torch.float32)
        cross_entropy_fwd[(B,)](logits, targets, loss, logits.stride(0), V)
        return loss
