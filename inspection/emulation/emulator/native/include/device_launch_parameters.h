#pragma once
#include "cuda_shim.hpp"
