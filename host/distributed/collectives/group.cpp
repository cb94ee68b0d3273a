// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/group.hpp"

#include <ATen/Functions.h>

namespace tenon {
namespace {

class NoWork final : public Work {
 public:
  bool is_done() override { return true; }
  void wait() override {}
};

std::unique_ptr<Work> copied(at::Tensor& to, const at::Tensor& from) {
  if (to.data_ptr() != from.data_ptr()) {
    to.copy_(from);
  }
  return std::make_unique<NoWork>();
}

}  // namespace

std::unique_ptr<Work> LocalGroup::all_reduce(at::Tensor&, std::string_view) {
  return std::make_unique<NoWork>();
}

std::unique_ptr<Work> LocalGroup::all_gather(at::Tensor& whole,
                                             const at::Tensor& part,
                                             std::string_view) {
  return copied(whole, part);
}

std::unique_ptr<Work> LocalGroup::reduce_scatter(at::Tensor& part,
                                                 const at::Tensor& whole,
                                                 std::string_view) {
  return copied(part, whole);
}

std::unique_ptr<Work> LocalGroup::broadcast(at::Tensor&, uint32_t, std::string_view) {
  return std::make_unique<NoWork>();
}

std::unique_ptr<Work> LocalGroup::all_to_all(at::Tensor& receive,
                                             std::span<const int64_t>,
                                             const at::Tensor& send,
                                             std::span<const int64_t>,
                                             std::string_view) {
  return copied(receive, send);
}

}  // namespace tenon
