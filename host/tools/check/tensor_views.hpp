// SPDX-License-Identifier: Apache-2.0
//
// Tensors with the values of another one and another place in memory: what a component may get in
// place of a contiguous tensor.
// Threads: any.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <string_view>
#include <vector>

namespace tenon {

enum class ViewKind {
  kOffset,     // contiguous, from a later element of its storage on; on a 64-byte boundary
  kGaps,       // every second element of the last axis
  kTransposed  // the last two axes are swapped in memory; kGaps for fewer than two axes
};

inline constexpr std::array kViewKinds = {
    ViewKind::kOffset, ViewKind::kGaps, ViewKind::kTransposed};

// "with an offset", "with gaps", "transposed".
std::string_view view_name(ViewKind kind);

// Returns a copy of `tensor`, detached, in another layout. What surrounds it is NaN, or the largest
// integer. An undefined tensor stays undefined.
at::Tensor view_of(const at::Tensor& tensor, ViewKind kind);
std::vector<at::Tensor> views_of(const std::vector<at::Tensor>& tensors, ViewKind kind);

// Returns copies of all tensors; undefined ones stay undefined.
std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors);

// True if shapes and dtypes are equal, and no element differs by more than `tolerance` times the
// largest absolute value, or 1 if that is larger. A NaN equals a NaN. Integers must be equal.
bool is_close(const at::Tensor& found, const at::Tensor& expected, double tolerance);

}  // namespace tenon
