// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/collectives/collective.hpp"

#include <algorithm>
#include <cstring>

namespace tenon {
namespace {

class OwnBytes final : public Gathering {
 public:
  explicit OwnBytes(std::span<const std::byte> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  std::span<const std::byte> wait() override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
void reduce_over_ranks(Collective& collective,
                       std::span<T> values,
                       Reduce reduce,
                       std::string_view what) {
  if (collective.world_size() == 1 || values.empty()) {
    return;
  }
  const auto gathering = collective.start_gather(std::as_bytes(values), what);
  const std::span<const std::byte> all = gathering->wait();
  std::vector<T> of_rank(values.size());
  for (uint32_t rank = 0; rank < collective.world_size(); ++rank) {
    std::memcpy(of_rank.data(), all.data() + rank * values.size_bytes(), values.size_bytes());
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = rank == 0                ? of_rank[i]
                  : reduce == Reduce::kSum ? values[i] + of_rank[i]
                                           : std::max(values[i], of_rank[i]);
    }
  }
}

}  // namespace

void Collective::all_reduce(std::span<int64_t> values, Reduce reduce, std::string_view what) {
  reduce_over_ranks(*this, values, reduce, what);
}

void Collective::all_reduce(std::span<double> values, Reduce reduce, std::string_view what) {
  reduce_over_ranks(*this, values, reduce, what);
}

std::vector<std::string> Collective::gather_texts(std::string_view mine, std::string_view what) {
  if (world_size() == 1) {
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
  for (uint32_t rank = 0; rank < world_size(); ++rank) {
    const std::byte* const begin = all.data() + rank * framed.size();
    int64_t size = 0;
    std::memcpy(&size, begin, sizeof(size));
    texts.emplace_back(reinterpret_cast<const char*>(begin) + sizeof(size),
                       static_cast<size_t>(size));
  }
  return texts;
}

std::string Collective::broadcast_text(std::string_view mine,
                                       uint32_t root,
                                       std::string_view what) {
  return gather_texts(rank() == root ? mine : std::string_view(), what)[root];
}

std::unique_ptr<Gathering> SingleRank::start_gather(std::span<const std::byte> mine,
                                                    std::string_view) {
  return std::make_unique<OwnBytes>(mine);
}

}  // namespace tenon
