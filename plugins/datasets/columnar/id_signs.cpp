// SPDX-License-Identifier: Apache-2.0
#include "id_signs.hpp"

#include <tenon/cpp/guard.hpp>
#include <tenon/cpp/options.hpp>

#include <string_view>
#include <type_traits>

#include "../csv/csv_parser.hpp"

namespace tenon {
namespace {

// True if no value has its highest bit set. Most columns end here, so it must be fast: blocks of a
// constant size are vectorized.
template <class T>
bool are_bits_clear(const T* values, const ElementRange& range) {
  constexpr int64_t kBlock = 64;
  T bits = 0;
  int64_t i = range.begin;
  for (; i + kBlock <= range.end; i += kBlock) {
    for (int64_t j = 0; j < kBlock; ++j) {
      bits |= values[i + j];
    }
  }
  for (; i < range.end; ++i) {
    bits |= values[i];
  }
  using Signed = std::make_signed_t<T>;
  return static_cast<Signed>(bits) >= 0;
}

bool is_negative_text(std::string_view text) {
  const std::string_view trimmed = trim_csv_blanks(text);
  return !trimmed.empty() && trimmed.front() == '-';
}

// Numbers of one type have one sign that counts; texts have both.
template <class T>
std::vector<SignedId> signs_of(const arrow::Array& ids,
                               const T* values,
                               const arrow::LargeBinaryArray* texts,
                               const ElementRanges& ranges) {
  std::vector<SignedId> found;
  const size_t num_signs = texts == nullptr ? 1 : 2;
  for (const ElementRange& range : ranges) {
    if (found.size() == num_signs) {
      break;
    }
    if (are_bits_clear(values, range)) {
      continue;
    }
    for (int64_t i = range.begin; i < range.end && found.size() < num_signs; ++i) {
      const auto bits = static_cast<int64_t>(values[i]);
      if (bits >= 0 || ids.IsNull(i)) {
        continue;
      }
      const bool is_large =
          texts == nullptr ? std::is_unsigned_v<T> : !is_negative_text(texts->GetView(i));
      if (found.empty() || found.front().is_large != is_large) {
        found.push_back({i, is_large, bits});
      }
    }
  }
  return found;
}

std::vector<SignedId> signs_of_words(const arrow::DictionaryArray& ids,
                                     const ElementRanges& ranges) {
  const arrow::Array& words = *ids.dictionary();
  if (signed_ids_in(words, nullptr, {{0, words.length()}}).empty()) {
    return {};
  }
  for (const ElementRange& range : ranges) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      const int64_t word = ids.IsNull(i) ? -1 : ids.GetValueIndex(i);
      if (word < 0 || word >= words.length()) {
        continue;
      }
      std::vector<SignedId> found = signed_ids_in(words, nullptr, {{word, word + 1}});
      if (!found.empty()) {
        found.front().element = i;
        return found;
      }
    }
  }
  return {};
}

}  // namespace

std::string SignedId::text() const {
  return is_large ? concat(static_cast<uint64_t>(bits)) : concat(bits);
}

std::vector<SignedId> signed_ids_in(const arrow::Array& ids,
                                    const arrow::LargeBinaryArray* texts,
                                    const ElementRanges& ranges) {
  switch (ids.type_id()) {
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::UINT64: {
      std::vector<SignedId> found;
      with_integers(ids, [&](const auto* values) { found = signs_of(ids, values, texts, ranges); });
      return found;
    }
    case arrow::Type::DICTIONARY:
      return signs_of_words(static_cast<const arrow::DictionaryArray&>(ids), ranges);
    default:
      return {};
  }
}

bool is_unsigned(const std::shared_ptr<arrow::DataType>& first, const ValueMeaning& from) {
  const ValueMeaning known = first == nullptr ? ValueMeaning() : meaning_of(*shape_of(first).leaf);
  return known.kind == ValueKind::kNull || known.kind == ValueKind::kText ? from.is_unsigned
                                                                          : known.is_unsigned;
}

void IdSigns::add(const std::string& column,
                  const std::vector<SignedId>& ids,
                  const std::function<std::string(int64_t)>& origin_of) {
  if (ids.empty()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  OfColumn& known = columns_[column];
  for (const SignedId& id : ids) {
    Found& same = id.is_large ? known.large : known.negative;
    const Found& other = id.is_large ? known.negative : known.large;
    if (!other.id.empty()) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.bad_value",
                 origin_of(id.element),
                 ": the column ",
                 json_string(column),
                 " is ",
                 id.text(),
                 ", but ",
                 other.id,
                 " at ",
                 other.origin,
                 "; a column cannot mix negative ids with ids of 2^63 and above");
    }
    if (same.id.empty()) {
      same = {id.text(), origin_of(id.element)};
    }
  }
}

}  // namespace tenon
