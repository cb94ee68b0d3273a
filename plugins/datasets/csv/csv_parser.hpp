// SPDX-License-Identifier: Apache-2.0
//
// Text to records and numbers, by RFC 4180, and nothing else: it opens no file, knows no column
// names and allocates only what the caller holds. It needs neither libtorch nor the SDK.
//
// What it takes beyond RFC 4180: any separator, line feeds alone, a last record without a line
// break, blank lines. What it refuses: a quote inside a field that does not begin with one, text
// after a closing quote, a carriage return that no line feed follows, a zero byte. Invariant: every
// byte sequence is either read or refused; nothing is read beyond `text`. Threads: functions
// without state, from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

struct CsvDialect {
  char separator = ',';    // neither a quote nor a line break
  bool has_quotes = true;  // false: '"' is a letter like any other
};

struct CsvField {
  std::string_view text;  // of the record; in a quoted field what lies between the quotes, as it is
  bool is_quoted = false;  // where it is, each "" in `text` means one quote
};

struct CsvRecord {
  std::vector<CsvField> fields;  // none: a blank line
  size_t size = 0;               // bytes of the text that it takes, its line break included
  size_t num_line_breaks = 0;    // in these bytes
};

// Whether more may follow the text.
enum class CsvTextEnd { kMayGoOn, kIsLast };

enum class CsvScan {
  kRecord,     // `record` is whole
  kNeedsMore,  // the text ends before the record does; only with CsvTextEnd::kMayGoOn
  kBad,        // see CsvProblem
};

struct CsvProblem {
  const char* what = "";   // "a quote in a field that does not begin with one"
  size_t offset = 0;       // in the text: the byte that is wrong
  size_t field = 0;        // of the record, from 0
  size_t line_breaks = 0;  // in the text before that byte
};

// Reads the record that begins at text[0]. `record` is borrowed for its memory; its fields point
// into `text`. An empty text needs more, or is a record of no bytes.
CsvScan scan_csv_record(std::string_view text,
                        CsvTextEnd end,
                        const CsvDialect& dialect,
                        CsvRecord& record,
                        CsvProblem& problem);

// The text that a field means: doubled quotes undone.
std::string csv_field_text(const CsvField& field);

// Blanks and tabs at both ends taken away.
std::string_view trim_csv_blanks(std::string_view text);

enum class CsvNumber {
  kGood,
  kNone,        // no number, or something after it
  kFraction,    // for an integer: a number with a point or an exponent
  kOutOfRange,  // a number that the type cannot hold
  kNotFinite,   // "nan", "inf" and their kind
};

// Reads a decimal number, with blanks around it and a sign if it has one; always with a point,
// never with a comma or the letters of a locale. `out` is untouched unless the result is kGood.
// Numbers too small for a type become zero or the nearest that it has.
CsvNumber parse_csv_number(std::string_view text, int64_t& out);
CsvNumber parse_csv_number(std::string_view text, float& out);
CsvNumber parse_csv_number(std::string_view text, double& out);

}  // namespace tenon
