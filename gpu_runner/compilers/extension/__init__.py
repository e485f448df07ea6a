"""C++ and CUDA extensions that Python candidates build with `torch.utils.cpp_extension`, built ahead and fast.

`compiling` builds them in a confined child, without a device; `worker.extensions` hands them to the cell.
"""
