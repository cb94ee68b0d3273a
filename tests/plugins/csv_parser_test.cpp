// SPDX-License-Identifier: Apache-2.0
#include "plugins/datasets/csv/csv_parser.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using CsvRows = std::vector<std::vector<std::string>>;

// The records of a whole text; blank lines are left out.
CsvRows rows_of(std::string_view text, const CsvDialect& dialect = {}) {
  CsvRows rows;
  CsvRecord record;
  CsvProblem problem;
  while (!text.empty()) {
    REQUIRE(scan_csv_record(text, CsvTextEnd::kIsLast, dialect, record, problem) ==
            CsvScan::kRecord);
    REQUIRE(record.size > 0);
    if (!record.fields.empty()) {
      rows.emplace_back();
      for (const CsvField& field : record.fields) {
        rows.back().push_back(csv_field_text(field));
      }
    }
    text.remove_prefix(record.size);
  }
  return rows;
}

CsvProblem problem_of(std::string_view text, CsvTextEnd end = CsvTextEnd::kIsLast) {
  CsvRecord record;
  CsvProblem problem;
  REQUIRE(scan_csv_record(text, end, {}, record, problem) == CsvScan::kBad);
  return problem;
}

template <typename T>
CsvNumber number_of(std::string_view text, T& out) {
  out = T{77};
  const CsvNumber result = parse_csv_number(text, out);
  if (result != CsvNumber::kGood) {
    CHECK(out == T{77});
  }
  return result;
}

TEST_CASE("the examples of RFC 4180 are read as it says", "[plugins]") {
  const CsvRows two = {{"aaa", "bbb", "ccc"}, {"zzz", "yyy", "xxx"}};
  CHECK(rows_of("aaa,bbb,ccc\r\nzzz,yyy,xxx\r\n") == two);
  CHECK(rows_of("aaa,bbb,ccc\r\nzzz,yyy,xxx") == two);
  CHECK(rows_of("\"aaa\",\"bbb\",\"ccc\"\r\nzzz,yyy,xxx") == two);
  CHECK(rows_of("\"aaa\",\"b\r\nbb\",\"ccc\"\r\nzzz,yyy,xxx") ==
        CsvRows{{"aaa", "b\r\nbb", "ccc"}, {"zzz", "yyy", "xxx"}});
  CHECK(rows_of("\"aaa\",\"b\"\"bb\",\"ccc\"") == CsvRows{{"aaa", "b\"bb", "ccc"}});
}

TEST_CASE("line feeds alone end records, and blank lines are none", "[plugins]") {
  CHECK(rows_of("a,b\n\n\r\nc,d\n\n") == CsvRows{{"a", "b"}, {"c", "d"}});
  CHECK(rows_of("\n").empty());
  CHECK(rows_of("a\n\"\"\nb") == CsvRows{{"a"}, {""}, {"b"}});
  CHECK(rows_of(",\n,,") == CsvRows{{"", ""}, {"", "", ""}});
  CHECK(rows_of(" \n") == CsvRows{{" "}});
}

TEST_CASE("another separator makes commas letters, and without quotes a quote is one",
          "[plugins]") {
  CHECK(rows_of("a,b\tc\n", {.separator = "\t"}) == CsvRows{{"a,b", "c"}});
  CHECK(rows_of("1;\"2;3\"\n", {.separator = ";"}) == CsvRows{{"1", "2;3"}});
  CHECK(rows_of("1::2:3::\"4::5\"\n:::\n", {.separator = "::"}) ==
        CsvRows{{"1", "2:3", "4::5"}, {"", ":"}});
  CHECK(rows_of("6\"1,\"x\n", {.has_quotes = false}) == CsvRows{{"6\"1", "\"x"}});
}

TEST_CASE("a record knows its bytes and its lines", "[plugins]") {
  CsvRecord record;
  CsvProblem problem;
  REQUIRE(scan_csv_record("a,\"x\ny\n\"\r\nnext", CsvTextEnd::kMayContinue, {}, record, problem) ==
          CsvScan::kRecord);
  CHECK(record.size == 10);
  CHECK(record.num_line_breaks == 3);
  REQUIRE(record.fields.size() == 2);
  CHECK(record.fields[1].is_quoted);
}

TEST_CASE("text that breaks the rules is refused at its byte", "[plugins]") {
  CsvProblem problem = problem_of("a,b\"c\n");
  CHECK(std::string(problem.what) == "a quote inside a field that does not begin with a quote");
  CHECK(problem.offset == 3);
  CHECK(problem.field == 1);

  problem = problem_of("\"a\nb\",\"c\"d\n");
  CHECK(std::string(problem.what) == "text after the closing quote of a field");
  CHECK(problem.offset == 9);
  CHECK(problem.line_breaks == 1);

  problem = problem_of("\"a\nb\",\"c\nd\n");
  CHECK(std::string(problem.what) == "unclosed quote");
  CHECK(problem.offset == 6);  // where it was opened, and the line of that
  CHECK(problem.line_breaks == 1);

  CHECK(std::string(problem_of("a\rb").what) == "a carriage return without a line feed after it");
  CHECK(std::string(problem_of("a\r").what) == "a carriage return without a line feed after it");
  CHECK_THAT(problem_of(std::string_view("a\0,b", 4)).what, contains_text("a zero byte"));
  CHECK_THAT(problem_of(std::string_view("\"a\0\"", 4)).what, contains_text("a zero byte"));
  CHECK_THAT(problem_of(std::string_view("\"a\"\0", 4)).what, contains_text("a zero byte"));
}

