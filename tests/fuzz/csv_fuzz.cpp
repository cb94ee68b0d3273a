// SPDX-License-Identifier: Apache-2.0
//
// CSV files that are nearly right are read or refused, each row alike whenever it is read. A case
// is a line of four letters that choose how the file is read, and the file.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>

#include "plugins/datasets/csv/csv_fields.hpp"
#include "plugins/datasets/csv/csv_table.hpp"
#include "tests/fuzz/fuzz_run.hpp"
#include "tests/fuzz/memory_file.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

struct Reading {
  CsvFormat format;
  std::vector<CsvFieldOptions> fields;
  std::vector<std::string> marks;
};

// The letters: separator, header, quotes, fields. Any text means something.
Reading reading_of(const std::string& letters) {
  const auto letter = [&](std::size_t i) {
    return i < letters.size() ? static_cast<unsigned char>(letters[i]) : 0U;
  };
  Reading reading;
  reading.format.dialect.separator = ",;\t|"[letter(0) % 4];
  reading.format.has_header = letter(1) % 4 != 0;
  reading.format.dialect.has_quotes = letter(2) % 4 != 0;
  const unsigned fields = letter(3);
  const bool has_names = reading.format.has_header;
  CsvFieldOptions first;
  first.name = has_names ? "x" : "0";
  first.dtype = fields % 2 == 0 ? CsvDtype::kF32 : CsvDtype::kF64;
  first.missing = static_cast<CsvMissing>(fields / 2 % 3);
  CsvFieldOptions rest;
  rest.name = "rest";
  rest.columns = {has_names ? "x..y" : "0..2"};
  rest.dtype = fields % 4 == 3 ? CsvDtype::kI64 : CsvDtype::kF64;
  rest.missing = static_cast<CsvMissing>(fields / 6 % 3);
  rest.fill = -1;
  CsvFieldOptions label;
  label.name = "label";
  label.column = has_names ? "y" : "1";
  label.dtype = CsvDtype::kI64;
  label.missing = static_cast<CsvMissing>(fields / 18 % 3);
  if (fields % 5 == 0) {
    label.min = -3;
    label.max = 1e6;
  }
  reading.fields = {first, rest, label};
  if (fields % 3 == 0) {
    reading.marks = {"NA", "-999", "nan"};
  }
  return reading;
}

const std::vector<std::string>& corpus() {
  static const std::vector<std::string> files = [] {
    std::vector<fs::path> paths;
    for (const fs::directory_entry& entry :
         fs::directory_iterator(source_dir() / "tests" / "fuzz" / "corpus")) {
      if (entry.path().extension() == ".csv") {
        paths.push_back(entry.path());
      }
    }
    std::ranges::sort(paths);
    std::vector<std::string> texts;
    for (const fs::path& path : paths) {
      texts.push_back(read_corpus_file(path.string()));
    }
    return texts;
  }();
  return files;
}

std::string make_csv(Mutator& mutator) {
  static const std::vector<std::string> words = {
      "\"", "\"\"",  ",",       ";",      "\t",   "\n",  "\r\n", "\r",  ",,", "\n\n",
      "x",  "y",     "x,y",     "NA",     "-999", "nan", "inf",  "1e5", " 1", "1 ",
      "+1", "\"1\"", "\"a,b\"", "\"\n\"", "x..y", "0",   "-0.0", "3.5"};
  std::string text = mutator.pick(corpus());
  std::string letters;
  for (int i = 0; i < 4; ++i) {
    letters += static_cast<char>('!' + mutator.below(90));
  }
  if (!mutator.one_in(5)) {  // as the file is meant, or nothing is read beyond its first line
    const std::size_t separator = text.find_first_of(",;\t");
    letters[0] = "def"[std::string_view(",;\t").find(text[separator])];
    letters[1] = text.find('x') < separator ? 'a' : 'd';
    letters[2] = 'a';
  }
  if (!mutator.one_in(20)) {
    text = mutator.mutated(std::move(text), words, corpus());
  }
  return letters + "\n" + text;
}

// The ids of csv_table.hpp, csv_fields.hpp and StableFile.
void check_csv_id(const std::string& id) {
  static const std::set<std::string> known = {"csv.open",
                                              "csv.no_file",
                                              "csv.read",
                                              "csv.short",
                                              "csv.changed",
                                              "csv.empty",
                                              "csv.syntax",
                                              "csv.ragged",
                                              "csv.too_long",
                                              "csv.no_column",
                                              "csv.missing",
                                              "csv.value",
                                              "csv.out_of_range",
                                              "csv.bad_field"};
  if (known.count(id) == 0) {
    throw FuzzFinding("an error has the unknown id \"" + id + "\"");
  }
}

