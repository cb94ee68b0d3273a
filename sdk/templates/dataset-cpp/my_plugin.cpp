// SPDX-License-Identifier: Apache-2.0
//
// The lines of a text file as samples for a language model: a byte is a token. Shorter lines are
// padded, longer ones are truncated.
//
// Map style: samples are numbered, and the host draws their order. The dataset has no position, so
// it has no state to save.
// Threads: reads share the open file and the list of lines, which do not change.
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/source_files.hpp>
#include <tenon/cpp/stable_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace {

class MyPlugin : public tenon::MapDataset, public tenon::SourceFiles {
 public:
  static constexpr const char* kType = "my_plugin";
  static constexpr const char* kSummary = "lines of a text file, a token per byte";

  struct Options {
    std::string path;
    int64_t max_length = 128;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("path", &Options::path).required().non_empty().path().doc("text file");
    binder.field("max_length", &Options::max_length)
        .min(1)
        .max(1 << 20)
        .doc("tokens per sample; longer lines are truncated");
  }

  explicit MyPlugin(const Options& options) : options_(options) {}

  // Opens the data. The constructor must not: the host creates an instance of each component once
  // with default options, to try the plugin.
  void describe(tenon::DatasetInfo& info) override {
    file_.emplace(options_.path, "my_plugin");
    std::string text(static_cast<size_t>(file_->size()), '\0');
    file_->read(0, text.size(), text.data());
    find_lines(text);
    if (lines_.empty()) {
      TENON_FAIL(TENON_INVALID, "my_plugin.empty", file_->path(), " has no line with text");
    }
    input_ids_ = info.field("input_ids", {"B", tenon::Axis("T", options_.max_length)}, TENON_I64);
    labels_ = info.field("labels", {"B", tenon::Axis("T", options_.max_length)}, TENON_I64, -100);
  }

  int64_t size(const tenon_window*) override { return static_cast<int64_t>(lines_.size()); }

  // A resume notices if these files have changed.
  const void* extension(const char* id) override {
    return tenon::SourceFilesCalls<MyPlugin>::find(id);
  }
  void list_files(const tenon_window*, tenon::SourceFileList& files) override {
    files.add(options_.path);
  }

  // The label of each byte is the byte after it. Labels of -100 are ignored.
  void read(const tenon_window*,
            const int64_t* indices,
            size_t n,
            tenon::BatchWriter& writer) override {
    const auto batch = static_cast<int64_t>(n);
    const int64_t length = options_.max_length;
    auto* inputs_BT = writer.add<int64_t>(input_ids_, {batch, length});
    auto* labels_BT = writer.add<int64_t>(labels_, {batch, length});
    std::fill_n(inputs_BT, batch * length, 0);
    std::fill_n(labels_BT, batch * length, -100);
    int64_t num_tokens = 0;
    for (int64_t b = 0; b < batch; ++b) {
      const Line& line = lines_.at(static_cast<size_t>(indices[b]));
      const int64_t tokens = std::min(line.size - 1, length);
      std::string bytes(static_cast<size_t>(tokens) + 1, '\0');
      file_->read(line.offset, bytes.size(), bytes.data());
      for (int64_t t = 0; t < tokens; ++t) {
        inputs_BT[b * length + t] = static_cast<unsigned char>(bytes[t]);
        labels_BT[b * length + t] = static_cast<unsigned char>(bytes[t + 1]);
      }
      num_tokens += tokens;
    }
    file_->check_unchanged(0);
    writer.set_counts(batch, num_tokens);
  }

 private:
  struct Line {
    int64_t offset; /* in bytes */
    int64_t size;   /* in bytes, with the line break */
  };

  // Lines of at least one byte. A last line without a line break counts if it has two.
  void find_lines(const std::string& text) {
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
      if (end - begin > 1) {
        lines_.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end - begin)});
      }
      begin = end;
    }
  }

  Options options_;
  std::optional<tenon::StableFile> file_;
  std::vector<Line> lines_;
  uint32_t input_ids_ = 0;
  uint32_t labels_ = 0;
};

}  // namespace

TENON_PLUGIN(MyPlugin)
