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
#include <utility>
#include <vector>

#include "column.hpp"
#include "columnar_options.hpp"
#include "file_faults.hpp"
#include "row_filter.hpp"
#include "shard_reader.hpp"
#include "source_file.hpp"
#include "window_deal.hpp"
#include "window_walk.hpp"

namespace {

// A window and its shards, which are computed when the first one is read.
struct OpenWindow {
  tenon::DataWindow window;
  std::vector<std::vector<tenon::RowSpan>> shard_spans;
  std::vector<std::unique_ptr<tenon::ShardReader>> shards;
  bool is_dropped = false;  // its files have changed, and the rest of it is skipped
  bool is_chosen = false;   // by choose_files()
};

class Columnar : public tenon::StreamDataset, public tenon::SourceFiles, public tenon::Stateful {
 public:
  static constexpr const char* kType = "columnar";
  static constexpr const char* kSummary =
      "streams fixed and ragged columns of Parquet, ORC, Feather and CSV files, in windows";
  using Options = tenon::ColumnarOptions;
  static void bind(tenon::OptionBinder<Options>& binder) { Options::bind(binder); }

  Columnar(const Options& options, const tenon::CreateContext& context)
      : options_(options),
        filter_(options.where, options.columns),
        walk_(
            options.windows,
            options.paths,
            [this](const tenon::DataFile& file) { return open(file); },
            [this](const tenon::DataWindow& window) { return awaited_in(window); },
            [this](const std::string& line) { host().log_warn(line); }) {
    for (const tenon::ColumnOptions& column : options_.columns) {
      columns_.emplace_back(with_type_in_text(column));
    }
    options_.check_values();
    file_options_.format = options_.format;
    file_options_.separator = options_.csv.separator;
    file_options_.header = options_.csv.header;
    file_options_.missing_marks = options_.csv.missing_marks;
    for (const tenon::ColumnOptions& column : options_.columns) {
      const std::vector<std::string> sources = tenon::named_sources(column);
      file_options_.sources.insert(file_options_.sources.end(), sources.begin(), sources.end());
    }
    for (const tenon::Condition& condition : options_.where) {
      file_options_.sources.push_back(condition.column);
    }
    file_options_.inferred = [this](const arrow::Schema& schema) {
      std::set<std::string> names;
      for (const tenon::Column& column : columns_) {
        names.merge(column.inferred_sources(schema));
      }
      names.merge(filter_.inferred_sources(schema));
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
    const std::vector<tenon::DataFile> found = walk_.start();
    for (const tenon::DataFile& file : found) {
      filter_.add_folders(file.partitions);
    }
    for (const tenon::DataFile& file : found) {
      listed_.push_back(file);
      if (is_resolved && options_.check == tenon::Check::kFirst) {
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
      column.resolve(walk_.has_windows() ? tenon::Later::kFiles : tenon::Later::kNone);
      if (column.is_in_no_file()) {
        host().log_warn("no file has the column ",
                        tenon::json_string(column.name()),
                        " yet; its values are missing until one does");
      }
    }
    filter_.resolve();
    if (num_rows == 0 && options_.check == tenon::Check::kAll && !options_.windows.follow) {
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
    if (!out.skip && options_.empty_windows == tenon::EmptyWindow::kSkip &&
        !walk_.is_known(opened)) {
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
    int num_problems = 0;
    for (const Problem& problem : problems_) {
      if (!walk_.may_read(problem.file, problem.window)) {
        continue;
      }
      const std::string at = "problems/" + std::to_string(num_problems++);
      writer.put_int((at + "/id").c_str(), static_cast<int64_t>(problem.window.id));
      writer.put_bytes((at + "/label").c_str(), problem.window.label);
      writer.put_bytes((at + "/why").c_str(), problem.why);
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
    tenon::DataFile file;
    tenon::DataWindow window;
    std::string why;
  };

  bool are_resolved() const {
    return std::all_of(columns_.begin(), columns_.end(), [](const tenon::Column& column) {
      return column.is_resolved();
    });
  }

  // Opens a file and adds it to those that determine the columns. Null for a file that is skipped,
  // and for one that cannot be opened or has other columns, if that is a problem of its window: the
  // recipe may skip the window.
  std::shared_ptr<const tenon::SourceFile> added(const tenon::DataFile& file) {
    try {
      std::shared_ptr<const tenon::SourceFile> opened = opened_file(file);
      if (opened->has_rows()) {  // an empty file of pandas has no types
        std::vector<tenon::Column> columns = columns_;
        for (tenon::Column& column : columns) {
          column.add(*opened->schema(), opened->name());
        }
        columns_.swap(columns);
        warn_of_hidden_folders(*opened);
      }
      return opened;
    } catch (const tenon::Error& error) {
      const bool is_fault = tenon::is_file_fault(error);
      if (!(is_fault && skips_bad_files()) &&
          (!walk_.has_windows() || options_.check == tenon::Check::kFirst)) {
        throw;
      }
      const std::lock_guard lock(mutex_);
      open_files_.erase(file.name);
      fault_ = fault_.value_or(error);
      if (!is_fault || options_.windows.bad_files == tenon::OnFault::kFail) {
        const tenon::DataWindow window = walk_.window_of(file);
        problems_.push_back({file, window, error.what() + advice_on(error, window)});
      }
      return nullptr;
    }
  }

  // How to skip what is wrong: a file that cannot be read, or, if the file of another window has
  // determined the type that this window does not have, that window. The dataset does not know
  // which windows the recipe's `data` skips.
  std::string advice_on(const tenon::Error& error, const tenon::DataWindow& window) const {
    for (const tenon::Column& column : columns_) {
      if (!column.has_files() ||
          std::string(error.what()).find(column.first_file()) == std::string::npos) {
        continue;
      }
      const auto first = std::find_if(listed_.begin(), listed_.end(), [&](const auto& file) {
        return file.name == column.first_file();
      });
      const std::string label = first == listed_.end() ? "" : walk_.window_of(*first).label;
      if (!label.empty() && label != window.label) {
        return tenon::concat(" (window ",
                             label,
                             " determines the type, even if `data.skip_windows` has it; if that "
                             "window is wrong, skip it with `windows.skip_before`)");
      }
    }
    return tenon::is_file_fault(error) ? " (`windows.bad_files`: \"skip\" skips such files)" : "";
  }

  void warn_of_hidden_folders(const tenon::SourceFile& file) {
    for (const std::string& key : file.hidden_folders()) {
      const std::vector<std::string>& used = file_options_.sources;
      if (std::find(used.begin(), used.end(), key) != used.end() &&
          hidden_folders_.insert(key).second) {
        host().log_warn(file.name(),
                        ": the column ",
                        tenon::json_string(key),
                        " is read from the file, not from the folder of this name");
      }
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
    const bool is_left_out =
        !open.window.bad_files.empty() && options_.empty_windows == tenon::EmptyWindow::kSkip;
    if (all.empty() && !is_left_out && !is_known) {
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
    std::vector<tenon::WindowPart> kept;
    for (const tenon::WindowPart& part : window.parts) {
      const std::string why = faults_.of(part.file);
      if (why.empty()) {
        kept.push_back(part);
        continue;
      }
      window.bad_files.push_back(part.file);
      walk_.leave_out(tenon::concat(part.file.name,
                                    " is skipped",
                                    window.label.empty() ? "" : ", in window ",
                                    window.label,
                                    ": ",
                                    why));
    }
    window.parts = std::move(kept);
    open.is_chosen = true;
  }

  // Returns why a new window cannot be opened yet; "" if it can. Other errors are those of the
  // window when it is read, because the recipe may skip it.
  std::string awaited_in(const tenon::DataWindow& window) {
    if (options_.windows.bad_files == tenon::OnFault::kWait) {
      try {
        for (const tenon::WindowPart& part : window.parts) {
          if (std::string why = faults_.of(part.file); !why.empty()) {
            return why;
          }
        }
      } catch (const tenon::Error&) {
        return "";
      }
    }
    return options_.empty_windows == tenon::EmptyWindow::kWait && is_empty(window)
               ? "it has no rows"
               : "";
  }

  // False if a file cannot be opened: that is an error of the window when it is read. Files that
  // are skipped have no rows to wait for.
  bool is_empty(tenon::DataWindow window) {
    try {
      if (skips_bad_files() && options_.empty_windows == tenon::EmptyWindow::kWait) {
        std::vector<tenon::WindowPart>& parts = window.parts;
        parts.erase(
            std::remove_if(parts.begin(),
                           parts.end(),
                           [this](const auto& part) { return !faults_.of(part.file).empty(); }),
            parts.end());
      }
      return num_rows_of(spans(window)) == 0;
    } catch (const tenon::Error&) {
      return false;
    }
  }

  [[noreturn]] void fail_empty(const tenon::DataWindow& window) const {
    const bool has_bad_files = !window.bad_files.empty();
    TENON_FAIL(TENON_INVALID,
               "columnar.empty_window",
               has_bad_files          ? window.bad_files.front().name
               : window.parts.empty() ? options_.paths.front()
                                      : window.parts.front().file.name,
               window.label.empty() ? "" : tenon::concat(": window ", window.label),
               has_bad_files ? ": no rows left without the files that cannot be read; repair them, "
                               "or set"
                             : ": no rows left after `where` and `share`; set",
               " `empty_windows` to \"skip\" to skip such windows");
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
  tenon::FileFaults faults_{rules_};
  std::set<std::string> hidden_folders_;  // KEYs that were warned of
  std::mutex mutex_;                      // guards the members below
  std::map<std::string, std::shared_ptr<const tenon::SourceFile>> open_files_;
};

}  // namespace

TENON_PLUGIN(Columnar)
