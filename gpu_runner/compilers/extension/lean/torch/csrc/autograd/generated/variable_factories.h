#pragma once

#ifdef FOREWARP_FACTORIES
#include_next <torch/csrc/autograd/generated/variable_factories.h>
#endif
