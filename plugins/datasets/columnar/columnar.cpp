// SPDX-License-Identifier: Apache-2.0
//
// Streams columns of files in columnar formats. The rows of a window are assigned to shards. Each
// shard is read in its own order, determined by a seed.
//
// Invariants: before the run starts, the recipe's columns are checked against each existing file.
// Every later file is checked before it is read. The shard of a row depends on files and options
// only.
// Threads: any number of threads read shards at once; the cache of open files is shared.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/source_files.hpp>
#include <tenon/cpp/stateful.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
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
enum class EmptyWindow { kError, kSkip, kWait };

struct ShareOptions : tenon::RowShare {
  static void bind(tenon::OptionBinder<ShareOptions>& binder) {
    binder.field("from", &ShareOptions::from).min(0).doc("first part to read");
    binder.field("to", &ShareOptions::to).min(1).doc("end of the parts to read (exclusive)");
    binder.field("of", &ShareOptions::of)
        .min(1)
        .doc("number of parts, with nearly equal row counts");
  }
};

struct CsvOptions {
  std::string separator = ",";
  bool header = true;
  std::vector<std::string> missing_marks;

  static void bind(tenon::OptionBinder<CsvOptions>& binder) {
    binder.field("separator", &CsvOptions::separator)
        .non_empty()
        .doc("column separator, for example \",\", \"\\t\" or \"::\"");
    binder.field("header", &CsvOptions::header)
        .doc(
            "whether the first line has column names; if false, columns are named \"f0\", \"f1\", "
            "...");
    binder.field("missing_marks", &CsvOptions::missing_marks)
        .doc(
            "texts that are read as null, in addition to an empty text without quotes; numbers "
            "also read NA, NULL, nan and similar as null");
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
  int64_t read_rows = 131072;  // Arrow's default for scans
  Check check = Check::kAll;
  CsvOptions csv;
};

// A window and its shards, which are computed when the first one is read.
struct OpenWindow {
  tenon::DataWindow window;
  std::vector<std::vector<tenon::RowSpan>> shard_spans;
  std::vector<std::unique_ptr<tenon::ShardReader>> shards;
  bool is_dropped = false;     // its files have changed, and the rest of it is skipped
  bool is_chosen = false;      // by choose_files()
  bool has_bad_files = false;  // that are skipped
};

class Columnar : public tenon::StreamDataset, public tenon::SourceFiles, public tenon::Stateful {
 public:
  static constexpr const char* kType = "columnar";
  static constexpr const char* kSummary =
      "streams fixed and ragged columns of Parquet, ORC, Feather and CSV files, in windows";
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
        .doc("file format; auto: by file extension");
    binder.field("columns", &Options::columns)
        .required()
        .min_items(1)
        .doc("columns of a batch and their source columns in the files");
    binder.field("where", &Options::where)
        .doc(
            "conditions that every row must meet; row groups are skipped if their statistics "
            "exclude all rows");
    binder.field("windows", &Options::windows).doc("how the data is split into windows");
    binder
        .choice("empty_windows",
                &Options::empty_windows,
                {{"error", EmptyWindow::kError},
                 {"skip", EmptyWindow::kSkip},
                 {"wait", EmptyWindow::kWait}})
        .doc("windows without rows: fail, skip the window, or wait for rows");
    binder.field("share", &Options::share)
        .doc("part of each window to read; another dataset can read the rest");
    binder.field("shards", &Options::shards)
        .min(1)
        .max(65536)
        .doc(
            "pieces of a window, read in parallel by loader threads and ranks; at least one per "
            "rank");
    binder
        .choice("deal_by",
                &Options::deal_by,
                {{"rows", tenon::DealBy::kRows},
                 {"row_groups", tenon::DealBy::kRowGroups},
                 {"files", tenon::DealBy::kFiles}})
        .doc(
            "how rows are assigned to shards: equal row counts, or whole row groups or files "
            "round-robin");
    binder.field("shuffle_groups", &Options::shuffle_groups)
        .min(0)
        .max(65536)
        .doc("row groups that a shard buffers and shuffles together; 0: no shuffling");
    binder.field("read_rows", &Options::read_rows)
        .min(1)
        .max(1 << 24)
        .doc("rows decoded at a time from a row group");
    binder.choice("check", &Options::check, {{"all", Check::kAll}, {"first", Check::kFirst}})
        .doc(
            "files whose columns are checked before the run: all existing files, or the first "
            "only");
    binder.field("csv", &Options::csv).doc("CSV format options");
  }

