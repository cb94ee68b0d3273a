// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/region_call.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace tenon {
namespace {

int64_t positions_before(const TensorRegion& region, uint32_t rank) {
  return std::accumulate(region.pieces.begin(), region.pieces.begin() + rank, int64_t{0});
}

int64_t all_positions(const TensorRegion& region) {
  return positions_before(region, region.ranks->size());
}

std::string held_positions(const TensorRegion& region) {
  const uint32_t rank = region.ranks->rank();
  const int64_t first = positions_before(region, rank);
  const int64_t num = region.pieces[rank];
  return num == 0
             ? c10::str("no positions of ", all_positions(region))
             : c10::str(
                   "positions ", first, " to ", first + num - 1, " of ", all_positions(region));
}

void check_positions(const RegionCall& call, const at::Tensor& x, int64_t expected) {
  const TensorRegion& region = *call.region;
  TORCH_CHECK(x.dim() >= 2 && x.size(1) == expected,
              call.name(),
              ": a tensor is ",
              x.sizes(),
              "; expected ",
              expected,
              " positions on axis 1 (rank ",
              region.ranks->rank(),
              " of ",
              region.ranks->size(),
              " holds ",
              held_positions(region),
              ")");
}

// Collectives of two devices have no common order.
void check_device(const RegionCall& call, const at::Tensor& x) {
  std::optional<c10::Device>& device = call.region->device;
  TORCH_CHECK(!device || *device == x.device(),
              call.name(),
              ": a tensor is on ",
              x.device(),
              "; expected ",
              device ? device->str() : "",
              ", as in earlier calls of the block");
  device = x.device();
}

at::Tensor with_positions(const at::Tensor& x, int64_t num) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape[1] = num;
  return at::zeros(shape, x.options());
}

// x [B, at most `num`, ...] followed by zeros, contiguous.
at::Tensor padded(const at::Tensor& x, int64_t num) {
  if (x.size(1) == num) {
    return x.detach().contiguous();
  }
  at::Tensor out = with_positions(x, num);
  out.narrow(1, 0, x.size(1)).copy_(x.detach());
  return out;
}

}  // namespace

std::string RegionCall::name() const {
  return "block '" + region->block + "', " + op;
}

RegionCall begin_call(const TensorRegionPtr& region, std::string_view op) {
  return {region, c10::str(op, " ", ++region->number)};
}

void save_call(torch::autograd::AutogradContext& context, const RegionCall& call) {
  context.saved_data["region"] = c10::IValue::make_capsule(
      c10::static_intrusive_pointer_cast<torch::CustomClassHolder>(call.region));
  context.saved_data["op"] = call.op;
}

RegionCall saved_call(const torch::autograd::AutogradContext& context) {
  return {
      c10::static_intrusive_pointer_cast<TensorRegion>(context.saved_data.at("region").toCapsule()),
      context.saved_data.at("op").toStringRef()};
}

at::Tensor gather_pieces(const RegionCall& call, const at::Tensor& x) {
  const TensorRegion& region = *call.region;
  check_device(call, x);
  check_positions(call, x, region.pieces[region.ranks->rank()]);
  const at::Tensor part = padded(x, *std::ranges::max_element(region.pieces));
  if (part.numel() == 0) {
    return with_positions(x, all_positions(region));
  }
  std::vector<at::Tensor> parts = region.ranks->gather(part, call.name());
  for (size_t r = 0; r < parts.size(); ++r) {
    parts[r] = parts[r].narrow(1, 0, region.pieces[r]);
  }
  return at::cat(parts, 1);
}

at::Tensor sum_pieces(const RegionCall& call, const at::Tensor& x) {
  const TensorRegion& region = *call.region;
  check_device(call, x);
  check_positions(call, x, all_positions(region));
  const int64_t longest = *std::ranges::max_element(region.pieces);
  const int64_t mine = region.pieces[region.ranks->rank()];
  std::vector<at::Tensor> for_ranks;
  int64_t first = 0;
  for (const int64_t num : region.pieces) {
    for_ranks.push_back(padded(x.narrow(1, first, num), longest));
    first += num;
  }
  if (x.numel() == 0) {
    return with_positions(x, mine);
  }
  return region.ranks->sum_scatter(for_ranks, call.name()).narrow(1, 0, mine).contiguous();
}

at::Tensor sum_of_ranks(const RegionCall& call, const at::Tensor& x) {
  check_device(call, x);
  at::Tensor whole = x.detach().clone(at::MemoryFormat::Contiguous);
  if (whole.numel() > 0) {
    call.region->ranks->sum(whole, call.name());
  }
  return whole;
}

at::Tensor max_of_ranks(const RegionCall& call, const at::Tensor& x) {
  check_device(call, x);
  at::Tensor whole = x.detach().clone(at::MemoryFormat::Contiguous);
  if (whole.numel() > 0) {
    call.region->ranks->max(whole, call.name());
  }
  return whole;
}

std::vector<at::Tensor> of_all_ranks(const RegionCall& call, const at::Tensor& x) {
  check_device(call, x);
  return call.region->ranks->gather(x.detach().contiguous(), call.name());
}

int64_t num_copies(std::string_view op, int64_t mine, int64_t whole) {
  const TensorRegionPtr& region = tensor_region();
  const int64_t size = region ? region->ranks->size() : 1;
  TORCH_CHECK(mine > 0 && mine <= whole && size * mine % whole == 0,
              "tenon::",
              op,
              ": ",
              size,
              " ranks with ",
              mine,
              " elements each do not have ",
              whole,
              " elements equally often");
  return size * mine / whole;
}

}  // namespace tenon
