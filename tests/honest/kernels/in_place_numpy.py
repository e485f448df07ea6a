"""Clamps in place through NumPy, on the memory of the tensor."""

import numpy as np
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        values = x.numpy()
        np.clip(values, -1.0, 1.0, out=values)
        return x
