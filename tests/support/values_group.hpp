// SPDX-License-Identifier: Apache-2.0
//
// A group for tests of what exchanges small values only. It moves no tensors.
#pragma once

#include "host/distributed/collectives/group.hpp"

#include <stdexcept>

namespace tenon {

class ValuesGroup : public Group {
 public:
  using Group::all_reduce;

  std::unique_ptr<Work> all_reduce(at::Tensor&, std::string_view what) override {
    return refuse(what);
  }
  std::unique_ptr<Work> all_gather(at::Tensor&, const at::Tensor&, std::string_view what) override {
    return refuse(what);
  }
  std::unique_ptr<Work> reduce_scatter(at::Tensor&,
                                       const at::Tensor&,
                                       std::string_view what) override {
    return refuse(what);
  }
  std::unique_ptr<Work> broadcast(at::Tensor&, uint32_t, std::string_view what) override {
    return refuse(what);
  }
  std::unique_ptr<Work> all_to_all(at::Tensor&,
                                   std::span<const int64_t>,
                                   const at::Tensor&,
                                   std::span<const int64_t>,
                                   std::string_view what) override {
    return refuse(what);
  }
  std::unique_ptr<Work> send(const at::Tensor&, uint32_t, std::string_view what) override {
    return refuse(what);
  }
  std::unique_ptr<Work> receive(at::Tensor&, uint32_t, std::string_view what) override {
    return refuse(what);
  }

 private:
  static std::unique_ptr<Work> refuse(std::string_view what) {
    throw std::logic_error("a tensor was sent: " + std::string(what));
  }
};

}  // namespace tenon
