// SPDX-License-Identifier: Apache-2.0
//
// Chats as samples for a language model, with labels on the answers.
//
// `describe` encodes all samples on several threads, so that bad input is an error before the first
// step, and lengths are known. The tokens go to a cache folder, or stay in memory.
// Invariants: a sample has a label; labels are the next tokens; samples are numbered in the order
// of files and their samples. Threads: reads share immutable shards.
#define XXH_INLINE_ALL
#include <tenon/cpp/dataset.hpp>
#include <tenon/cpp/plugin.hpp>
#include <tenon/cpp/sample_places.hpp>
#include <tenon/cpp/source_files.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>
#include <xxhash.h>

#include "chat_file.hpp"
#include "chat_options.hpp"
#include "conversation.hpp"
#include "input_files.hpp"
#include "sample_encoder.hpp"
#include "shard_maker.hpp"
#include "tagged_template_files.hpp"
#include "tagged_templates.hpp"
#include "token_store.hpp"

namespace tenon {
namespace {

constexpr size_t kShardBytes = size_t{32} << 20;  // of the files, about
constexpr int64_t kMostBad = 1000;                // samples, after which no more are read
constexpr char kDateFile[] = "date.txt";
constexpr int64_t kMaxMaxLength = int64_t{1} << 30;
constexpr char kFormatOfShards[] = "chat 2";  // changes with the meaning of shards

// What a shard is made from.
struct ShardPlan {
  size_t file;
  SampleRange samples;
};

class Chat : public MapDataset, public SourceFiles, public SamplePlaces {
 public:
  static constexpr const char* kType = "chat";
  static constexpr const char* kSummary =
      "chats of JSON and Parquet files, with labels on the answers";
  using Options = ChatOptions;
  static void bind(OptionBinder<Options>& binder) {
    binder.field("files", &Options::files)
        .required()
        .non_empty()
        .min_items(1)
        .path()
        .doc(
            "JSON lines, JSON lists and Parquet files, or patterns with *, ? and [...], expanded "
            "in name order");
    binder.field("tokenizer", &Options::tokenizer)
        .component("tokenizer")
        .doc("tokenizer; it also has the special tokens and, usually, the chat template");
    binder
        .choice("format",
                &Options::format,
                {{"auto", ChatFormat::kAuto},
                 {"messages", ChatFormat::kMessages},
                 {"sharegpt", ChatFormat::kShareGpt},
                 {"alpaca", ChatFormat::kAlpaca},
                 {"prompt_completion", ChatFormat::kPromptCompletion},
                 {"preference", ChatFormat::kPreference}})
        .doc(
            "format of the samples; auto: by the keys of the first sample, or the columns, of each "
            "file");
    binder.field("template", &Options::chat_template)
        .path()
        .doc("file with a chat template (Jinja); null: that of the tokenizer");
    binder.field("tagged_template", &Options::tagged_template)
        .choices(tagged_template_names())
        .doc(
            "a template of Tenon with {% generation %} tags, for this family of models; null: "
            "none");
    binder.field("date", &Options::date)
        .non_empty()
        .doc(
            "date that the template prints (strftime_now), YYYY-MM-DD; null: the day on which the "
            "cache was built");
    bind_special_tokens(binder, "of prompt and completion texts");
    binder.field("ignore", &Options::ignore)
        .non_empty()
        .doc("keys of samples and messages to leave out");
    binder
        .choice("bad_samples",
                &Options::bad_samples,
                {{"error", BadSamples::kError}, {"skip", BadSamples::kSkip}})
        .doc("what becomes of samples with errors; skip: dropped, and counted in the log");
    binder
        .choice("train_on",
                &Options::train_on,
                {{"auto", TrainOn::kAuto},
                 {"assistant", TrainOn::kAssistant},
                 {"last", TrainOn::kLast},
                 {"completion", TrainOn::kCompletion},
                 {"all", TrainOn::kAll}})
        .doc(
            "text with labels; auto: completion if the format has a prompt and a completion, else "
            "assistant");
    binder.field("max_length", &Options::max_length)
        .min(2)
        .max(kMaxMaxLength)
        .doc("maximum tokens of a sample; null: no limit");
    binder
        .choice("overlong",
                &Options::overlong,
                {{"drop", Overlong::kDrop},
                 {"cut", Overlong::kCut},
                 {"split", Overlong::kSplit},
                 {"error", Overlong::kError}})
        .doc("what becomes of samples with more than `max_length` tokens");
    binder.field("tools", &Options::tools)
        .path()
        .doc("JSON file with a list of tools for chats without \"tools\"; null: none");
    binder.field("cache", &Options::cache)
        .path()
        .doc(
            "folder for encoded samples; \"\": keep them in memory; null: chats in the cache "
            "folder "
            "of the user");
    binder.field("label_bytes", &Options::label_bytes)
        .doc("also give `label_bytes`, the bytes of text of each label; for bits_per_byte");
  }