  Columnar(const Options& options, const tenon::CreateContext& context)
      : options_(options),
        filter_(options.where),
        walk_(
            options.windows,
            options.paths,
            [this](const tenon::DataFile& file) { return open(file); },
            [this](const tenon::DataWindow& window) { return awaited_in(window); },
            [this](const std::string& line) { host().log_warn(line); }) {
    for (const tenon::ColumnOptions& column : options_.columns) {
      for (const tenon::Column& other : columns_) {
        if (other.name() == column.name) {
          TENON_FAIL(TENON_INVALID,
                     "columnar.bad_column",
                     "two columns are named ",
                     tenon::json_string(column.name));
        }
      }
      columns_.emplace_back(with_type_in_text(column));
      for (const tenon::Condition& condition : options_.where) {
        filter_.set_unit(condition.column, columns_.back().unit_of(condition.column));
      }
    }
    const ShareOptions& share = options_.share;
    if (share.from >= share.to || share.to > share.of) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.bad_share",
                 "`share` has from ",
                 share.from,
                 ", to ",
                 share.to,
                 " and of ",
                 share.of,
                 "; expected from < to <= of");
    }
    if (options_.csv.separator.find_first_of("\"\r\n") != std::string::npos) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.bad_separator",
                 "`separator` is ",
                 tenon::json_string(options_.csv.separator),
                 "; expected a text without quotes and line breaks");
    }
    file_options_.format = options_.format;
    file_options_.separator = options_.csv.separator;
    file_options_.header = options_.csv.header;
    file_options_.missing_marks = options_.csv.missing_marks;
    file_options_.inferred = [this](const arrow::Schema& schema) {
      std::set<std::string> names;
      for (const tenon::Column& column : columns_) {
        names.merge(column.inferred_sources(schema));
      }
      return names;
    };
    rules_.columns = &columns_;
    rules_.filter = &filter_;
    rules_.open = [this](const tenon::DataFile& file) { return open(file); };
    rules_.batch_rows = options_.read_rows;
    rules_.shuffle_groups = options_.shuffle_groups;
    rules_.seed = context.seed;
    rules_.random = options_.shuffle_groups > 0 ? &context.host.random() : nullptr;
  }

  void describe(tenon::DatasetInfo& info) override {
    int64_t num_rows = 0;
    bool is_resolved = false;
    std::shared_ptr<const tenon::SourceFile> without_rows;
    for (const tenon::DataFile& file : walk_.start()) {
      listed_.push_back(file);
      if (is_resolved && options_.check == Check::kFirst) {
        continue;
      }
      if (const auto opened = added(file)) {
        num_rows += opened->num_rows();
        without_rows = without_rows == nullptr && !opened->has_rows() ? opened : without_rows;
        is_resolved = are_resolved();
      } else {
        listed_.pop_back();
      }
    }
    const std::vector<tenon::DataFile>& files = listed_;
    if (files.empty()) {
      throw *fault_;
    }
    for (tenon::Column& column : columns_) {
      if (!column.has_files() && without_rows != nullptr) {
        column.add(*without_rows->schema(), without_rows->name());
      }
    }
    for (tenon::Column& column : columns_) {
      column.resolve();
    }
    if (num_rows == 0 && options_.check == Check::kAll && !options_.windows.follow) {
      TENON_FAIL(TENON_INVALID,
                 "columnar.empty",
                 files.front().name,
                 files.size() > 1 ? " and the other files have" : " has",
                 " no rows to read");
    }
    for (tenon::Column& column : columns_) {
      column.declare(info);
    }
    info.shards(static_cast<uint32_t>(options_.shards));
    if (walk_.has_windows()) {
      info.windows();
    }
  }

  const void* extension(const char* id) override {
    return tenon::SourceFilesCalls<Columnar>::find(id);
  }
  void list_files(const tenon_window* window, tenon::SourceFileList& files) override {
    if (window == nullptr) {
      for (const tenon::DataFile& file : listed_) {
        list_file(file, files);
      }
      return;
    }
    OpenWindow& open = window_of(window);
    choose_files(open);
    if (open.window.has_changed) {
      return;  // bad_files decides about it
    }
    const std::vector<tenon::WindowPart>& parts = open.window.parts;
    for (size_t i = 0; i < parts.size(); ++i) {
      if (i == 0 || parts[i].file.name != parts[i - 1].file.name) {
        list_file(parts[i].file, files);
      }
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
    const tenon::DataWindow& opened = open_windows_.back().window;
    if (!out.skip && options_.empty_windows == EmptyWindow::kSkip && !walk_.is_known(opened)) {
      out.skip = is_empty(opened);
    }
    return true;
  }

  void reset(uint64_t epoch) override {
    walk_.reset(epoch);
    open_windows_.clear();
    epoch_ = epoch;
  }

  void seek(const tenon_window* window, uint32_t shard, const std::string* position) override {
    OpenWindow& open = window_of(window);
    for (OpenWindow& other : open_windows_) {
      if (&other != &open) {  // one window is read at a time: drop the read-ahead of others
        other.shards.clear();
        other.shard_spans.clear();
      }
    }
    if (open.shards.empty()) {
      prepare(open, position != nullptr);
    }
    TENON_CHECK(shard < open.shards.size(), "no shard ", shard);
    std::unique_ptr<tenon::ShardReader>& reader = open.shards[shard];
    if (reader == nullptr) {
      // Each shard, window and epoch has its own order.
      const uint64_t stream =
          tenon::mix_numbers({epoch_, window == nullptr ? 0 : window->id, shard});
      reader = std::make_unique<tenon::ShardReader>(rules_, open.shard_spans[shard], stream);
    }
    try {
      reader->seek(open.is_dropped ? nullptr : position);
    } catch (const tenon::Error& error) {
      if (std::string(error.id()) != "columnar.changed" || !skips_bad_files()) {
        throw;
      }
      leave_out_rest(open.window);
      reader = std::make_unique<tenon::ShardReader>(rules_, std::vector<tenon::RowSpan>(), 0);
      reader->seek(nullptr);
    }
  }

  // The host reads left_out for its summary, and problems before the first step.
  void snapshot(tenon::StateWriter& writer) override {
    walk_.memory().snapshot(writer);
    writer.put_bytes("units", tenon::units_of(columns_));
    for (size_t i = 0; i < problems_.size(); ++i) {
      const std::string at = "problems/" + std::to_string(i);
      writer.put_int((at + "/id").c_str(), static_cast<int64_t>(problems_[i].window.id));
      writer.put_bytes((at + "/label").c_str(), problems_[i].window.label);
      writer.put_bytes((at + "/why").c_str(), problems_[i].why);
    }
  }
  void load(const tenon::StateReader& reader) override {
    walk_.memory().load(reader);
    if (reader.has("units")) {
      tenon::check_units(columns_, reader.get_bytes("units"));
    }
  }

  bool next(const tenon_window* window,
            uint32_t shard,
            int64_t max_samples,
            tenon::BatchWriter& writer) override {
    const OpenWindow& open = window_of(window);
    TENON_CHECK(shard < open.shards.size() && open.shards[shard] != nullptr,
                "shard ",
                shard,
                " was read before seek()");
    return open.shards[shard]->next(max_samples, writer);
  }

 private:
  // The column with the type that another one declares for its source, for files without types.
  tenon::ColumnOptions with_type_in_text(tenon::ColumnOptions column) const {
    const std::vector<std::string> sources = tenon::named_sources(column);
    for (const tenon::ColumnOptions& other : options_.columns) {
      const std::vector<std::string> others = tenon::named_sources(other);
      if (other.type != tenon::ColumnType::kAuto && other.hash == tenon::StringHash::kNone &&
          std::find(others.begin(), others.end(), sources.front()) != others.end()) {
        column.type_in_text = other.type;
      }
    }
    return column;
  }

  static constexpr size_t kMostWindows = 4;  // kept open: the current window and its neighbors

  // Folders of partitions are part of the data. Remote file systems give no hash cheaply.
  static void list_file(const tenon::DataFile& file, tenon::SourceFileList& files) {
    const uint32_t flags = file.partitions.empty() ? 0 : TENON_SOURCE_NAME_COUNTS;
    if (file.file_system->type_name() == "local") {
      files.add(file.path, "", flags);
    } else {
      files.add_remote(file.name, file.size, "", flags);
    }
  }

  // A file's metadata if it is cached; else null.
  std::shared_ptr<const tenon::SourceFile> cached(const tenon::DataFile& file) {
    const std::lock_guard lock(mutex_);
    const auto known = open_files_.find(file.name);
    return known != open_files_.end() && known->second->file().size == file.size &&
                   known->second->file().changed == file.changed
               ? known->second
               : nullptr;
  }

  // A file's metadata, not checked against the columns.
  std::shared_ptr<const tenon::SourceFile> opened_file(const tenon::DataFile& file) {
    std::shared_ptr<const tenon::SourceFile> opened = cached(file);
    if (opened == nullptr) {
      opened = tenon::open_file(file, file_options_, filter_);
      const std::lock_guard lock(mutex_);
      open_files_[file.name] = opened;
    }
    return opened;
  }

  // A file's metadata, checked against the columns and cached for all shards.
  std::shared_ptr<const tenon::SourceFile> open(const tenon::DataFile& file) {
    if (std::shared_ptr<const tenon::SourceFile> known = cached(file)) {
      return known;
    }
    std::shared_ptr<const tenon::SourceFile> opened =
        tenon::open_file(file, file_options_, filter_);
    if (opened->has_rows()) {
      for (const tenon::Column& column : columns_) {
        column.check(*opened->schema(), opened->name());
      }
    }
    const std::lock_guard lock(mutex_);
    open_files_[file.name] = opened;
    return opened;
  }

  // A followed folder can grow without limit; the cache must not.
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
    TENON_CHECK(found != open_windows_.end(), "no open window ", window->id);
    return *found;
  }

  std::vector<tenon::RowSpan> spans(const tenon::DataWindow& window) {
    return tenon::spans_of(
        window, options_.share, [this](const tenon::DataFile& file) { return open(file); });
  }

  struct Problem {
    tenon::DataWindow window;
    std::string why;
  };

  bool are_resolved() const {
    return std::all_of(columns_.begin(), columns_.end(), [](const tenon::Column& column) {
      return column.is_resolved();
    });
  }

  // Opens a file and adds it to those that determine the columns. Null for a file that cannot be
  // opened or has other columns, if that is a problem of its window: the recipe may skip the
  // window.
  std::shared_ptr<const tenon::SourceFile> added(const tenon::DataFile& file) {
    try {
      std::shared_ptr<const tenon::SourceFile> opened = opened_file(file);
      if (opened->has_rows()) {  // an empty file of pandas has no types
        std::vector<tenon::Column> columns = columns_;
        for (tenon::Column& column : columns) {
          column.add(*opened->schema(), opened->name());
        }
        columns_.swap(columns);
      }
      return opened;
    } catch (const tenon::Error& error) {
      if (!walk_.has_windows() || options_.check == Check::kFirst) {
        throw;
      }
      const std::lock_guard lock(mutex_);
      open_files_.erase(file.name);
      fault_ = fault_.value_or(error);
      if (options_.windows.bad_files == tenon::OnFault::kFail) {
        problems_.push_back({walk_.window_of(file), error.what()});
      }
      return nullptr;
    }
  }

  bool skips_bad_files() const { return options_.windows.bad_files == tenon::OnFault::kSkip; }

  // Assigns the rows of a window to shards. `is_resumed`: to continue from a position.
  void prepare(OpenWindow& open, bool is_resumed) {
    const bool is_known = walk_.is_known(open.window);
    const auto num_shards = static_cast<size_t>(options_.shards);
    if (is_resumed && open.window.has_changed) {
      if (!skips_bad_files()) {
        TENON_FAIL(TENON_INVALID,
                   "columnar.changed",
                   "window ",
                   open.window.label,
                   ", in which the run stopped, has lost files that it had then (",
                   open.window.parts.front().file.name,
                   " and others remain or are new); restore them, or set `windows.bad_files` to "
                   "\"skip\" to skip the rest of the window");
      }
      leave_out_rest(open.window);
      open.is_dropped = true;
      open.shard_spans.resize(num_shards);
      open.shards.resize(num_shards);
      return;
    }
    choose_files(open);
    const std::vector<tenon::RowSpan> all = spans(open.window);
    if (all.empty() && !open.has_bad_files && !is_known) {
      fail_empty(open.window);
    }
    if (!is_known || open.window.has_changed) {
      walk_.opened(open.window);
    }
    open.shard_spans = tenon::assign_to_shards(all, num_shards, options_.deal_by);
    open.shards.resize(num_shards);
  }

  void leave_out_rest(const tenon::DataWindow& window) {
    walk_.leave_out(
        tenon::concat("the rest of window ",
                      window.label,
                      " is skipped: its files have changed since the run stopped in it"));
  }

  // Leaves out bad files of a window that was not opened before.
  void choose_files(OpenWindow& open) {
    tenon::DataWindow& window = open.window;
    if (open.is_chosen || !skips_bad_files() || (walk_.is_known(window) && !window.has_changed)) {
      return;
    }
    open.is_chosen = true;
    std::vector<tenon::WindowPart> kept;
    for (tenon::WindowPart& part : window.parts) {
      const std::string why = fault_of(part.file);
      if (why.empty()) {
        kept.push_back(std::move(part));
        continue;
      }
      open.has_bad_files = true;
      walk_.leave_out(tenon::concat(part.file.name,
                                    " is skipped",
                                    window.label.empty() ? "" : ", in window ",
                                    window.label,
                                    ": ",
                                    why));
    }
    window.parts = std::move(kept);
  }

  // Returns why a new window cannot be opened yet; "" if it can.
  std::string awaited_in(const tenon::DataWindow& window) {
    if (options_.windows.bad_files == tenon::OnFault::kWait) {
      for (const tenon::WindowPart& part : window.parts) {
        if (std::string why = fault_of(part.file); !why.empty()) {
          return why;
        }
      }
    }
    return options_.empty_windows == EmptyWindow::kWait && is_empty(window) ? "it has no rows" : "";
  }

  // Reads all rows of a file. Returns what fails; "" if nothing does.
  std::string fault_of(const tenon::DataFile& file) {
    const auto key = std::make_tuple(file.name, file.size, file.changed);
    const auto known = faults_.find(key);
    if (known != faults_.end()) {
      return known->second;
    }
    std::string fault;
    try {
      std::vector<tenon::RowSpan> rows;
      for (const tenon::RowGroup& group : open(file)->groups()) {
        rows.push_back({file, group.number, 0, group.rows});
      }
      tenon::ShardReader(rules_, std::move(rows), 0).read_all();
    } catch (const tenon::Error& error) {
      fault = error.what();
    }
    return faults_.emplace(key, fault).first->second;
  }

  // False if a file cannot be opened: that is an error of the window when it is read.
  bool is_empty(const tenon::DataWindow& window) {
    try {
      return num_rows_of(spans(window)) == 0;
    } catch (const tenon::Error&) {
      return false;
    }
  }

  [[noreturn]] void fail_empty(const tenon::DataWindow& window) const {
    TENON_FAIL(TENON_INVALID,
               "columnar.empty_window",
               window.parts.empty() ? options_.paths.front() : window.parts.front().file.name,
               window.label.empty() ? "" : tenon::concat(": window ", window.label),
               ": no rows left after `where` and `share`; set `empty_windows` to \"skip\" to skip "
               "such windows");
  }

  Options options_;
  tenon::RowFilter filter_;
  tenon::FileOptions file_options_;
  std::vector<tenon::Column> columns_;
  tenon::ShardRules rules_;
  tenon::WindowWalk walk_;
  std::vector<tenon::DataFile> listed_;  // files at the start
  std::deque<OpenWindow> open_windows_;
  uint64_t epoch_ = 0;
  std::vector<Problem> problems_;      // of files that existed when the run started
  std::optional<tenon::Error> fault_;  // of the first file that cannot be used
  // Results of fault_of(), by name, size and time of change.
  std::map<std::tuple<std::string, int64_t, int64_t>, std::string> faults_;
  std::mutex mutex_;  // guards the members below
  std::map<std::string, std::shared_ptr<const tenon::SourceFile>> open_files_;
};

}  // namespace

TENON_PLUGIN(Columnar)
