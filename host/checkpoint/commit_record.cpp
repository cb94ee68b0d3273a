// SPDX-License-Identifier: Apache-2.0
#include "host/checkpoint/commit_record.hpp"

#include "host/checkpoint/checkpoint_name.hpp"
#include "host/io/checksum.hpp"
#include "host/text/formatted.hpp"

#include <charconv>
#include <span>
#include <system_error>

namespace tenon {
namespace {

// "17 step-00000085_epoch-0 ", which the checksum covers.
std::string summed_part(uint64_t sequence, std::string_view name) {
  return formatted("{} {} ", sequence, name);
}

std::string record_checksum(const std::string& part) {
  Checksum sum;
  sum.add(std::as_bytes(std::span(part)));
  return xxh3_text(sum.value());
}

}  // namespace

std::string commit_record_text(uint64_t sequence, const std::string& name) {
  const std::string part = summed_part(sequence, name);
  return part + record_checksum(part) + "\n";
}

std::optional<CommitRecord> commit_record_of(std::string_view text) {
  CommitRecord record;
  const auto [digits_end, error] =
      std::from_chars(text.data(), text.data() + text.size(), record.sequence);
  if (error != std::errc() || record.sequence == 0 || record.sequence > kMaxSequence) {
    return std::nullopt;
  }
  // Comparing with what the host writes also rejects leading zeros and extra characters.
  if (text == formatted("{}\n", record.sequence)) {
    return record.sequence <= kMaxUncheckedSequence ? std::optional(record) : std::nullopt;
  }
  const size_t begin = static_cast<size_t>(digits_end - text.data()) + 1;
  const size_t end = text.find(' ', begin);
  if (end == std::string_view::npos) {
    return std::nullopt;
  }
  record.name = text.substr(begin, end - begin);
  if (!is_checkpoint_name(record.name) ||
      text != commit_record_text(record.sequence, record.name)) {
    return std::nullopt;
  }
  return record;
}

}  // namespace tenon