  Chat(const Options& options, const CreateContext& context)
      : options_(options), tokenizer_(context.host, options.tokenizer), own_host_(context.host) {
    const char* text = nullptr;
    const auto& api = own_host_.require<tenon_options_api>(TENON_OPTIONS_ID);
    own_host_.check(api.get_json(context.options, "/tokenizer", &text));
    tokenizer_text_ = text;
    if (!tokenizer_.has_pieces()) {
      TENON_FAIL(
          TENON_UNSUPPORTED,
          "chat.no_pieces",
          "the tokenizer ",
          tokenizer_text_,
          " cannot keep special tokens in messages apart from those of the template (it lacks "
          "encode_pieces); use another tokenizer");
    }
  }

  void describe(DatasetInfo& info) override {
    open_files();
    std::optional<std::string> template_text;
    if (options_.chat_template) {
      template_text = read_text_file(*options_.chat_template);
    }
    if (options_.tagged_template) {
      TENON_CHECK(!options_.chat_template,
                  "`template` and `tagged_template` are both set; keep one");
      template_text = tagged_template_text(*options_.tagged_template);
    }
    if (options_.tools) {
      tools_text_ = read_text_file(*options_.tools);
      tools_ = tools_of_file();
    }
    const TokenizerFiles tokenizer_files = tokenizer_.files();
    encoder_.emplace(own_host_, tokenizer_, tokenizer_files, options_, template_text);
    for (const std::unique_ptr<ChatFile>& file : files_) {
      hashes_.push_back(hash_of(*file));
    }
    store_.emplace(make_store(tokenizer_files));
    report();
    for (const std::unique_ptr<ChatFile>& file : files_) {
      file->forget();
    }
    const tenon_tokenizer_info tokenizer = tokenizer_.describe();
    pad_ = tokenizer.pad >= 0 ? tokenizer.pad : std::max<int64_t>(tokenizer.eos, 0);
    input_ids_ = info.field("input_ids", {"B", "T"}, TENON_I64, static_cast<double>(pad_));
    labels_ = info.field("labels", {"B", "T"}, TENON_I64, kIgnored);
    if (options_.label_bytes) {
      label_bytes_ = info.field("label_bytes", {"B", "T"}, TENON_I64);
    }
    if (is_paired_) {
      position_ids_ = info.field("position_ids", {"B", "T"}, TENON_I64);
      segment_ids_ = info.field("segment_ids", {"B", "T"}, TENON_I64);
    }
  }