TEST_CASE("a record that is read in pieces is the one that is read at once", "[plugins]") {
  // Every prefix of a text either needs more, or gives the record that the whole text gives.
  const std::string alphabet = "a1,\"\"\r\n\n ";
  std::mt19937 random(20260101);
  const auto below = [&random](size_t n) { return random() % n; };
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (size_t n = below(24); n > 0; --n) {
      text += alphabet[below(alphabet.size())];
    }
    CAPTURE(text);
    CsvRecord whole;
    CsvProblem whole_problem;
    const CsvScan at_once = scan_csv_record(text, CsvTextEnd::kIsLast, {}, whole, whole_problem);
    REQUIRE(at_once != CsvScan::kNeedsMore);
    for (size_t length = 0; length <= text.size(); ++length) {
      CsvRecord record;
      CsvProblem problem;
      const CsvScan part = scan_csv_record(
          std::string_view(text).substr(0, length), CsvTextEnd::kMayContinue, {}, record, problem);
      if (part == CsvScan::kRecord) {
        REQUIRE(at_once == CsvScan::kRecord);
        REQUIRE(record.size == whole.size);
        REQUIRE(record.num_line_breaks == whole.num_line_breaks);
        REQUIRE(record.fields.size() == whole.fields.size());
      } else if (part == CsvScan::kBad) {
        REQUIRE(at_once == CsvScan::kBad);
        REQUIRE(problem.offset == whole_problem.offset);
      }
    }
  }
}

TEST_CASE("whole numbers are read exactly, and nothing else is one", "[plugins]") {
  int64_t value = 0;
  CHECK((number_of("42", value) == CsvNumber::kGood && value == 42));
  CHECK((number_of(" -7\t", value) == CsvNumber::kGood && value == -7));
  CHECK((number_of("+9", value) == CsvNumber::kGood && value == 9));
  CHECK((number_of("9223372036854775807", value) == CsvNumber::kGood &&
         value == std::numeric_limits<int64_t>::max()));
  CHECK((number_of("-9223372036854775808", value) == CsvNumber::kGood &&
         value == std::numeric_limits<int64_t>::min()));
  CHECK(number_of("9223372036854775808", value) == CsvNumber::kOutOfRange);
  CHECK(number_of("-9223372036854775809", value) == CsvNumber::kOutOfRange);
  for (const char* const fraction : {"1.0", "1e3", ".5", "-2.", "1e999"}) {
    CHECK(number_of(fraction, value) == CsvNumber::kFraction);
  }
  for (const char* const none : {"",
                                 " ",
                                 "-",
                                 "+",
                                 "+-1",
                                 "++1",
                                 "+ 1",
                                 "1 2",
                                 "0x",
                                 "0x-1",
                                 "0x1g",
                                 "1,5",
                                 "a",
                                 "1a",
                                 "--1",
                                 "e5"}) {
    CAPTURE(none);
    CHECK(number_of(none, value) == CsvNumber::kNone);
  }
  CHECK(number_of("nan", value) == CsvNumber::kNonFinite);
  CHECK((number_of(" 0x1F ", value) == CsvNumber::kGood && value == 31));
  CHECK(number_of("0xffffffffffffffff", value) == CsvNumber::kOutOfRange);
}

TEST_CASE("a lenient dialect reads what spreadsheets write", "[plugins]") {
  const CsvDialect lenient{.is_lenient = true};
  CHECK(rows_of("5\"disk,b\rc,\"d\"\"e\"\r\n", lenient) ==
        CsvRows{{"5\"disk", "b"}, {"c", "d\"e"}});
}

TEST_CASE("a floating-point number is the nearest that its type has", "[plugins]") {
  float narrow = 0;
  double wide = 0;
  CHECK((number_of("0.1", narrow) == CsvNumber::kGood && narrow == 0.1f));
  CHECK((number_of("0.1", wide) == CsvNumber::kGood && wide == 0.1));
  // Halfway between two floats as a double, just above it as text: no rounding twice.
  CHECK((number_of("1.00000005960464477540", narrow) == CsvNumber::kGood &&
         narrow == 1.00000011920928955f));
  CHECK((number_of("+1.5E+2", wide) == CsvNumber::kGood && wide == 150.0));
  CHECK((number_of("-.5", wide) == CsvNumber::kGood && wide == -0.5));
  CHECK((number_of("5.", narrow) == CsvNumber::kGood && narrow == 5.0f));
  CHECK((number_of("-0", wide) == CsvNumber::kGood && std::signbit(wide)));
  CHECK((number_of("1e-60", narrow) == CsvNumber::kGood && narrow == 0.0f));
  CHECK((number_of("1e-40", narrow) == CsvNumber::kGood && narrow == 1e-40f));
  CHECK((number_of("1e-400", wide) == CsvNumber::kGood && wide == 0.0));
  CHECK(number_of("1e39", narrow) == CsvNumber::kOutOfRange);
  CHECK(number_of("-1e309", wide) == CsvNumber::kOutOfRange);
  for (const char* const text : {"nan", "NaN", "-nan", "nan(1)"}) {
    CHECK(number_of(text, wide) == CsvNumber::kNonFinite);
    CHECK(number_of(text, narrow) == CsvNumber::kNonFinite);
  }
  CHECK((number_of("inf", wide) == CsvNumber::kGood && wide == INFINITY));
  CHECK((number_of("-Infinity", narrow) == CsvNumber::kGood && narrow == -INFINITY));
  for (const char* const none : {"", "-", "x", "1.2.3", "1e", "info", "0x1p3", "1 2", "1,5"}) {
    CAPTURE(none);
    CHECK(number_of(none, wide) == CsvNumber::kNone);
    CHECK(number_of(none, narrow) == CsvNumber::kNone);
  }
}

}  // namespace
}  // namespace tenon
