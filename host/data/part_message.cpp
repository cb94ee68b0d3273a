// SPDX-License-Identifier: Apache-2.0
//
// A message has a number of words, then the words, i64, then the bodies. The words describe the
// batch, and the bodies are the bytes of its tensors, or the texts of an error. Each body begins at
// a multiple of 64 bytes.

#include "host/data/part_message.hpp"

#include "host/error/assert.hpp"
#include "host/tensor/batch_positions.hpp"

#include <ATen/Functions.h>

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tenon {
namespace {

constexpr int64_t kWordBytes = sizeof(int64_t);
constexpr int64_t kAlignment = 64;
constexpr int64_t kIsPart = 0;
constexpr int64_t kIsFailure = 1;
constexpr int64_t kNone = -1;  // in place of a number that is not negative

int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

using Words = std::vector<int64_t>;

void put(Words& words, const std::vector<BatchSequence>& sequences) {
  words.push_back(static_cast<int64_t>(sequences.size()));
  for (const BatchSequence& sequence : sequences) {
    words.insert(words.end(), {sequence.row, sequence.first, sequence.length, sequence.part});
  }
}

void put(Words& words, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    words.push_back(kNone);
    return;
  }
  words.insert(words.end(), {tensor.dim(), static_cast<int64_t>(tensor.scalar_type())});
  words.insert(words.end(), tensor.sizes().begin(), tensor.sizes().end());
}

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

at::Tensor joined(Words words, const std::vector<std::span<const std::byte>>& bodies) {
  words.insert(words.begin(), static_cast<int64_t>(words.size()));
  int64_t size = aligned(static_cast<int64_t>(words.size()) * kWordBytes);
  for (const auto& body : bodies) {
    size += aligned(static_cast<int64_t>(body.size()));
  }
  at::Tensor message = at::empty({size}, at::kByte);
  auto* const start = message.mutable_data_ptr<uint8_t>();
  std::memcpy(start, words.data(), words.size() * kWordBytes);
  uint8_t* next = start + aligned(static_cast<int64_t>(words.size()) * kWordBytes);
  for (const auto& body : bodies) {
    if (!body.empty()) {
      std::memcpy(next, body.data(), body.size());
    }
    next += aligned(static_cast<int64_t>(body.size()));
  }
  return message;
}

// Reads a message from its start.
class MessageReader {
 public:
  explicit MessageReader(const at::Tensor& message)
      : message_(message),
        next_word_(reinterpret_cast<const int64_t*>(message.const_data_ptr<uint8_t>())),
        next_body_(aligned((1 + word()) * kWordBytes)) {}

  int64_t word() {
    int64_t value = 0;
    std::memcpy(&value, next_word_++, sizeof(value));
    return value;
  }

  std::vector<BatchSequence> sequences() {
    std::vector<BatchSequence> sequences(static_cast<size_t>(word()));
    for (BatchSequence& sequence : sequences) {
      sequence.row = word();
      sequence.first = word();
      sequence.length = word();
      sequence.part = static_cast<uint32_t>(word());
    }
    return sequences;
  }

  at::Tensor tensor() {
    const int64_t num_dims = word();
    if (num_dims == kNone) {
      return {};
    }
    const auto dtype = static_cast<at::ScalarType>(word());
    std::vector<int64_t> sizes(static_cast<size_t>(num_dims));
    int64_t bytes = static_cast<int64_t>(c10::elementSize(dtype));
    for (int64_t& size : sizes) {
      size = word();
      bytes *= size;
    }
    return body(bytes).view(dtype).view(sizes);
  }

  std::string text() {
    const at::Tensor bytes = body(word());
    return {reinterpret_cast<const char*>(bytes.const_data_ptr<uint8_t>()), bytes.nbytes()};
  }

 private:
  at::Tensor body(int64_t bytes) {
    return message_.narrow(0, std::exchange(next_body_, next_body_ + aligned(bytes)), bytes);
  }

  const at::Tensor& message_;
  const int64_t* next_word_;
  int64_t next_body_;  // after next_word_, which its first value is read from
};

}  // namespace

at::Tensor encode_part(const Batch& part, int64_t number) {
  Words words = {number, kIsPart, part.samples, part.tokens, part.packed_samples.value_or(kNone)};
  put(words, part.sequences);
  words.push_back(static_cast<int64_t>(part.row_parts.size()));
  words.insert(words.end(), part.row_parts.begin(), part.row_parts.end());
  words.push_back(part.positions ? part.positions->whole : kNone);
  if (part.positions) {
    words.insert(words.end(), {part.positions->range.begin, part.positions->range.length});
    put(words, part.positions->sequences);
  }
  std::vector<at::Tensor> tensors = part.fields;
  tensors.push_back(part.lengths);
  std::vector<std::span<const std::byte>> bodies;
  words.push_back(static_cast<int64_t>(part.fields.size()));
  for (at::Tensor& tensor : tensors) {
    put(words, tensor);
    if (tensor.defined()) {
      tensor = tensor.contiguous();
      bodies.push_back(bytes_of(tensor));
    }
  }
  return joined(std::move(words), bodies);
}

at::Tensor encode_failure(const Error& failure, int64_t number) {
  return joined(
      {number,
       kIsFailure,
       static_cast<int64_t>(failure.id().size()),
       static_cast<int64_t>(failure.message().size())},
      {std::as_bytes(std::span(failure.id())), std::as_bytes(std::span(failure.message()))});
}

Batch decode_part(const at::Tensor& message, const BatchSchema& schema, int64_t number) {
  MessageReader reader(message);
  TENON_ASSERT(reader.word() == number, "the ranks of a context group ask for different batches");
  if (reader.word() == kIsFailure) {
    const std::string id = reader.text();
    throw Error(id, reader.text());
  }
  Batch part;
  part.schema = schema;
  part.samples = reader.word();
  part.tokens = reader.word();
  if (const int64_t packed = reader.word(); packed != kNone) {
    part.packed_samples = packed;
  }
  part.sequences = reader.sequences();
  part.row_parts.resize(static_cast<size_t>(reader.word()));
  for (uint32_t& row_part : part.row_parts) {
    row_part = static_cast<uint32_t>(reader.word());
  }
  if (const int64_t whole = reader.word(); whole != kNone) {
    BatchPositions& positions = part.positions.emplace();
    positions.range = {.begin = reader.word(), .length = reader.word()};
    positions.whole = whole;
    positions.sequences = reader.sequences();
    positions.position_ids = position_ids(positions.range, part.samples);
  }
  part.fields.resize(static_cast<size_t>(reader.word()));
  for (at::Tensor& field : part.fields) {
    field = reader.tensor();
  }
  part.lengths = reader.tensor();
  return part;
}

}  // namespace tenon
