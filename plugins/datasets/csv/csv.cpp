// SPDX-License-Identifier: Apache-2.0
//
// Reads rows of CSV files as samples. Each field is numeric, from one column or from several
// columns.
//
// Invariants: a sample is a row; rows are numbered in order of files and lines. `describe` scans
// all files, so data errors are reported before the first step.
// Threads: reads share immutable tables.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/sample_places.hpp>
#include <tenon/cpp/source_files.hpp>

#include <algorithm>
#include <filesystem>
#include <glob.h>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "../text_hash.hpp"
#include "csv_fields.hpp"
#include "csv_table.hpp"

namespace {

enum class Windows { kNone, kFile };
enum class Check { kValues, kRows };

struct CsvOptions {
  std::vector<std::string> files;
  std::vector<tenon::CsvFieldOptions> fields;
  std::string separator = ",";
  bool header = true;
  bool quotes = true;
  std::vector<std::string> missing_marks;
  Windows windows = Windows::kNone;
  Check check = Check::kValues;
};

// A file and its field readers, which hold column indices of this file.
struct Part {
  explicit Part(const std::string& path, const tenon::CsvFormat& format) : table(path, format) {}

  tenon::CsvTable table;
  std::vector<tenon::CsvFieldReader> fields;
  int64_t first_row = 0;   // index of its first row among all files
  uint64_t window_id = 0;  // if each file is a window
  std::string label;
};

// Expands a name: the file itself, or the matches of a pattern in name order.
void add_files(const std::string& name, std::vector<std::string>& out) {
  std::error_code ignored;
  if (name.find_first_of("*?[") == std::string::npos || std::filesystem::exists(name, ignored)) {
    out.push_back(name);
    return;
  }
  glob_t found{};
  const int result = ::glob(name.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &found);
  std::vector<std::string> names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (result == GLOB_NOMATCH) {
    TENON_FAIL(TENON_NOT_FOUND, "csv.open", "no file matches the pattern ", name);
  }
  if (result != 0) {
    TENON_FAIL(TENON_IO, "csv.open", "cannot read the folders of the pattern ", name);
  }
  std::sort(names.begin(), names.end());
  out.insert(out.end(), names.begin(), names.end());
}

class Csv : public tenon::MapDataset, public tenon::SourceFiles, public tenon::SamplePlaces {
 public:
  static constexpr const char* kType = "csv";
  static constexpr const char* kSummary = "rows of CSV files as numeric fields";
  using Options = CsvOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("files", &Options::files)
        .required()
        .non_empty()
        .min_items(1)
        .path()
        .doc("files, or patterns with *, ? and [...], expanded in name order");
    binder.field("fields", &Options::fields)
        .required()
        .min_items(1)
        .doc("fields of a batch and their source columns");
    binder.field("separator", &Options::separator)
        .non_empty()
        .doc("column separator, for example \",\", \"\\t\" or \"::\"");
    binder.field("header", &Options::header)
        .doc(
            "whether the first line has column names; if false, columns are named \"0\", \"1\", "
            "...");
    binder.field("quotes", &Options::quotes)
        .doc("whether \" quotes fields, as in RFC 4180; if false, \" is an ordinary character");
    binder.field("missing_marks", &Options::missing_marks)
        .doc("texts, in addition to the empty one, that mean a missing value");
    binder
        .choice("windows", &Options::windows, {{"none", Windows::kNone}, {"file", Windows::kFile}})
        .doc("how windows are formed: none, or one per file");
    binder.choice("check", &Options::check, {{"values", Check::kValues}, {"rows", Check::kRows}})
        .doc("check before training: all values used, or only row lengths and quotes");
  }

