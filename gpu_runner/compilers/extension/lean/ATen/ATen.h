#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/Device.h>
#ifdef FOREWARP_BODIES
#include <ATen/Context.h>
#include <ATen/DeviceGuard.h>
#include <ATen/Dispatch.h>
#include <ATen/Formatting.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Scalar.h>
#include <c10/core/Layout.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>
#endif
#ifdef FOREWARP_INDEXING
#include <ATen/TensorIndexing.h>
#endif