// The records of a text are the same, whatever pieces it comes in.
void check_pieces(const std::string& text, const CsvDialect& dialect) {
  constexpr std::size_t kLongest = 2000;  // it is read anew for each byte
  const std::string_view all = std::string_view(text).substr(0, kLongest);
  CsvRecord whole;
  CsvRecord piece;
  CsvProblem problem;
  CsvProblem piece_problem;
  for (std::string_view rest = all; !rest.empty(); rest.remove_prefix(whole.size)) {
    const CsvScan scan = scan_csv_record(rest, CsvTextEnd::kIsLast, dialect, whole, problem);
    // An exact copy, so that a read beyond its end is seen.
    for (std::size_t size = 0; size <= rest.size(); ++size) {
      const std::unique_ptr<char[]> bytes(new char[size]);
      std::copy_n(rest.data(), size, bytes.get());
      const CsvScan found = scan_csv_record(
          {bytes.get(), size}, CsvTextEnd::kMayContinue, dialect, piece, piece_problem);
      if (found == CsvScan::kNeedsMore) {
        continue;
      }
      const bool is_same =
          found == scan && (scan == CsvScan::kBad ? piece_problem.offset == problem.offset
                                                  : piece.size == whole.size &&
                                                        piece.fields.size() == whole.fields.size());
      if (!is_same) {
        throw FuzzFinding("a record differs where the text comes in pieces");
      }
      break;
    }
    if (scan == CsvScan::kBad) {
      return;
    }
    if (whole.size == 0) {
      throw FuzzFinding("a record takes no byte");
    }
  }
}

using Values = std::vector<std::vector<unsigned char>>;

Values read_values(const CsvTable& table,
                   const std::vector<CsvFieldReader>& readers,
                   const CsvRow& row) {
  Values values;
  for (const CsvFieldReader& reader : readers) {
    std::vector<unsigned char>& bytes = values.emplace_back(8 * reader.width());
    std::vector<std::int64_t> aligned(reader.width());
    reader.read(table, row, aligned.data());
    if (!bytes.empty()) {
      std::memcpy(bytes.data(), aligned.data(), bytes.size());
    }
  }
  return values;
}

std::string judge_csv(const std::string& input) {
  static const MemoryFile file("table.csv");
  const std::size_t end = std::min(input.find('\n'), input.size());
  const Reading reading = reading_of(input.substr(0, end));
  const std::string text = end < input.size() ? input.substr(end + 1) : "";
  CsvDialect dialect = reading.format.dialect;
  check_pieces(text, dialect);
  dialect.is_lenient = true;
  check_pieces(text, dialect);
  dialect.separator += dialect.separator;
  check_pieces(text, dialect);
  file.write(text);
  try {
    CsvTable table(file.path(), reading.format);
    for (const CsvFieldOptions& field : reading.fields) {
      check_csv_field(field);
    }
    std::vector<CsvFieldReader> readers;
    readers.reserve(reading.fields.size());
    for (const CsvFieldOptions& field : reading.fields) {
      readers.emplace_back(field, reading.marks, table);
    }
    std::vector<Values> first;
    table.index_rows([&](const CsvRow& row) {
      for (const CsvFieldReader& reader : readers) {
        if (reader.skips(row)) {
          return RowDecision::kSkip;
        }
      }
      first.push_back(read_values(table, readers, row));
      return RowDecision::kKeep;
    });
    // Every row once more, from the last to the first.
    std::vector<std::int64_t> numbers;
    for (std::int64_t i = table.num_rows(); i > 0; --i) {
      numbers.push_back(i - 1);
    }
    table.read_rows(numbers, [&](std::size_t i, const CsvRow& row) {
      if (read_values(table, readers, row) != first.at(static_cast<std::size_t>(numbers[i]))) {
        throw FuzzFinding("a row differs when it is read again");
      }
    });
  } catch (const Error& error) {
    check_csv_id(error.id());
    // Bytes that are no UTF-8 are the host's to mend, in every message of a plugin.
    const std::string_view message = error.what();
    if (message.empty() || message.find('\n') != std::string_view::npos) {
      throw FuzzFinding(std::string(error.id()) + " has a message that is not one line");
    }
    return error.id();
  }
  return kFuzzAccepted;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  return tenon::run_fuzz(
      argc, argv, {.name = "csv_fuzz", .make = tenon::make_csv, .judge = tenon::judge_csv});
}
