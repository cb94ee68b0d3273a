// SPDX-License-Identifier: Apache-2.0
#include "host/model/tensor_group.hpp"

#include "host/model/divided_graph.hpp"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

namespace tenon {
namespace {

bool is_narrow(const at::Tensor& tensor) {
  return tensor.is_floating_point() && tensor.element_size() < 4;
}

// Returns the elements, with zeros up to a multiple of `ranks`.
// Shapes  the result [ranks * k]
at::Tensor padded_to(uint32_t ranks, const at::Tensor& tensor) {
  const at::Tensor flat = tensor.reshape({-1});
  const int64_t rest = flat.numel() % ranks;
  return rest == 0 ? flat : at::cat({flat, at::zeros({ranks - rest}, flat.options())});
}

}  // namespace

// Narrow elements are sent in their dtype, and added in fp32.
void TensorGroup::sum(at::Tensor& whole, std::string_view what) {
  if (whole.numel() == 0) {
    return;
  }
  const at::AutoGradMode no_grad(false);
  at::Tensor flat = whole.view({-1});
  if (!is_narrow(whole)) {
    ranks_.all_reduce(flat, what)->wait();
    return;
  }
  at::Tensor all = padded_to(size(), flat);
  at::Tensor sum = at::empty({all.numel() / size()}, all.options().dtype(at::kFloat));
  ranks_.reduce_scatter(sum, all, what)->wait();
  const at::Tensor rounded = sum.to(whole.scalar_type());
  at::Tensor sums = at::empty_like(all);
  ranks_.all_gather(sums, rounded, what)->wait();
  flat.copy_(sums.narrow(0, 0, flat.numel()));
}

void TensorGroup::max(at::Tensor& whole, std::string_view what) {
  if (whole.numel() == 0) {
    return;
  }
  const at::AutoGradMode no_grad(false);
  at::Tensor flat = whole.view({-1});
  at::Tensor all = at::empty({size() * flat.numel()}, flat.options());
  ranks_.all_gather(all, flat, what)->wait();
  flat.copy_(all.view({size(), flat.numel()}).amax(0));
}

std::vector<at::Tensor> TensorGroup::gather(const at::Tensor& part, std::string_view what) {
  const at::AutoGradMode no_grad(false);
  std::vector<int64_t> shape = part.sizes().vec();
  shape.insert(shape.begin(), size());
  const at::Tensor all = at::empty(shape, part.options());
  if (part.numel() > 0) {
    at::Tensor flat = all.view({-1});
    ranks_.all_gather(flat, part.detach().view({-1}), what)->wait();
  }
  return all.unbind(0);
}

at::Tensor TensorGroup::sum_scatter(const std::vector<at::Tensor>& for_ranks,
                                    std::string_view what) {
  const at::AutoGradMode no_grad(false);
  const at::Tensor& mine = for_ranks[rank()];
  if (mine.numel() == 0) {
    return mine.detach().clone();
  }
  const at::Tensor all = at::stack(for_ranks).view({-1});
  at::Tensor sum = at::empty(
      {mine.numel()}, all.options().dtype(is_narrow(mine) ? at::kFloat : mine.scalar_type()));
  ranks_.reduce_scatter(sum, all, what)->wait();
  return sum.to(mine.scalar_type()).view(mine.sizes());
}

TensorRegionPtr TensorGroup::new_region(const std::string& block) {
  auto region = c10::make_intrusive<TensorRegion>();
  region->ranks = this;
  region->block = block;
  return region;
}

// ---- values with a split ----

std::vector<TensorGroup::Range> TensorGroup::ranges_of(const ModelSplit& split,
                                                       uint32_t rank) const {
  std::vector<Range> ranges;
  int64_t first = 0;  // of the part
  for (size_t i = 0; i < split.parts.size(); ++i) {
    const int64_t size = split.parts[i];
    const ModelSplit one{.axis = 0, .parts = {size}, .units = {split.units[i]}};
    const auto of = [&](uint32_t r) {
      return divided_part(one, {size}, {.index = r, .count = this->size()}, "a value");
    };
    const Box held = of(rank);
    ranges.push_back({.begin = first + held.start[0],
                      .length = held.size[0],
                      .is_first_copy = rank == 0 || of(rank - 1).start != held.start});
    first += size;
  }
  return ranges;
}

at::Tensor TensorGroup::whole(const at::Tensor& part,
                              const ModelSplit& split,
                              std::string_view what) {
  const at::AutoGradMode no_grad(false);
  const auto axis = static_cast<int64_t>(split.axis);
  const std::vector<at::Tensor> parts = gather(part.detach().contiguous(), what);
  std::vector<int64_t> shape = part.sizes().vec();
  int64_t& length = shape[split.axis];
  length = 0;
  for (const int64_t one : split.parts) {
    length += one;
  }
  at::Tensor whole = at::empty(shape, part.options());
  for (uint32_t r = 0; r < size(); ++r) {
    int64_t place = 0;  // in the part of the rank
    for (const Range& range : ranges_of(split, r)) {
      whole.narrow(axis, range.begin, range.length)
          .copy_(parts[r].narrow(axis, place, range.length));
      place += range.length;
    }
  }
  return whole;
}

at::Tensor TensorGroup::part(const at::Tensor& whole, const ModelSplit& split) const {
  const auto axis = static_cast<int64_t>(split.axis);
  std::vector<at::Tensor> pieces;
  for (const Range& range : ranges_of(split, rank())) {
    pieces.push_back(whole.narrow(axis, range.begin, range.length));
  }
  return pieces.size() == 1 ? pieces[0].contiguous() : at::cat(pieces, axis);
}

at::Tensor TensorGroup::part_of_gradient(const at::Tensor& whole, const ModelSplit& split) const {
  const auto axis = static_cast<int64_t>(split.axis);
  std::vector<at::Tensor> pieces;
  for (const Range& range : ranges_of(split, rank())) {
    const at::Tensor piece = whole.narrow(axis, range.begin, range.length);
    pieces.push_back(range.is_first_copy ? piece : at::zeros_like(piece));
  }
  return pieces.size() == 1 ? pieces[0].contiguous() : at::cat(pieces, axis);
}

}  // namespace tenon