  const void* extension(const char* id) override {
    const void* const files = SourceFilesCalls<Chat>::find(id);
    return files != nullptr ? files : SamplePlacesCalls<Chat>::find(id);
  }
  std::string place_of(const tenon_window*, int64_t index) override {
    TENON_CHECK(0 <= index && index < size(nullptr), "sample ", index, " is out of range");
    size_t row = static_cast<size_t>(index) * rows_per_sample();
    size_t shard = 0;
    for (; row >= store_->rows_of_shard(shard); ++shard) {
      row -= store_->rows_of_shard(shard);
    }
    const auto& [number, samples] = plan_[shard];
    const std::string& path = files_[number]->path();
    if (!store_->counts_of_shard(shard).is_one_row_each()) {
      return concat(path, ", samples ", samples.begin + 1, " to ", samples.end);
    }
    // The places are not in memory any more.
    return open_chat_file(path, options_.ignore)->place(samples.begin + row / rows_per_sample());
  }
  void list_files(const tenon_window*, SourceFileList& files) override {
    for (size_t i = 0; i < files_.size(); ++i) {
      files.add(files_[i]->path(), hashes_[i]);
    }
    for (const std::optional<std::string>& file : {options_.chat_template, options_.tools}) {
      if (file) {
        files.add(*file);
      }
    }
  }

  int64_t size(const tenon_window*) override {
    return static_cast<int64_t>(store_->num_rows() / rows_per_sample());
  }

  void lengths(const tenon_window*, int64_t first, size_t n, int64_t* out) override {
    for (size_t i = 0; i < n; ++i) {
      out[i] = length_of(first + static_cast<int64_t>(i));
    }
  }

  void read(const tenon_window*, const int64_t* indices, size_t n, BatchWriter& writer) override {
    std::vector<int64_t> lengths(n);
    int64_t longest = 0;
    int64_t num_tokens = 0;
    for (size_t b = 0; b < n; ++b) {
      lengths[b] = length_of(indices[b]);
      longest = std::max(longest, lengths[b]);
      num_tokens += lengths[b];
    }
    const auto batch = static_cast<int64_t>(n);
    auto* const inputs_BT = writer.add<int64_t>(input_ids_, {batch, longest});
    auto* const labels_BT = writer.add<int64_t>(labels_, {batch, longest});
    std::fill_n(inputs_BT, batch * longest, pad_);
    std::fill_n(labels_BT, batch * longest, kIgnored);
    int64_t* bytes_BT = nullptr;
    if (options_.label_bytes) {
      bytes_BT = writer.add<int64_t>(label_bytes_, {batch, longest});
      std::fill_n(bytes_BT, batch * longest, 0);
    }
    int64_t* positions_BT = nullptr;
    int64_t* segments_BT = nullptr;
    if (is_paired_) {
      positions_BT = writer.add<int64_t>(position_ids_, {batch, longest});
      segments_BT = writer.add<int64_t>(segment_ids_, {batch, longest});
    }
    std::vector<MarkedToken> tokens;
    std::vector<uint32_t> bytes;
    for (size_t b = 0; b < n; ++b) {
      int64_t at = static_cast<int64_t>(b) * longest;
      const int64_t end = at + longest;
      int64_t segment = 0;
      const auto mark = [&](int64_t size) {
        for (int64_t t = 0; is_paired_ && t < size; ++t) {
          // Padding has no positions.
          positions_BT[at + t] = segment < 2 ? t : 0;
          segments_BT[at + t] = segment;
        }
        at += size;
        ++segment;
      };
      for (size_t side = 0; side < rows_per_sample(); ++side) {
        tokens.clear();
        bytes.clear();
        store_->read(static_cast<size_t>(indices[b]) * rows_per_sample() + side,
                     tokens,
                     options_.label_bytes ? &bytes : nullptr);
        const size_t size = tokens.size() - 1;
        for (size_t t = 0; t < size; ++t) {
          inputs_BT[at + static_cast<int64_t>(t)] = tokens[t] & ~kTrained;
          const MarkedToken target = tokens[t + 1];
          if ((target & kTrained) != 0) {
            labels_BT[at + static_cast<int64_t>(t)] = target & ~kTrained;
            if (bytes_BT != nullptr) {
              bytes_BT[at + static_cast<int64_t>(t)] = bytes[t + 1];
            }
          }
        }
        mark(static_cast<int64_t>(size));
      }
      mark(end - at);
    }
    writer.set_counts(batch, num_tokens);
    writer.set_lengths(lengths);
  }

