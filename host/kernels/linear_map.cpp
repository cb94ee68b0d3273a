// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/linear_map.hpp"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstddef>

namespace tenon {
namespace {

struct Registered {
  const c10::TensorImpl* stand_in;
  const LinearMap* map;
};

std::vector<Registered>& registered() {
  thread_local std::vector<Registered> maps;
  return maps;
}

}  // namespace

LinearMapScope::LinearMapScope() : begin_(registered().size()) {}

LinearMapScope::~LinearMapScope() {
  registered().erase(registered().begin() + static_cast<std::ptrdiff_t>(begin_),
                     registered().end());
}

void LinearMapScope::add(const at::Tensor& stand_in, const LinearMap& map) {
  registered().push_back({stand_in.unsafeGetTensorImpl(), &map});
}

at::Tensor make_stand_in(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::empty(shape, at::TensorOptions().dtype(dtype).device(at::kMeta));
}

const LinearMap* linear_map_of(const at::Tensor& weight) {
  const std::vector<Registered>& maps = registered();
  if (maps.empty()) {
    return nullptr;
  }
  const auto found = std::ranges::find(maps, weight.unsafeGetTensorImpl(), &Registered::stand_in);
  return found != maps.end() ? found->map : nullptr;
}

bool has_stand_in(at::TensorList weights) {
  return std::ranges::any_of(
      weights, [](const at::Tensor& weight) { return linear_map_of(weight) != nullptr; });
}

at::Tensor weight_elements(const at::Tensor& weight) {
  const LinearMap* const map = linear_map_of(weight);
  return map != nullptr ? map->weight() : weight;
}

}  // namespace tenon
