// SPDX-License-Identifier: Apache-2.0
//
// A message is a header of fixed size and, if the tensor has elements, its bytes.
#include "host/model/stage_exchange.hpp"

#include "host/error/assert.hpp"
#include "host/text/formatted.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace tenon {
namespace {

constexpr int64_t kMostAxes = 64;  // of a tensor

// Numbers of a header, in front of the sizes and the strides.
enum HeaderField : uint8_t {
  kKind,
  kValue,
  kFrom,
  kTo,
  kStep,
  kMicrobatch,
  kIsTrain,
  kIsDefined,
  kDtype,
  kNumAxes,
  kNumPlaces
};
constexpr int64_t kHeaderLength = kNumPlaces + 2 * kMostAxes;

std::string text_of(const StageMessage& message, const std::string& name) {
  return formatted("{} '{}' of {} {} in step {}, from stage {} to stage {}",
                   message.kind == StageMessage::Kind::kValue ? "value" : "gradient of value",
                   name,
                   message.is_train ? "microbatch" : "evaluation batch",
                   message.microbatch,
                   message.step,
                   message.from,
                   message.to);
}

at::Tensor header_of(const StageMessage& message, const at::Tensor& tensor) {
  const at::Tensor header = at::zeros({kHeaderLength}, at::kLong);
  const std::span<int64_t> numbers(header.mutable_data_ptr<int64_t>(), kHeaderLength);
  numbers[kKind] = static_cast<int64_t>(message.kind);
  numbers[kValue] = message.value;
  numbers[kFrom] = message.from;
  numbers[kTo] = message.to;
  numbers[kStep] = static_cast<int64_t>(message.step);
  numbers[kMicrobatch] = message.microbatch;
  numbers[kIsTrain] = message.is_train ? 1 : 0;
  if (tensor.defined()) {
    TENON_ASSERT(tensor.dim() <= kMostAxes, "a tensor has at most 64 axes");
    numbers[kIsDefined] = 1;
    numbers[kDtype] = static_cast<int64_t>(tensor.scalar_type());
    numbers[kNumAxes] = tensor.dim();
    std::ranges::copy(tensor.sizes(), numbers.begin() + kNumPlaces);
    std::ranges::copy(tensor.strides(), numbers.begin() + kNumPlaces + kMostAxes);
  }
  return header;
}

StageMessage message_of(std::span<const int64_t> numbers) {
  return {.kind = static_cast<StageMessage::Kind>(numbers[kKind]),
          .value = static_cast<uint32_t>(numbers[kValue]),
          .from = static_cast<uint32_t>(numbers[kFrom]),
          .to = static_cast<uint32_t>(numbers[kTo]),
          .step = static_cast<uint64_t>(numbers[kStep]),
          .microbatch = static_cast<uint32_t>(numbers[kMicrobatch]),
          .is_train = numbers[kIsTrain] != 0};
}

// Returns a new tensor as the header says; undefined if the tensor sent is.
at::Tensor room_for(std::span<const int64_t> numbers, c10::Device device) {
  if (numbers[kIsDefined] == 0) {
    return {};
  }
  const auto axes = static_cast<size_t>(numbers[kNumAxes]);
  const auto list = [axes](std::span<const int64_t> from) {
    return at::IntArrayRef(from.data(), axes);
  };
  return at::empty_strided(
      list(numbers.subspan(kNumPlaces)),
      list(numbers.subspan(kNumPlaces + kMostAxes)),
      at::TensorOptions(static_cast<at::ScalarType>(numbers[kDtype])).device(device));
}

// Returns the memory of a tensor without gaps.
at::Tensor bytes_of(const at::Tensor& tensor) {
  return tensor.as_strided({tensor.numel()}, {1}, tensor.storage_offset()).view(at::kByte);
}

}  // namespace

int64_t stage_header_bytes() {
  return kHeaderLength * static_cast<int64_t>(sizeof(int64_t));
}

struct StageExchange::Sent {
  at::Tensor header;
  at::Tensor bytes;
  std::vector<std::unique_ptr<Work>> works = {};

  bool has_arrived() const {
    return std::ranges::all_of(works, [](const auto& work) { return work->is_done(); });
  }
  void wait() {
    for (const auto& work : std::exchange(works, {})) {
      work->wait();
    }
  }
};

struct StageExchange::Received {
  StageMessage message;
  at::Tensor tensor;
};

StageExchange::StageExchange(Group& headers,
                             Group& tensors,
                             std::vector<uint32_t> owners,
                             c10::Device device)
    : headers_(headers),
      tensors_(tensors),
      owners_(std::move(owners)),
      device_(device),
      early_(headers.size()) {}

StageExchange::~StageExchange() = default;

void StageExchange::send(const StageMessage& message,
                         const at::Tensor& tensor,
                         const std::string& name) {
  forget_arrived();
  const std::string what = text_of(message, name);
  const uint32_t rank = owners_[message.to];
  const at::Tensor dense =
      tensor.defined() && !tensor.is_non_overlapping_and_dense() ? tensor.contiguous() : tensor;
  auto sent = std::make_unique<Sent>(Sent{.header = header_of(message, dense), .bytes = {}});
  sent->works.push_back(headers_.send(sent->header, rank, what));
  if (dense.defined() && dense.numel() > 0) {
    sent->bytes = bytes_of(dense);
    sent->works.push_back(tensors_.send(sent->bytes, rank, what));
  }
  sent_.push_back(std::move(sent));
}

at::Tensor StageExchange::receive(const StageMessage& message, const std::string& name) {
  const uint32_t rank = owners_[message.from];
  std::deque<Received>& early = early_[rank];
  const auto found = std::ranges::find(early, message, &Received::message);
  if (found != early.end()) {
    at::Tensor tensor = std::move(found->tensor);
    early.erase(found);
    return tensor;
  }
  const std::string what = text_of(message, name);
  for (;;) {
    Received next = receive_next(rank, what);
    if (next.message == message) {
      return std::move(next.tensor);
    }
    early.push_back(std::move(next));
  }
}

StageExchange::Received StageExchange::receive_next(uint32_t rank, const std::string& what) {
  at::Tensor header = at::empty({kHeaderLength}, at::kLong);
  headers_.receive(header, rank, what)->wait();
  const std::span<const int64_t> numbers(header.const_data_ptr<int64_t>(), kHeaderLength);
  Received received = {.message = message_of(numbers), .tensor = room_for(numbers, device_)};
  if (received.tensor.defined() && received.tensor.numel() > 0) {
    at::Tensor bytes = bytes_of(received.tensor);
    tensors_.receive(bytes, rank, what)->wait();
  }
  return received;
}

void StageExchange::forget_arrived() {
  std::erase_if(sent_, [](const std::unique_ptr<Sent>& sent) {
    const bool has_arrived = sent->has_arrived();
    if (has_arrived) {
      sent->wait();
    }
    return has_arrived;
  });
}

void StageExchange::finish() {
  for (const std::unique_ptr<Sent>& sent : sent_) {
    sent->wait();
  }
  sent_.clear();
  TENON_ASSERT(std::ranges::all_of(early_, [](const auto& early) { return early.empty(); }),
               "each message of a step is used in it");
}

void StageExchange::clear() {
  sent_.clear();
  for (std::deque<Received>& early : early_) {
    early.clear();
  }
}

}  // namespace tenon