 private:
  static constexpr int64_t kIgnored = -100;

  size_t rows_per_sample() const { return is_paired_ ? 2 : 1; }

  // Positions of a sample: its last token is only a label.
  int64_t length_of(int64_t sample) const {
    TENON_CHECK(0 <= sample && static_cast<size_t>(sample) < store_->num_rows() / rows_per_sample(),
                "sample ",
                sample,
                " is out of range");
    int64_t length = 0;
    for (size_t side = 0; side < rows_per_sample(); ++side) {
      length += static_cast<int64_t>(
                    store_->size_of(static_cast<size_t>(sample) * rows_per_sample() + side)) -
                1;
    }
    return length;
  }

  // ---- opening ----

  void open_files() {
    for (const std::string& name : expand_file_names(options_.files)) {
      const ChatFile& file = *files_.emplace_back(open_chat_file(name, options_.ignore));
      for (const std::string& key : file.unread_keys()) {
        problems_.unknown_keys[key].add(name);
      }
      if (file.size() == 0) {
        TENON_FAIL(TENON_INVALID, "chat.empty", name, " has no samples");
      }
      const ChatFormat format = at_place(file, 0, [&] {
        return options_.format != ChatFormat::kAuto ? options_.format : format_of(file.keys());
      });
      const bool is_paired = format == ChatFormat::kPreference;
      if (files_.size() > 1 && is_paired != is_paired_) {
        TENON_FAIL(TENON_INVALID,
                   "chat.mixed_formats",
                   name,
                   " is in format ",
                   format_name(format),
                   ", and ",
                   files_.front()->path(),
                   " is in format ",
                   format_name(formats_.front()),
                   "; pairs and single chats have different fields, use one dataset for each");
      }
      is_paired_ = is_paired;
      formats_.push_back(format);
      for (const SampleRange& part : file.parts(kShardBytes)) {
        plan_.push_back({files_.size() - 1, part});
      }
    }
    if (is_paired_ && options_.overlong == Overlong::kSplit) {
      TENON_FAIL(TENON_INVALID,
                 "chat.cannot_split",
                 "`overlong` is \"split\", but the samples are pairs, which cannot be split; use "
                 "\"drop\", \"cut\" or \"error\"");
    }
  }

  Json tools_of_file() const {
    try {
      return tools_of(Json(tools_text_));
    } catch (const Error& error) {
      throw Error(error.code(), error.id(), *options_.tools + ": it is not a JSON list of tools");
    }
  }

  TokenStore make_store(const TokenizerFiles& tokenizer_files) {
    const ShardMaker maker(options_, *encoder_, tools_);
    ShardSource source;
    source.num_shards = plan_.size();
    source.make = [&](size_t i) {
      const ShardPlan& plan = plan_[i];
      TokenShard shard = maker.make(*files_[plan.file], formats_[plan.file], plan.samples);
      problems_.add(shard.problems);
      if (problems_.num_bad >= kMostBad) {
        fail_with_problems();
      }
      return shard;
    };
    source.begin = [this](const std::string& building) { set_date(building); };
    source.end = [this] {
      if (!problems_.is_empty()) {
        fail_with_problems();
      }
    };
    const std::string folder = options_.cache.value_or(default_cache_folder());
    if (folder.empty()) {
      return TokenStore::in_memory(source);
    }
    if (!options_.cache) {
      // Nobody asked for the default folder, so a run without one goes on.
      std::error_code problem;
      std::filesystem::create_directories(folder, problem);
      if (problem || ::access(folder.c_str(), W_OK) != 0) {
        own_host_.log_warn(
            "cannot write to ",
            folder,
            ", so encoded chats stay in memory; set `cache` to a folder, or to \"\"");
        return TokenStore::in_memory(source);
      }
    }
    return TokenStore::in_folder(
        own_host_,
        folder,
        key(tokenizer_files),
        {.rows_of_sample = rows_per_sample(), .vocab_size = tokenizer_.describe().vocab_size},
        source);
  }

