// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/tensor_region.hpp"

#include <utility>

namespace tenon {
namespace {

thread_local const TensorRegionScope* region_scope_here = nullptr;

}  // namespace

TensorRegionScope::TensorRegionScope(TensorRegionPtr region)
    : region_(region && region->ranks->size() > 1 ? std::move(region) : TensorRegionPtr()),
      before_(region_scope_here) {
  region_scope_here = this;
}

TensorRegionScope::~TensorRegionScope() {
  region_scope_here = before_;
}

const TensorRegionPtr& tensor_region() {
  static const TensorRegionPtr none;
  return region_scope_here == nullptr ? none : region_scope_here->region_;
}

}  // namespace tenon
