// SPDX-License-Identifier: Apache-2.0
//
// Parses text to records and numbers, by RFC 4180. Opens no file, knows no column names and
// allocates only the caller's buffers. Depends on neither libtorch nor the SDK.
//
// Accepted beyond RFC 4180: any separator, line feeds alone, a last record without a line break,
// blank lines. Rejected: text after a closing quote and, unless the dialect accepts them, a quote
// inside a field that does not begin with one, a carriage return without a line feed, a zero byte.
// Invariant: every byte sequence is either read or rejected; nothing is read beyond `text`.
// Threads: stateless functions, from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct CsvDialect {
  std::string separator = ",";  // one or more bytes, without quotes and line breaks
  bool has_quotes = true;       // false: '"' is an ordinary character
  // Accepts a quote inside a field that does not begin with one, and zero bytes, as ordinary
  // characters. A carriage return alone ends a record.
  bool is_lenient = false;
};

struct CsvField {
  std::string_view text;   // raw text; of a quoted field, the text between the quotes
  bool is_quoted = false;  // if true, each "" in `text` means one quote
};

struct CsvRecord {
  std::vector<CsvField> fields;  // empty: a blank line
  size_t size = 0;               // bytes consumed, including the line break
  size_t num_line_breaks = 0;    // line breaks in these bytes
};

// Whether more text may follow.
enum class CsvTextEnd { kMayContinue, kIsLast };

enum class CsvScan {
  kRecord,     // `record` is complete
  kNeedsMore,  // the text ends inside the record; only with CsvTextEnd::kMayContinue
  kBad,        // see CsvProblem
};

struct CsvProblem {
  const char* what = "";   // "a quote inside a field that does not begin with a quote"
  size_t offset = 0;       // of the invalid byte in the text
  size_t field = 0;        // index within the record, from 0
  size_t line_breaks = 0;  // line breaks before that byte
};

// Reads the record that begins at text[0]. Reuses the memory of `record`; its fields point into
// `text`. An empty text returns kNeedsMore, or a record of 0 bytes if no text may follow.
CsvScan scan_csv_record(std::string_view text,
                        CsvTextEnd end,
                        const CsvDialect& dialect,
                        CsvRecord& record,
                        CsvProblem& problem);

// The value of a field, with doubled quotes unescaped.
std::string csv_field_text(const CsvField& field);

// Trims blanks and tabs at both ends.
std::string_view trim_csv_blanks(std::string_view text);

enum class CsvNumber {
  kGood,
  kNone,        // not a number, or trailing text
  kFraction,    // for integers: a number with a point or an exponent
  kOutOfRange,  // outside the range of the type
  kNonFinite,   // "nan", "inf" and similar
};

// Parses a decimal number with optional blanks around it and an optional sign. The decimal
// separator is always a point, whatever the locale. Integers may also be hexadecimal: "0x1f".
// `out` is unchanged unless the result is kGood. Underflow gives zero or the nearest subnormal.
CsvNumber parse_csv_number(std::string_view text, int64_t& out);
CsvNumber parse_csv_number(std::string_view text, float& out);
CsvNumber parse_csv_number(std::string_view text, double& out);

}  // namespace tenon
