// SPDX-License-Identifier: Apache-2.0
//
// Weights that are not stored as a matrix, for the operators of this folder. A caller that has such
// a weight passes a stand-in, a tensor without memory that has the shape of the matrix, and
// registers the linear map behind it. `tenon::linear` and operators made of it call the map;
// operators that read a weight's elements get the whole matrix. Any other use of a stand-in fails,
// because it has no elements.
// Threads: a registration holds for the thread that makes it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace tenon {

class LinearMap {
 public:
  virtual ~LinearMap() = default;
  // Returns x W^T, differentiable by x and by whatever W consists of.
  // Shapes  x [..., in]; the result is [..., out]
  virtual at::Tensor product(const at::Tensor& x) const = 0;
  // Returns W, differentiable.
  // Shapes  [out, in]
  virtual at::Tensor weight() const = 0;
};

// Registers maps during its lifetime. Scopes may nest.
class LinearMapScope {
 public:
  LinearMapScope();
  ~LinearMapScope();
  LinearMapScope(const LinearMapScope&) = delete;
  LinearMapScope& operator=(const LinearMapScope&) = delete;

  // Owner  both are borrowed for the lifetime of the scope
  void add(const at::Tensor& stand_in, const LinearMap& map);

 private:
  std::size_t begin_;
};

// Returns a tensor to register: it has no memory.
at::Tensor make_stand_in(at::IntArrayRef shape, at::ScalarType dtype);

// Returns the map that is registered for a weight on this thread, or null.
const LinearMap* linear_map_of(const at::Tensor& weight);

// True if one of the weights is a stand-in.
bool has_stand_in(at::TensorList weights);

// Returns the elements of a weight: the weight itself, or the matrix of its map.
at::Tensor weight_elements(const at::Tensor& weight);

}  // namespace tenon
