// SPDX-License-Identifier: Apache-2.0
#include "host/train/rank_part_exchange.hpp"

#include <tenon/tensor.h>

#include "host/device/host_memory.hpp"
#include "host/error/assert.hpp"
#include "host/train/components/run_failure.hpp"

#include <ATen/Functions.h>

#include <memory>
#include <vector>

namespace tenon {
namespace {

constexpr const char* kSizes = "size of a part of a batch";
constexpr const char* kParts = "part of a batch";

}  // namespace

// Each message follows its size. All are under way at once.
void RankPartExchange::send(std::span<const at::Tensor> messages) {
  Group& group = ranks_.parts();
  TENON_ASSERT(messages.size() == group.size(), "a message for each rank");
  std::vector<at::Tensor> sizes;
  std::vector<std::unique_ptr<Work>> works;
  for (uint32_t i = 1; i < group.size(); ++i) {
    const uint32_t to = (group.rank() + i) % group.size();
    sizes.push_back(at::full({1}, messages[to].numel(), at::kLong));
    works.push_back(group.send(sizes.back(), to, kSizes));
    works.push_back(group.send(messages[to], to, kParts));
  }
  for (const std::unique_ptr<Work>& work : works) {
    work->wait();
  }
}

at::Tensor RankPartExchange::receive(int64_t from) {
  Group& group = ranks_.parts();
  at::Tensor size = at::empty({1}, at::kLong);
  group.receive(size, static_cast<uint32_t>(from), kSizes)->wait();
  at::Tensor message = empty_host_tensor(TENON_U8, {*size.const_data_ptr<int64_t>()});
  group.receive(message, static_cast<uint32_t>(from), kParts)->wait();
  return message;
}

Error RankPartExchange::error_of(const std::exception& failure) const {
  return run_failure(failure);
}

}  // namespace tenon
