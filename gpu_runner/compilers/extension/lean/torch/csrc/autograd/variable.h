#pragma once

#ifdef FOREWARP_FACTORIES
#include_next <torch/csrc/autograd/variable.h>
#endif
