// SPDX-License-Identifier: Apache-2.0
//
// Columns of files in columnar formats as a stream: the rows of a window are dealt out to shards,
// and each shard is read in an order of its own, which a seed fixes.
//
// Invariants: what a recipe asks of columns is held against each file that is there before the run
// starts, and against each other one before it is read. Which shard has a row depends on files and
// options alone.
// Threads: shards are read by any number of threads at once, and share the open files' facts.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "column.hpp"
#include "row_filter.hpp"
#include "shard_reader.hpp"
#include "source_file.hpp"
#include "window_deal.hpp"
#include "window_walk.hpp"

namespace {

enum class Check { kAll, kFirst };
enum class EmptyWindow { kError, kSkip };

struct ShareOptions : tenon::RowShare {
  static void bind(tenon::OptionBinder<ShareOptions>& binder) {
    binder.field("from", &ShareOptions::from).min(0).doc("the first part that is read");
    binder.field("to", &ShareOptions::to).min(1).doc("the part after the last that is read");
    binder.field("of", &ShareOptions::of)
        .min(1)
        .doc("parts in all, of nearly equal numbers of rows");
  }
};

struct CsvOptions {
  std::string separator = ",";
  bool header = true;
  std::vector<std::string> missing_marks;

  static void bind(tenon::OptionBinder<CsvOptions>& binder) {
    binder.field("separator", &CsvOptions::separator).non_empty().doc("the byte between columns");
    binder.field("header", &CsvOptions::header)
        .doc("whether the first line has names; without, columns are \"f0\", \"f1\" and so on");
    binder.field("missing_marks", &CsvOptions::missing_marks)
        .doc("texts that mean a null, beside those that Arrow knows: nothing, NA, NULL and so on");
  }
};

struct ColumnarOptions {
  std::vector<std::string> paths;
  tenon::FileFormat format = tenon::FileFormat::kAuto;
  std::vector<tenon::ColumnOptions> columns;
  std::vector<tenon::Condition> where;
  tenon::WindowOptions windows;
  EmptyWindow empty_windows = EmptyWindow::kError;
  ShareOptions share;
  int64_t shards = 1;
  tenon::DealBy deal_by = tenon::DealBy::kRows;
  int64_t shuffle_groups = 0;
  int64_t read_rows = 131072;  // as Arrow's own scan
  Check check = Check::kAll;
  CsvOptions csv;
};

// A window, and its shards once one of them is to be read.
struct OpenWindow {
  tenon::DataWindow window;
  std::vector<std::vector<tenon::RowSpan>> dealt;
  std::vector<std::unique_ptr<tenon::ShardReader>> shards;
};

class Columnar : public tenon::StreamDataset {
 public:
  static constexpr const char* kType = "columnar";
  static constexpr const char* kSummary =
      "columns of Parquet, ORC, Feather and CSV files, fixed and ragged, in windows";
  using Options = ColumnarOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("paths", &Options::paths)
        .required()
        .non_empty()
        .min_items(1)
        .path()
        .doc("files, folders, or patterns of names with *, ? and [...]; also s3://BUCKET/...");
    binder
        .choice("format",
                &Options::format,
                {{"auto", tenon::FileFormat::kAuto},
                 {"parquet", tenon::FileFormat::kParquet},
                 {"orc", tenon::FileFormat::kOrc},
                 {"feather", tenon::FileFormat::kFeather},
                 {"csv", tenon::FileFormat::kCsv}})
        .doc("of the files; auto: by the ends of their names");
    binder.field("columns", &Options::columns)
        .required()
        .min_items(1)
        .doc("the columns of a batch, and those of the files they are read from");
    binder.field("where", &Options::where)
        .doc(
            "conditions that a row must fit, all of them; row groups whose statistics say that "
            "none does are not read");
    binder.field("windows", &Options::windows).doc("the pieces that the data comes in");
    binder
        .choice("empty_windows",
                &Options::empty_windows,
                {{"error", EmptyWindow::kError}, {"skip", EmptyWindow::kSkip}})
        .doc("what becomes of a window without a row");
    binder.field("share", &Options::share)
        .doc("the part of each window that is read: another dataset may have the rest");
    binder.field("shards", &Options::shards)
        .min(1)
        .max(65536)
        .doc(
            "pieces of a window that are read at once, by loader threads and by ranks; at least "
            "one a rank");
    binder
        .choice("deal_by",
                &Options::deal_by,
                {{"rows", tenon::DealBy::kRows},
                 {"row_groups", tenon::DealBy::kRowGroups},
                 {"files", tenon::DealBy::kFiles}})
        .doc(
            "how a window is dealt out to the shards: in equal numbers of rows, or by whole row "
            "groups or files in turn");
    binder.field("shuffle_groups", &Options::shuffle_groups)
        .min(0)
        .doc(
            "row groups that a shard holds at once and whose rows it mixes; 0: rows come as they "
            "are");
    binder.field("read_rows", &Options::read_rows)
        .min(1)
        .max(1 << 24)
        .doc("rows that are made of a row group at a time");
    binder.choice("check", &Options::check, {{"all", Check::kAll}, {"first", Check::kFirst}})
        .doc(
            "the files whose columns are looked at before the run: all that are there, or the "
            "first alone");
    binder.field("csv", &Options::csv).doc("how CSV files are read");
  }

