"""C++ and CUDA extensions that Python candidates build with `torch.utils.cpp_extension`, built ahead and fast."""
