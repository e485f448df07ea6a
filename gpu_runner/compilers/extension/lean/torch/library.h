#pragma once

#ifdef FOREWARP_LIBRARY
#include_next <torch/library.h>
#endif