  // A folder of the cache keeps the date of its first day, so that a resumed run has its tokens.
  void set_date(const std::string& building) {
    if (options_.date || !encoder_->prints_date()) {
      return;
    }
    const std::string path = building + "/" + kDateFile;
    if (!std::filesystem::exists(path)) {
      const std::time_t now = std::time(nullptr);
      std::tm day{};
      localtime_r(&now, &day);
      char text[16];
      std::strftime(text, sizeof(text), "%Y-%m-%d", &day);
      const std::string part = path + ".part";  // so that no reader finds a part of the date
      std::ofstream file(part);
      file << text << std::flush;
      if (!file) {
        TENON_FAIL(TENON_IO, "chat.cache", "cannot write ", part, ": ", std::strerror(errno));
      }
      std::filesystem::rename(part, path);
    }
    encoder_->set_date(read_text_file(path));
  }

  [[noreturn]] void fail_with_problems() const {
    if (problems_.num_bad > 0) {
      const Error& first = problems_.bad.front();
      std::string message = first.what();
      if (problems_.num_bad > 1) {
        message += concat("; ", problems_.num_bad - 1, " more bad samples:");
        for (size_t i = 1; i < problems_.bad.size(); ++i) {
          message += std::string("\n  ") + problems_.bad[i].what();
        }
        message += problems_.num_bad > static_cast<int64_t>(problems_.bad.size()) ? "\n  ..." : "";
        message += "\nset `bad_samples` to \"skip\" to drop them";
      }
      throw Error(first.code(), first.id(), message);
    }
    std::string keys;
    std::string names = "[";
    for (const std::string& key : options_.ignore) {
      names += json_string(key) + ", ";
    }
    for (const auto& [key, count] : problems_.unknown_keys) {
      keys += (keys.empty() ? "" : ", ") + json_string(key) + " (first at " + count.first + ")";
      names += json_string(key) + ", ";
    }
    names.resize(names.size() - 2);
    throw Error(TENON_INVALID,
                "chat.unknown_keys",
                concat("nothing reads these keys of the samples: ",
                       keys,
                       "; if training does not need them, set \"ignore\": ",
                       names,
                       "]"));
  }

  struct FreeHash {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  using HashState = std::unique_ptr<XXH3_state_t, FreeHash>;

  static ShardKey digest_of(const HashState& state) {
    const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
    return {hash.low64, hash.high64};
  }

  // XXH128 of all bytes of a file.
  static std::string hash_of(const ChatFile& file) {
    const HashState state(XXH3_createState());
    XXH3_128bits_reset(state.get());
    file.read_bytes([&](std::string_view bytes) {
      XXH3_128bits_update(state.get(), bytes.data(), bytes.size());
    });
    return hash_text(digest_of(state));
  }

  // Everything that decides the tokens.
  ShardKey key(const TokenizerFiles& tokenizer_files) const {
    const HashState state(XXH3_createState());
    XXH3_128bits_reset(state.get());
    const auto add = [&](std::string_view text) {
      const uint64_t size = text.size();
      XXH3_128bits_update(state.get(), &size, sizeof(size));
      XXH3_128bits_update(state.get(), text.data(), text.size());
    };
    add(kFormatOfShards);
    for (size_t i = 0; i < files_.size(); ++i) {
      add(hashes_[i]);
      add(format_name(formats_[i]));
    }
    add(encoder_->template_text());
    add(encoder_->tool_template_text());
    add(tools_text_);
    add(options_.date.value_or(""));
    for (const std::string& ignored : options_.ignore) {
      add(ignored);
    }
    add(concat(static_cast<int>(options_.train_on),
               ",",
               options_.max_length.value_or(0),
               ",",
               static_cast<int>(options_.overlong),
               ",",
               static_cast<int>(options_.special_tokens),
               ",",
               static_cast<int>(options_.bad_samples)));
    if (options_.label_bytes) {
      add("label_bytes");
    }
    add(tokenizer_text_);
    const tenon_tokenizer_info info = tokenizer_.describe();
    add(concat(info.vocab_size, ",", info.bos, ",", info.eos));
    for (size_t i = 0; i < info.num_specials; ++i) {
      const tenon_special_token& special = info.specials_ref[i];
      add(concat(special.name, ",", special.text, ",", special.id));
    }
    for (const auto& [name, bytes] : tokenizer_files) {
      add(name);
      add(bytes);
    }
    // Other rules of the tokenizer, and another release of it.
    for (const Token& token : tokenizer_.encode_pieces(
             {{"Hello, W\xc3\xb6rld! 1234 \xe4\xbd\xa0\xe5\xa5\xbd\n\t  it's \xf0\x9f\x99\x82",
               false}},
             TENON_ENCODE_AROUND)) {
      add(concat(token.id, ",", token.begin, ",", token.end));
    }
    return digest_of(state);
  }