  Columnar(const Options& options, const tenon::CreateContext& context)
      : options_(options),
        filter_(options.where),
        walk_(options.windows, options.paths, [this](const tenon::DataFile& file) {
          return open(file);
        }) {
    for (const tenon::ColumnOptions& column : options_.columns) {
      for (const tenon::Column& other : columns_) {
        if (other.name() == column.name) {
          TENON_FAIL(TENON_INVALID,
                     "columnar.bad_column",
                     "two columns are called ",
                     tenon::json_string(column.name));
        }
      }
      columns_.emplace_back(column);
      if (const std::shared_ptr<arrow::DataType> type = columns_.back().type_in_text()) {
        for (const std::string& source : columns_.back().named_sources()) {
          file_options_.text_types[source] = type;
        }
      }
    }
    const ShareOptions& share = options_.share;
    if (share.from >= share.to || share.to > share.of) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.bad_share",
                 "`share` is the parts from ",
                 share.from,
                 " to before ",
                 share.to,
                 " of ",
                 share.of,
                 "; it must have at least one part, and not more than there are");
    }
    if (options_.csv.separator.size() != 1) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.bad_separator",
                 "`separator` is ",
                 tenon::json_string(options_.csv.separator),
                 "; it must be one byte");
    }
    file_options_.format = options_.format;
    file_options_.separator = options_.csv.separator.front();
    file_options_.header = options_.csv.header;
    file_options_.missing_marks = options_.csv.missing_marks;
    rules_.columns = &columns_;
    rules_.filter = &filter_;
    rules_.open = [this](const tenon::DataFile& file) { return open(file); };
    rules_.batch_rows = options_.read_rows;
    rules_.shuffle_groups = options_.shuffle_groups;
    rules_.seed = context.seed;
    rules_.random = options_.shuffle_groups > 0 ? &context.host.random() : nullptr;
  }

  void describe(tenon::DatasetInfo& info) override {
    const std::vector<tenon::DataFile>& files = walk_.start();
    {
      const std::shared_ptr<const tenon::SourceFile> first =
          tenon::open_file(files.front(), file_options_, filter_);
      for (tenon::Column& column : columns_) {
        column.settle(*first->schema(), first->name());
      }
    }
    int64_t num_rows = 0;
    for (const tenon::DataFile& file : files) {
      if (options_.check == Check::kAll || &file == &files.front()) {
        num_rows += open(file)->num_rows();
      }
    }
    if (num_rows == 0 && options_.check == Check::kAll && !options_.windows.follow) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.empty",
                 files.front().name,
                 files.size() > 1 ? " and the other files have" : " has",
                 " no row to read");
    }
    for (tenon::Column& column : columns_) {
      column.declare(info);
    }
    info.shards(static_cast<uint32_t>(options_.shards));
    if (walk_.has_windows()) {
      info.windows();
    }
  }

  bool next_window(tenon::Window& out) override {
    tenon::DataWindow window;
    switch (walk_.next(window)) {
      case tenon::WindowWalk::Next::kEnd:
        return false;
      case tenon::WindowWalk::Next::kNotYet:
        out.wait_ms = static_cast<uint32_t>(std::clamp(walk_.poll_seconds() * 1000, 1.0, 3.6e6));
        return true;
      case tenon::WindowWalk::Next::kWindow:
        break;
    }
    out.id = window.id;
    out.label = window.label;
    out.skip = window.is_skipped;
    open_windows_.push_back({std::move(window), {}, {}});
    if (open_windows_.size() > kMostWindows) {
      open_windows_.pop_front();
    }
    forget_files();
    if (!out.skip && options_.empty_windows == EmptyWindow::kSkip) {
      out.skip = num_rows_of(spans(open_windows_.back().window)) == 0;
    }
    return true;
  }

  void reset(uint64_t epoch) override {
    walk_.reset();
    open_windows_.clear();
    epoch_ = epoch;
  }

  void seek(const tenon_window* window, uint32_t shard, const std::string* position) override {
    OpenWindow& open = window_of(window);
    for (OpenWindow& other : open_windows_) {
      if (&other != &open) {  // one window is read at a time: what was read ahead of others goes
        other.shards.clear();
        other.dealt.clear();
      }
    }
    if (open.shards.empty()) {
      const std::vector<tenon::RowSpan> all = spans(open.window);
      if (all.empty()) {
        fail_empty(open.window);
      }
      const auto num_shards = static_cast<size_t>(options_.shards);
      open.dealt = tenon::deal_out(all, num_shards, options_.deal_by);
      open.shards.resize(num_shards);
    }
    TENON_CHECK(shard < open.shards.size(), "there is no shard ", shard);
    std::unique_ptr<tenon::ShardReader>& reader = open.shards[shard];
    if (reader == nullptr) {
      // Shards, windows and epochs have orders of their own.
      const uint64_t stream =
          tenon::mix_numbers({epoch_, window == nullptr ? 0 : window->id, shard});
      reader = std::make_unique<tenon::ShardReader>(rules_, open.dealt[shard], stream);
    }
    reader->seek(position);
  }

  bool next(const tenon_window* window,
            uint32_t shard,
            int64_t max_samples,
            tenon::BatchWriter& writer) override {
    const OpenWindow& open = window_of(window);
    TENON_CHECK(shard < open.shards.size() && open.shards[shard] != nullptr,
                "shard ",
                shard,
                " is read before seek()");
    return open.shards[shard]->next(max_samples, writer);
  }

 private:
  static constexpr size_t kMostWindows = 4;  // that may be read: the one trained on, and near it

  // What a file says of itself, held against the columns; kept for all who ask.
  std::shared_ptr<const tenon::SourceFile> open(const tenon::DataFile& file) {
    {
      const std::lock_guard lock(mutex_);
      const auto known = open_files_.find(file.name);
      if (known != open_files_.end() && known->second->file().size == file.size &&
          known->second->file().changed == file.changed) {
        return known->second;
      }
    }
    std::shared_ptr<const tenon::SourceFile> opened =
        tenon::open_file(file, file_options_, filter_);
    for (const tenon::Column& column : columns_) {
      column.check(*opened->schema(), opened->name());
    }
    const std::lock_guard lock(mutex_);
    open_files_[file.name] = opened;
    return opened;
  }

  // A folder that is followed grows without end; what is known of its files must not.
  void forget_files() {
    if (!options_.windows.follow) {
      return;
    }
    std::map<std::string, std::shared_ptr<const tenon::SourceFile>> kept;
    for (const OpenWindow& open : open_windows_) {
      for (const tenon::WindowPart& part : open.window.parts) {
        const auto known = open_files_.find(part.file.name);
        if (known != open_files_.end()) {
          kept.insert(*known);
        }
      }
    }
    const std::lock_guard lock(mutex_);
    open_files_ = std::move(kept);
  }

  OpenWindow& window_of(const tenon_window* window) {
    if (window == nullptr) {
      if (open_windows_.empty()) {
        tenon::DataWindow whole;
        walk_.next(whole);
        open_windows_.push_back({std::move(whole), {}, {}});
      }
      return open_windows_.front();
    }
    const auto found =
        std::find_if(open_windows_.begin(), open_windows_.end(), [&](const OpenWindow& open) {
          return open.window.id == window->id;
        });
    TENON_CHECK(found != open_windows_.end(), "there is no open window ", window->id);
    return *found;
  }

  std::vector<tenon::RowSpan> spans(const tenon::DataWindow& window) {
    return tenon::spans_of(
        window, options_.share, [this](const tenon::DataFile& file) { return open(file); });
  }

  [[noreturn]] void fail_empty(const tenon::DataWindow& window) const {
    TENON_FAIL(TENON_INVALID,
               "columnar.empty_window",
               window.parts.empty() ? options_.paths.front() : window.parts.front().file.name,
               window.label.empty() ? "" : tenon::concat(": the window ", window.label),
               ": there is no row to read, once `where` and `share` are applied; `empty_windows` "
               "may pass such windows over");
  }

  Options options_;
  tenon::RowFilter filter_;
  tenon::FileOptions file_options_;
  std::vector<tenon::Column> columns_;
  tenon::ShardRules rules_;
  tenon::WindowWalk walk_;
  std::deque<OpenWindow> open_windows_;
  uint64_t epoch_ = 0;
  std::mutex mutex_;  // of what follows
  std::map<std::string, std::shared_ptr<const tenon::SourceFile>> open_files_;
};

}  // namespace

TENON_PLUGIN(Columnar)