  explicit Csv(Options options) : options_(std::move(options)) {
    const std::string& separator = options_.separator;
    if (separator.find_first_of("\"\r\n") != std::string::npos) {
      TENON_FAIL(TENON_INVALID,
                 "csv.bad_separator",
                 "`separator` is ",
                 tenon::json_string(separator),
                 "; expected a text without quotes and line breaks");
    }
    for (size_t i = 0; i < options_.fields.size(); ++i) {
      check_csv_field(options_.fields[i]);
      for (size_t before = 0; before < i; ++before) {
        if (options_.fields[before].name == options_.fields[i].name) {
          TENON_FAIL(TENON_INVALID,
                     "csv.bad_field",
                     "two fields are named ",
                     tenon::json_string(options_.fields[i].name));
        }
      }
    }
  }

  void describe(tenon::DatasetInfo& info) override {
    std::vector<std::string> files;
    for (const std::string& name : options_.files) {
      add_files(name, files);
    }
    for (const std::string& file : files) {
      open(file);
    }
    if (num_rows_ == 0) {
      TENON_FAIL(TENON_INVALID,
                 "csv.empty",
                 files.front(),
                 files.size() > 1 ? " and the other files have" : " has",
                 " no rows to read: the file ends after the header, or every row was skipped for a "
                 "missing value");
    }
    for (size_t f = 0; f < options_.fields.size(); ++f) {
      const tenon::CsvFieldOptions& field = options_.fields[f];
      widths_.push_back(static_cast<int64_t>(parts_.front()->fields[f].width()));
      tenon::Axes axes = {"B"};
      if (!field.columns.empty()) {
        axes.emplace_back(widths_.back());
      }
      info.field(field.name, std::move(axes), tenon_dtype_of(field.dtype));
    }
    if (options_.windows == Windows::kFile) {
      name_windows();
      info.windows();
    }
  }

  bool next_window(tenon::Window& out) override {
    if (next_window_ == parts_.size()) {
      return false;
    }
    const Part& part = *parts_[next_window_++];
    out.id = part.window_id;
    out.label = part.label;
    out.size = part.table.num_rows();
    return true;
  }

  void reset(uint64_t) override { next_window_ = 0; }

  int64_t size(const tenon_window* window) override {
    return window == nullptr ? num_rows_ : parts_[part_of(*window)]->table.num_rows();
  }

  const void* extension(const char* id) override {
    const void* const files = tenon::SourceFilesCalls<Csv>::find(id);
    return files != nullptr ? files : tenon::SamplePlacesCalls<Csv>::find(id);
  }
  std::string place_of(const tenon_window* window, int64_t index) override {
    const Part& part = *parts_[window != nullptr ? part_of(*window) : part_at(index)];
    return part.table.place_of_row(window != nullptr ? index : index - part.first_row);
  }
  void list_files(const tenon_window* window, tenon::SourceFileList& files) override {
    for (const std::unique_ptr<Part>& part : parts_) {
      if (window == nullptr || part->window_id == window->id) {
        files.add(part->table.path());
      }
    }
  }

  void read(const tenon_window* window,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    std::vector<char*> data;
    for (size_t f = 0; f < widths_.size(); ++f) {
      std::vector<int64_t> shape = {static_cast<int64_t>(n)};
      if (!options_.fields[f].columns.empty()) {
        shape.push_back(widths_[f]);
      }
      data.push_back(writer.add<char>(static_cast<uint32_t>(f), shape));
    }
    // In batch order; consecutive rows from the same file are read together.
    std::vector<int64_t> rows;
    for (size_t b = 0; b < n;) {
      const size_t p = window != nullptr ? part_of(*window) : part_at(indices[b]);
      const Part& part = *parts_[p];
      const int64_t first = window != nullptr ? 0 : part.first_row;
      const size_t begin = b;
      rows.clear();
      for (; b < n && is_within(indices[b] - first, part); ++b) {
        rows.push_back(indices[b] - first);
      }
      TENON_CHECK(b > begin,
                  "row ",
                  indices[b],
                  " is out of range [0, ",
                  window != nullptr ? part.table.num_rows() : num_rows_,
                  ")");
      part.table.read_rows(rows, [&](size_t i, const tenon::CsvRow& row) {
        for (size_t f = 0; f < part.fields.size(); ++f) {
          const size_t bytes = static_cast<size_t>(widths_[f]) * size_of(options_.fields[f].dtype);
          part.fields[f].read(part.table, row, data[f] + (begin + i) * bytes);
        }
      });
    }
    writer.set_counts(static_cast<int64_t>(n), 0);
  }

