// SPDX-License-Identifier: Apache-2.0
#include "host/distributed/ranks/key_table.hpp"

#include "host/text/formatted.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <utility>

namespace tenon {
namespace {

StoreMessage table_answer(int64_t number, std::vector<std::string> texts = {}) {
  return {static_cast<uint8_t>(StoreAnswer::kDone), number, std::move(texts)};
}

// Sums wrap, as those of a counter in a store of c10d.
int64_t counter_of(const std::string& text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc() || rest != end) {
    throw std::invalid_argument("a key to add to is not a number");
  }
  return number;
}

}  // namespace

void KeyTable::set(const std::string& key, const std::string& value) {
  const auto old = values_.find(key);
  const size_t before = old == values_.end() ? 0 : key.size() + old->second.size();
  const size_t after = num_bytes_ - before + key.size() + value.size();
  if (after > limits_.bytes || (old == values_.end() && values_.size() >= limits_.keys)) {
    throw std::length_error("the store of the ranks is full");
  }
  values_[key] = value;
  num_bytes_ = after;
}

StoreMessage KeyTable::answer(const StoreMessage& request) {
  const auto& texts = request.texts;
  const auto needs = [&](size_t count) {
    if (texts.size() != count) {
      throw std::invalid_argument("a request to the store of the ranks is malformed");
    }
  };
  try {
    switch (static_cast<StoreRequest>(request.kind)) {
      case StoreRequest::kSet:
        needs(2);
        set(texts[0], texts[1]);
        return table_answer(0);
      case StoreRequest::kAdd: {
        needs(1);
        const auto sum = static_cast<int64_t>(
            (has(texts[0]) ? static_cast<uint64_t>(counter_of(at(texts[0]))) : 0) +
            static_cast<uint64_t>(request.number));
        set(texts[0], formatted("{}", sum));
        return table_answer(sum);
      }
      case StoreRequest::kDelete: {
        needs(1);
        const auto found = values_.find(texts[0]);
        if (found == values_.end()) {
          return table_answer(0);
        }
        num_bytes_ -= found->first.size() + found->second.size();
        values_.erase(found);
        return table_answer(1);
      }
      case StoreRequest::kCheck:
        return table_answer(
            std::ranges::all_of(texts, [this](const std::string& key) { return has(key); }) ? 1
                                                                                            : 0);
      case StoreRequest::kCount:
        return table_answer(static_cast<int64_t>(values_.size()));
      case StoreRequest::kCompareSet: {
        // As c10d's stores: an empty expected value sets a key that does not exist.
        needs(3);
        const bool is_as_expected = has(texts[0]) ? at(texts[0]) == texts[1] : texts[1].empty();
        if (is_as_expected) {
          set(texts[0], texts[2]);
        }
        return table_answer(0, {has(texts[0]) ? at(texts[0]) : texts[1]});
      }
      case StoreRequest::kGet:
      case StoreRequest::kWait:
        break;  // they wait: for the server
    }
    throw std::invalid_argument("a request to the store of the ranks is unknown");
  } catch (const std::logic_error& problem) {
    return {static_cast<uint8_t>(StoreAnswer::kRefused), 0, {problem.what()}};
  }
}

}  // namespace tenon
