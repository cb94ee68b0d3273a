// SPDX-License-Identifier: Apache-2.0
//
// Source   for number(): Steele, Lea, Flood, "Fast splittable pseudorandom number generators"
// (2014),
//          SplitMix64
#include "tests/fuzz/mutator.hpp"

#include <algorithm>

namespace tenon {
namespace {

std::string repeated(std::string_view part, std::size_t count) {
  std::string text;
  text.reserve(part.size() * count);
  for (std::size_t i = 0; i < count; ++i) {
    text += part;
  }
  return text;
}

}  // namespace

std::uint64_t Mutator::number() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

std::size_t Mutator::below(std::size_t n) {
  return static_cast<std::size_t>(number() % n);
}

std::string Mutator::odd_number() {
  static const std::vector<std::string> kNumbers = {"0",
                                                    "-0",
                                                    "-1",
                                                    "1",
                                                    "2147483647",
                                                    "2147483648",
                                                    "-1",
                                                    "1e308",
                                                    "1e309",
                                                    "-1e400",
                                                    "9223372036854775807",
                                                    "9223372036854775808",
                                                    "1e-400",
                                                    "5e-324",
                                                    "0.1",
                                                    "1.",
                                                    "-9223372036854775808",
                                                    "18446744073709551615",
                                                    ".5",
                                                    "+1",
                                                    "01",
                                                    "1e",
                                                    "18446744073709551616",
                                                    "340282356779733661637539395458142568448",
                                                    "0x10",
                                                    "1_000",
                                                    "nan",
                                                    "-inf",
                                                    "Infinity",
                                                    "1e+0000000000000000001",
                                                    "1e99999",
                                                    "4294967296"};
  switch (below(8)) {
    case 0:
      return std::to_string(static_cast<std::int64_t>(number()));
    case 1:
      return repeated("9", 1 + below(400));
    case 2:
      return "0." + repeated("0", below(400)) + "1";
    default:
      return pick(kNumbers);
  }
}

std::string Mutator::odd_bytes() {
  using namespace std::string_literals;
  static const std::vector<std::string> kBytes = {"\0"s,
                                                  "\xff",
                                                  "\xfe\xff",
                                                  "\xc3",
                                                  "\xc0\xaf",
                                                  "\xed\xa0\x80",
                                                  "\xf4\x90\x80\x80",
                                                  "\xe2\x82",
                                                  "\xef\xbb\xbf",
                                                  "\xe2\x80\xa8",
                                                  "\x7f",
                                                  "\x1b[31m",
                                                  "\b",
                                                  "\r",
                                                  "\xf0\x9f\x92\xa9"};
  return pick(kBytes);
}

std::string Mutator::mutated(std::string text,
                             const std::vector<std::string>& words,
                             const std::vector<std::string>& others) {
  for (std::size_t count = 1 + below(4); count > 0; --count) {
    change(text, words, others);
  }
  return text;
}

void Mutator::insert(std::string& text, std::string_view part) {
  text.insert(below(text.size() + 1), part);
}

void Mutator::change(std::string& text,
                     const std::vector<std::string>& words,
                     const std::vector<std::string>& others) {
  if (text.empty()) {
    text = pick(words);
    return;
  }
  const std::size_t at = below(text.size());
  const std::size_t short_run = std::min(1 + below(40), text.size() - at);
  switch (below(16)) {
    case 0:
      text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << below(8)));
      break;
    case 1:
      text[at] = static_cast<char>(number());
      break;
    case 2:
      text.erase(at, one_in(4) ? short_run : 1);
      break;
    case 3:  // what stands here stands there too: keys and lines that are doubled
      insert(text, text.substr(at, short_run));
      break;
    case 4: {
      const std::string part = text.substr(at, short_run);
      text.erase(at, short_run);
      insert(text, part);
      break;
    }
    case 5:
    case 6:
      text.insert(at, pick(words));
      break;
    case 7: {
      const std::string& word = pick(words);
      text.replace(at, std::min(word.size(), text.size() - at), word);
      break;
    }
    case 8: {
      const std::string& other = pick(others);
      text = text.substr(0, at) + other.substr(below(other.size() + 1));
      break;
    }
    case 9: {
      const std::string& other = pick(others);
      if (!other.empty()) {
        insert(text, other.substr(below(other.size()), 1 + below(200)));
      }
      break;
    }
    case 10:
      text.resize(one_in(8) ? at : text.size() - short_run);
      break;
    case 11:
      insert(text, odd_bytes());
      break;
    case 12: {
      // A number that stands there becomes another one.
      const std::size_t digit = text.find_first_of("0123456789", at);
      if (digit == std::string::npos) {
        insert(text, odd_number());
      } else {
        const std::size_t end =
            std::min(text.find_first_not_of("0123456789.eE+-", digit), text.size());
        text.replace(digit, end - digit, odd_number());
      }
      break;
    }
    case 13:
      if (one_in(20)) {
        static const std::vector<std::string> kOpening = {
            "[", "{\"a\":", "[[", "{", "(", "\"", "/*"};
        static const std::vector<std::size_t> kDepths = {3, 99, 101, 1000, 20000};
        insert(text, repeated(pick(kOpening), pick(kDepths)));
      } else {
        insert(text, pick(words));
      }
      break;
    case 14:
      if (one_in(20)) {
        const std::string part = text.substr(at, short_run);
        text.insert(at, repeated(part, std::min(1 + below(5000), kMaxMutatedSize / part.size())));
      } else {
        text.insert(at, text.substr(at, short_run));
      }
      break;
    default: {
      constexpr std::string_view kMarks = "{}[]:,\"\\/*$-+.eE0123456789 \n\r\t;=~";
      insert(text, kMarks.substr(below(kMarks.size()), 1));
      break;
    }
  }
  if (text.size() > 2 * kMaxMutatedSize) {
    text.resize(2 * kMaxMutatedSize);
  }
}

}  // namespace tenon