  // ---- the report ----

  void report() const {
    ShardCounts all;
    for (size_t file = 0, shard = 0; file < files_.size(); ++file) {
      size_t rows = 0;
      ShardCounts counts;
      for (; shard < plan_.size() && plan_[shard].file == file; ++shard) {
        rows += store_->rows_of_shard(shard);
        counts.add(store_->counts_of_shard(shard));
      }
      if (rows == 0) {
        TENON_FAIL(TENON_INVALID,
                   "chat.no_labels",
                   files_[file]->path(),
                   " has no label to train on: of ",
                   files_[file]->size(),
                   " samples, ",
                   counts.unlabeled.samples,
                   " have none, and ",
                   counts.dropped.samples,
                   " are longer than `max_length`; check `train_on`, `max_length` and the chat "
                   "template");
      }
      all.add(counts);
    }
    own_host_.log_debug("the longest chat has ",
                        all.length.number,
                        " tokens (",
                        all.length.place,
                        "), the largest token id is ",
                        all.id.number,
                        " (",
                        all.id.place,
                        ")");
    if (all.bad.samples > 0) {
      own_host_.log_warn("skipped ",
                         all.bad.samples,
                         " bad samples (`bad_samples`: \"skip\"); the first is ",
                         all.bad.first);
    }
    if (!options_.date && encoder_->prints_date() && !store_->folder().empty()) {
      own_host_.log_warn("the chat template prints the date ",
                         read_text_file(store_->folder() + "/" + kDateFile),
                         ", on which ",
                         store_->folder(),
                         " was built; set `date` to keep it if that folder is lost");
    }
    warn(all.unlabeled, "dropped", "without a label to train on");
    const std::string overlong =
        concat("with more than ", options_.max_length.value_or(0), " tokens (`max_length`)");
    warn(all.dropped, "dropped", overlong);
    warn(all.cut, "cut", overlong);
    warn(all.split, "split", overlong);
  }

  void warn(const SampleCount& count, const char* what, const std::string& why) const {
    if (count.samples > 0) {
      own_host_.log_warn(
          what, " ", count.samples, " samples ", why, "; the first is ", count.first);
    }
  }

  Options options_;
  TokenizerRef tokenizer_;
  Host own_host_;
  std::string tokenizer_text_;  // its type and options
  std::string tools_text_;
  Json tools_;
  std::vector<std::unique_ptr<ChatFile>> files_;
  std::vector<ChatFormat> formats_;  // of files
  std::vector<std::string> hashes_;  // of files: XXH128 of all bytes
  std::vector<ShardPlan> plan_;
  ShardProblems problems_;
  bool is_paired_ = false;
  std::optional<SampleEncoder> encoder_;
  std::optional<TokenStore> store_;
  int64_t pad_ = 0;
  uint32_t input_ids_ = 0;
  uint32_t labels_ = 0;
  uint32_t label_bytes_ = 0;
  uint32_t position_ids_ = 0;
  uint32_t segment_ids_ = 0;
};

}  // namespace
}  // namespace tenon

TENON_PLUGIN(tenon::Chat)
