// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/group.hpp"

#include "host/error/assert.hpp"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>

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

class OwnBytes final : public Gathering {
 public:
  explicit OwnBytes(std::span<const std::byte> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  std::span<const std::byte> wait() override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
void reduce_over_ranks(Group& group, std::span<T> values, Reduce reduce, std::string_view what) {
  if (group.size() == 1 || values.empty()) {
    return;
  }
  const auto gathering = group.start_gather(std::as_bytes(values), what);
  const std::span<const std::byte> all = gathering->wait();
  std::vector<T> of_rank(values.size());
  for (uint32_t rank = 0; rank < group.size(); ++rank) {
    std::memcpy(of_rank.data(), all.data() + rank * values.size_bytes(), values.size_bytes());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = rank == 0                ? of_rank[i]
                  : reduce == Reduce::kSum ? values[i] + of_rank[i]
                                           : std::max(values[i], of_rank[i]);
    }
  }
}

}  // namespace

void Group::all_reduce(std::span<int64_t> values, Reduce reduce, std::string_view what) {
  reduce_over_ranks(*this, values, reduce, what);
}

void Group::all_reduce(std::span<double> values, Reduce reduce, std::string_view what) {
  reduce_over_ranks(*this, values, reduce, what);
}

std::vector<std::string> Group::gather_texts(std::string_view mine, std::string_view what) {
  if (size() == 1) {
    return {std::string(mine)};
  }
  int64_t longest = static_cast<int64_t>(mine.size());
  all_reduce(std::span(&longest, 1), Reduce::kMax, what);
  // Each text is sent with its length, and padded to the longest.
  std::vector<std::byte> framed(sizeof(int64_t) + static_cast<size_t>(longest));
  const auto length = static_cast<int64_t>(mine.size());
  std::memcpy(framed.data(), &length, sizeof(length));
  if (!mine.empty()) {
    std::memcpy(framed.data() + sizeof(length), mine.data(), mine.size());
  }
  const auto gathering = start_gather(framed, what);
  const std::span<const std::byte> all = gathering->wait();
  std::vector<std::string> texts;
  for (uint32_t rank = 0; rank < size(); ++rank) {
    const std::byte* const begin = all.data() + rank * framed.size();
    int64_t size = 0;
    std::memcpy(&size, begin, sizeof(size));
    texts.emplace_back(reinterpret_cast<const char*>(begin) + sizeof(size),
                       static_cast<size_t>(size));
  }
  return texts;
}

std::string Group::broadcast_text(std::string_view mine, uint32_t root, std::string_view what) {
  return gather_texts(rank() == root ? mine : std::string_view(), what)[root];
}

std::unique_ptr<Gathering> LocalGroup::start_gather(std::span<const std::byte> mine,
                                                    std::string_view) {
  return std::make_unique<OwnBytes>(mine);
}

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

std::unique_ptr<Work> LocalGroup::send(const at::Tensor&, uint32_t, std::string_view) {
  TENON_ASSERT(false, "a lone rank sends nothing");
  return nullptr;
}

std::unique_ptr<Work> LocalGroup::receive(at::Tensor&, uint32_t, std::string_view) {
  TENON_ASSERT(false, "a lone rank receives nothing");
  return nullptr;
}

}  // namespace tenon