 private:
  static uint32_t tenon_dtype_of(tenon::CsvDtype dtype) {
    return dtype == tenon::CsvDtype::kI64   ? TENON_I64
           : dtype == tenon::CsvDtype::kF32 ? TENON_F32
                                            : TENON_F64;
  }
  static size_t size_of(tenon::CsvDtype dtype) { return dtype == tenon::CsvDtype::kF32 ? 4 : 8; }
  static bool is_within(int64_t row, const Part& part) {
    return row >= 0 && row < part.table.num_rows();
  }

  void open(const std::string& file) {
    const tenon::CsvFormat format{{.separator = options_.separator, .has_quotes = options_.quotes},
                                  options_.header};
    parts_.push_back(std::make_unique<Part>(file, format));
    Part& part = *parts_.back();
    for (size_t f = 0; f < options_.fields.size(); ++f) {
      part.fields.emplace_back(options_.fields[f], options_.missing_marks, part.table);
      const size_t width = part.fields.back().width();
      const size_t first_width = parts_.front()->fields[f].width();
      if (width != first_width) {
        TENON_FAIL(TENON_INVALID,
                   "csv.no_column",
                   file,
                   ": the field ",
                   tenon::json_string(options_.fields[f].name),
                   " has ",
                   width,
                   " columns here, but ",
                   first_width,
                   " in ",
                   parts_.front()->table.path());
      }
    }
    std::vector<double> values;  // large enough for any dtype
    for (const tenon::CsvFieldReader& field : part.fields) {
      values.resize(std::max(values.size(), field.width()));
    }
    part.table.index_rows([&](const tenon::CsvRow& row) {
      for (const tenon::CsvFieldReader& field : part.fields) {
        if (field.skips(row)) {
          return tenon::RowDecision::kSkip;
        }
      }
      if (options_.check == Check::kValues) {
        for (const tenon::CsvFieldReader& field : part.fields) {
          field.read(part.table, row, values.data());
        }
      }
      return tenon::RowDecision::kKeep;
    });
    part.first_row = num_rows_;
    num_rows_ += part.table.num_rows();
  }

  // A window is identified by its file name, so that its id survives moving the files.
  void name_windows() {
    std::map<std::string, int> times;
    for (const std::unique_ptr<Part>& part : parts_) {
      part->label = std::filesystem::path(part->table.path()).filename().string();
      const int before = times[part->label]++;
      part->window_id =
          tenon::text_hash(before == 0 ? part->label : tenon::concat(part->label, "#", before));
    }
  }

  // Index of the file with this row. If several files begin at this row, only the last one has
  // rows.
  size_t part_at(int64_t row) const {
    const auto after =
        std::upper_bound(parts_.begin(), parts_.end(), row, [](int64_t wanted, const auto& part) {
          return wanted < part->first_row;
        });
    return after == parts_.begin() ? 0 : static_cast<size_t>(after - parts_.begin()) - 1;
  }

  size_t part_of(const tenon_window& window) const {
    const auto found = std::find_if(parts_.begin(), parts_.end(), [&](const auto& part) {
      return part->window_id == window.id;
    });
    TENON_CHECK(found != parts_.end(), "no window ", window.id);
    return static_cast<size_t>(found - parts_.begin());
  }

  Options options_;
  std::vector<std::unique_ptr<Part>> parts_;  // pointers, since the readers of a part refer to it
  std::vector<int64_t> widths_;               // per field
  int64_t num_rows_ = 0;
  size_t next_window_ = 0;
};

}  // namespace

TENON_PLUGIN(Csv)
