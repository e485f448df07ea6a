// What NVRTC knows without an include.
#pragma once
#include "fw_words.hpp"
#include "fw_vectors.hpp"
#include "fw_math.hpp"
#include "fw_warp.hpp"
