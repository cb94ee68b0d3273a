// SPDX-License-Identifier: Apache-2.0
#include "csv_parser.hpp"

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace tenon {
namespace {

// The scanner's position in the text and the fields found so far.
class RecordScan {
 public:
  RecordScan(std::string_view text, CsvTextEnd end, const CsvDialect& dialect, CsvRecord& record)
      : text_(text), is_last_(end == CsvTextEnd::kIsLast), dialect_(dialect), record_(record) {
    record_.fields.clear();
    record_.size = 0;
    record_.num_line_breaks = 0;
  }

  CsvScan run(CsvProblem& problem) {
    const CsvScan result = scan();
    if (result == CsvScan::kBad) {
      problem = {what_, at_, record_.fields.size(), record_.num_line_breaks};
    }
    return result;
  }

 private:
  CsvScan scan() {
    if (text_.empty()) {
      return is_last_ ? CsvScan::kRecord : CsvScan::kNeedsMore;
    }
    while (true) {
      const bool is_quoted = dialect_.has_quotes && at_ < text_.size() && text_[at_] == '"';
      if (const CsvScan field = is_quoted ? quoted_field() : plain_field();
          field != CsvScan::kRecord) {
        return field;
      }
      if (at_ == text_.size()) {
        return end_record(0);
      }
      if (is_separator()) {
        at_ += dialect_.separator.size();
        if (at_ == text_.size() && !is_last_) {
          return CsvScan::kNeedsMore;
        }
        continue;
      }
      const char c = text_[at_];
      if (c == '\n') {
        return end_record(1);
      }
      if (c == '\r') {
        return carriage_return();
      }
      if (may_begin_separator()) {
        return CsvScan::kNeedsMore;
      }
      return bad(c == '\0' ? kZeroByte : "text after the closing quote of a field");
    }
  }

  bool is_separator() const {
    const std::string& separator = dialect_.separator;
    return text_[at_] == separator.front() &&
           (separator.size() == 1 || text_.compare(at_, separator.size(), separator) == 0);
  }
  // True if the text ends inside what may be a separator.
  bool may_begin_separator() const {
    const std::string_view rest = text_.substr(at_);
    return !is_last_ && rest.size() < dialect_.separator.size() &&
           dialect_.separator.compare(0, rest.size(), rest) == 0;
  }

  // Scans to a separator, a line break or the end of the text.
  CsvScan plain_field() {
    const size_t first = at_;
    const char separator = dialect_.separator.front();
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if ((c == separator && is_separator()) || c == '\n' || c == '\r') {
        break;
      }
      if (c == separator && may_begin_separator()) {
        return CsvScan::kNeedsMore;
      }
      if (dialect_.is_lenient) {
        continue;
      }
      if (c == '"' && dialect_.has_quotes) {
        return bad("a quote inside a field that does not begin with a quote");
      }
      if (c == '\0') {
        return bad(kZeroByte);
      }
    }
    if (at_ == text_.size() && !is_last_) {
      return CsvScan::kNeedsMore;
    }
    record_.fields.push_back({text_.substr(first, at_ - first), false});
    return CsvScan::kRecord;
  }

  // Leaves `at_` after the closing quote.
  CsvScan quoted_field() {
    const size_t opening = at_;
    const size_t breaks_before = record_.num_line_breaks;
    ++at_;
    while (true) {
      while (at_ < text_.size() && text_[at_] != '"') {
        if (text_[at_] == '\0' && !dialect_.is_lenient) {
          return bad(kZeroByte);
        }
        record_.num_line_breaks += text_[at_] == '\n' ? 1 : 0;
        ++at_;
      }
      if (at_ == text_.size()) {
        if (!is_last_) {
          return CsvScan::kNeedsMore;
        }
        at_ = opening;
        record_.num_line_breaks = breaks_before;
        return bad("unclosed quote");
      }
      if (at_ + 1 == text_.size() && !is_last_) {
        return CsvScan::kNeedsMore;  // the next byte may be the second of two quotes
      }
      if (at_ + 1 == text_.size() || text_[at_ + 1] != '"') {
        break;
      }
      at_ += 2;
    }
    record_.fields.push_back({text_.substr(opening + 1, at_ - opening - 1), true});
    ++at_;
    return CsvScan::kRecord;
  }

  CsvScan carriage_return() {
    if (at_ + 1 == text_.size() && !is_last_) {
      return CsvScan::kNeedsMore;
    }
    if (at_ + 1 == text_.size() || text_[at_ + 1] != '\n') {
      if (dialect_.is_lenient) {
        return end_record(1);
      }
      return bad("a carriage return without a line feed after it");
    }
    return end_record(2);
  }

  CsvScan end_record(size_t line_break_size) {
    // An empty line is not a record with one empty field; else every file would end with one.
    if (record_.fields.size() == 1 && record_.fields.front().text.empty() &&
        !record_.fields.front().is_quoted) {
      record_.fields.clear();
    }
    record_.size = at_ + line_break_size;
    record_.num_line_breaks += line_break_size > 0 ? 1 : 0;
    return CsvScan::kRecord;
  }

  CsvScan bad(const char* what) {
    what_ = what;
    return CsvScan::kBad;
  }

  static constexpr const char* kZeroByte = "a zero byte; the file may be UTF-16 or binary";

  std::string_view text_;
  bool is_last_;
  const CsvDialect& dialect_;
  CsvRecord& record_;
  size_t at_ = 0;
  const char* what_ = "";
};

// "nan", "inf" and "infinity" in any case; from_chars parses them as numbers.
bool has_letter_first(std::string_view digits) {
  const char c = digits.front();
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Strips blanks and a plus sign, which from_chars rejects. Empty if no number can follow.
std::string_view number_text(std::string_view text) {
  text = trim_csv_blanks(text);
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
      return {};
    }
  }
  return text;
}

// "0x1f". from_chars accepts a sign after the prefix, which is rejected.
bool is_hexadecimal(std::string_view text) {
  return text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') && text[2] != '-';
}

// `text` is a result of number_text.
template <typename Float>
CsvNumber parse_float(std::string_view text, Float& out) {
  const std::string_view digits = !text.empty() && text.front() == '-' ? text.substr(1) : text;
  if (digits.empty()) {
    return CsvNumber::kNone;
  }
  const char* const last = text.data() + text.size();
  Float value{};
  auto [stop, error] = std::from_chars(text.data(), last, value);
  if (stop != last || error == std::errc::invalid_argument) {
    return CsvNumber::kNone;
  }
  if (has_letter_first(digits)) {
    if (std::isnan(value)) {
      return CsvNumber::kNonFinite;
    }
    out = value;
    return CsvNumber::kGood;
  }
  if (error == std::errc::result_out_of_range) {
    // A wider type tells overflow from underflow. A number outside that type too counts as
    // overflow.
    long double wide = 0;
    if (std::from_chars(text.data(), last, wide).ec != std::errc() ||
        std::fabs(wide) > static_cast<long double>(std::numeric_limits<Float>::min())) {
      return CsvNumber::kOutOfRange;
    }
    value = static_cast<Float>(wide);
  }
  out = value;
  return CsvNumber::kGood;
}

}  // namespace

CsvScan scan_csv_record(std::string_view text,
                        CsvTextEnd end,
                        const CsvDialect& dialect,
                        CsvRecord& record,
                        CsvProblem& problem) {
  return RecordScan(text, end, dialect, record).run(problem);
}

std::string csv_field_text(const CsvField& field) {
  if (!field.is_quoted) {
    return std::string(field.text);
  }
  std::string text;
  text.reserve(field.text.size());
  for (size_t i = 0; i < field.text.size(); ++i) {
    text += field.text[i];
    i += field.text[i] == '"' ? 1 : 0;
  }
  return text;
}

std::string_view trim_csv_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) {
    text.remove_prefix(1);
  }
  while (!text.empty() && is_blank(text.back())) {
    text.remove_suffix(1);
  }
  return text;
}

CsvNumber parse_csv_number(std::string_view text, int64_t& out) {
  text = number_text(text);
  int64_t value = 0;
  if (is_hexadecimal(text)) {
    const auto [stop, error] =
        std::from_chars(text.data() + 2, text.data() + text.size(), value, /*base=*/16);
    if (error == std::errc::result_out_of_range) {
      return CsvNumber::kOutOfRange;
    }
    if (error != std::errc() || stop != text.data() + text.size()) {
      return CsvNumber::kNone;
    }
    out = value;
    return CsvNumber::kGood;
  }
  const char* const last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc::invalid_argument || stop != last) {
    double number = 0;
    const CsvNumber as_double = parse_float(text, number);
    return as_double == CsvNumber::kGood || as_double == CsvNumber::kOutOfRange
               ? CsvNumber::kFraction
               : as_double;
  }
  if (error == std::errc::result_out_of_range) {
    return CsvNumber::kOutOfRange;
  }
  out = value;
  return CsvNumber::kGood;
}

CsvNumber parse_csv_number(std::string_view text, float& out) {
  return parse_float(number_text(text), out);
}

CsvNumber parse_csv_number(std::string_view text, double& out) {
  return parse_float(number_text(text), out);
}

}  // namespace tenon
