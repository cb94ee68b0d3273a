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

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <sched.h>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>
#include <xxhash.h>

#include "chat_file.hpp"
#include "chat_options.hpp"
#include "conversation.hpp"
#include "sample_encoder.hpp"
#include "token_store.hpp"

namespace tenon {
namespace {

constexpr size_t kShardBytes = size_t{32} << 20;  // of the files, about
constexpr int64_t kMaxMaxLength = int64_t{1} << 30;
constexpr char kFormatOfShards[] = "chat 1";  // changes with the meaning of shards

// A range of samples of one file.
struct ShardPlan {
  size_t file;
  size_t begin;
  size_t end;
};

size_t num_processors() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    return static_cast<size_t>(std::max(CPU_COUNT(&set), 1));
  }
  return 1;
}

// Calls body(i) for i in [0, n) on several threads.
//
// Errors   that of the lowest i
template <class Body>
void for_each_in_parallel(size_t n, Body&& body) {
  std::atomic<size_t> next{0};
  std::atomic<bool> has_failed{false};
  std::mutex mutex;
  size_t failed_at = n;
  std::exception_ptr failure;
  const auto work = [&] {
    // Tasks are taken in order, so those before a failed one are all done or running.
    while (!has_failed) {
      const size_t i = next++;
      if (i >= n) {
        return;
      }
      try {
        body(i);
      } catch (...) {
        has_failed = true;
        const std::lock_guard lock(mutex);
        if (i < failed_at) {
          failed_at = i;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(num_processors(), n); ++i) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) {
    thread.join();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

bool has_label(const std::vector<MarkedToken>& tokens, size_t begin, size_t end) {
  return std::any_of(tokens.begin() + static_cast<ptrdiff_t>(std::min(begin + 1, end)),
                     tokens.begin() + static_cast<ptrdiff_t>(end),
                     [](MarkedToken token) { return (token & kTrained) != 0; });
}

void add_row(TokenShard& shard, const std::vector<MarkedToken>& tokens, size_t begin, size_t end) {
  shard.tokens.insert(shard.tokens.end(),
                      tokens.begin() + static_cast<ptrdiff_t>(begin),
                      tokens.begin() + static_cast<ptrdiff_t>(end));
  shard.ends.push_back(static_cast<int64_t>(shard.tokens.size()));
}

void append_shard(TokenShard& shard, const TokenShard& more) {
  const auto before = static_cast<int64_t>(shard.tokens.size());
  shard.tokens.insert(shard.tokens.end(), more.tokens.begin(), more.tokens.end());
  for (const int64_t end : more.ends) {
    shard.ends.push_back(before + end);
  }
  shard.counts.unlabeled.add(more.counts.unlabeled);
  shard.counts.dropped.add(more.counts.dropped);
  shard.counts.cut.add(more.counts.cut);
  shard.counts.split.add(more.counts.split);
}

class Chat : public MapDataset {
 public:
  static constexpr const char* kType = "chat";
  static constexpr const char* kSummary = "chats of JSON files, with labels on the answers";
  using Options = ChatOptions;
  static void bind(OptionBinder<Options>& binder) {
    binder.field("files", &Options::files)
        .required()
        .non_empty()
        .min_items(1)
        .path()
        .doc("JSON lines or JSON lists, or patterns with *, ? and [...], expanded in name order");
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
        .doc("format of the samples; auto: by the keys of the first sample of each file");
    binder.field("template", &Options::chat_template)
        .path()
        .doc("file with a chat template (Jinja); null: that of the tokenizer");
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
        .doc(
            "folder for encoded samples; \"\": keep them in memory; null: chats in the cache "
            "folder "
            "of the user");
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
    if (options_.tools) {
      tools_text_ = read_text_file(*options_.tools);
      tools_ = tools_of_file();
    }
    encoder_.emplace(own_host_, tokenizer_, template_text);
    store_.emplace(make_store());
    report();
    for (ChatFile& file : files_) {
      file.forget();
    }
    const tenon_tokenizer_info tokenizer = tokenizer_.describe();
    pad_ = tokenizer.pad >= 0 ? tokenizer.pad : std::max<int64_t>(tokenizer.eos, 0);
    input_ids_ = info.field("input_ids", {"B", "T"}, TENON_I64, static_cast<double>(pad_));
    labels_ = info.field("labels", {"B", "T"}, TENON_I64, kIgnored);
    if (is_paired_) {
      position_ids_ = info.field("position_ids", {"B", "T"}, TENON_I64);
      segment_ids_ = info.field("segment_ids", {"B", "T"}, TENON_I64);
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
    int64_t* positions_BT = nullptr;
    int64_t* segments_BT = nullptr;
    if (is_paired_) {
      positions_BT = writer.add<int64_t>(position_ids_, {batch, longest});
      segments_BT = writer.add<int64_t>(segment_ids_, {batch, longest});
    }
    std::vector<MarkedToken> tokens;
    for (size_t b = 0; b < n; ++b) {
      int64_t at = static_cast<int64_t>(b) * longest;
      const int64_t end = at + longest;
      int64_t segment = 0;
      const auto mark = [&](int64_t size) {
        for (int64_t t = 0; is_paired_ && t < size; ++t) {
          positions_BT[at + t] = t;
          segments_BT[at + t] = segment;
        }
        at += size;
        ++segment;
      };
      for (size_t side = 0; side < rows_per_sample(); ++side) {
        tokens.clear();
        store_->read(static_cast<size_t>(indices[b]) * rows_per_sample() + side, tokens);
        const size_t size = tokens.size() - 1;
        for (size_t t = 0; t < size; ++t) {
          inputs_BT[at + static_cast<int64_t>(t)] = tokens[t] & ~kTrained;
          const MarkedToken target = tokens[t + 1];
          if ((target & kTrained) != 0) {
            labels_BT[at + static_cast<int64_t>(t)] = target & ~kTrained;
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
      ChatFile& file = files_.emplace_back(name);
      if (file.size() == 0) {
        TENON_FAIL(TENON_INVALID, "chat.empty", name, " has no samples");
      }
      const ChatFormat format = at_place(file, 0, [&] {
        return options_.format != ChatFormat::kAuto ? options_.format
                                                    : format_of(parse_sample(file.sample(0)));
      });
      const bool is_paired = format == ChatFormat::kPreference;
      if (files_.size() > 1 && is_paired != is_paired_) {
        TENON_FAIL(TENON_INVALID,
                   "chat.mixed_formats",
                   name,
                   " is in format ",
                   format_name(format),
                   ", and ",
                   files_.front().path(),
                   " is in format ",
                   format_name(formats_.front()),
                   "; pairs and single chats have different fields, use one dataset for each");
      }
      is_paired_ = is_paired;
      formats_.push_back(format);
      plan_shards(files_.size() - 1);
    }
    if (is_paired_ && options_.overlong == Overlong::kSplit) {
      TENON_FAIL(TENON_INVALID,
                 "chat.cannot_split",
                 "`overlong` is \"split\", but the samples are pairs, which cannot be split; use "
                 "\"drop\", \"cut\" or \"error\"");
    }
  }

  void plan_shards(size_t file) {
    size_t begin = 0;
    size_t bytes = 0;
    for (size_t i = 0; i < files_[file].size(); ++i) {
      bytes += files_[file].sample(i).size();
      if (bytes >= kShardBytes || i + 1 == files_[file].size()) {
        plan_.push_back({file, begin, i + 1});
        begin = i + 1;
        bytes = 0;
      }
    }
  }

  Json tools_of_file() const {
    try {
      return tools_of(Json(tools_text_));
    } catch (const Error& error) {
      throw Error(error.code(), error.id(), *options_.tools + ": it is not a JSON list of tools");
    }
  }

  TokenStore make_store() {
    const auto make = [&](size_t i) { return make_shard(plan_[i]); };
    const std::string folder = options_.cache.value_or(default_cache_folder());
    if (folder.empty()) {
      return TokenStore::in_memory(plan_.size(), make);
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
        return TokenStore::in_memory(plan_.size(), make);
      }
    }
    return TokenStore::in_folder(own_host_, folder, key(), plan_.size(), make);
  }

  // Everything that decides the tokens.
  ShardKey key() const {
    struct Free {
      void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
    };
    const std::unique_ptr<XXH3_state_t, Free> state(XXH3_createState());
    XXH3_128bits_reset(state.get());
    const auto add = [&](std::string_view text) {
      const uint64_t size = text.size();
      XXH3_128bits_update(state.get(), &size, sizeof(size));
      XXH3_128bits_update(state.get(), text.data(), text.size());
    };
    add(kFormatOfShards);
    for (size_t i = 0; i < files_.size(); ++i) {
      add(files_[i].bytes());
      add(format_name(formats_[i]));
    }
    add(encoder_->template_text());
    add(tools_text_);
    add(concat(static_cast<int>(options_.train_on),
               ",",
               options_.max_length.value_or(0),
               ",",
               static_cast<int>(options_.overlong)));
    add(tokenizer_text_);
    const tenon_tokenizer_info info = tokenizer_.describe();
    add(concat(info.vocab_size, ",", info.bos, ",", info.eos));
    for (size_t i = 0; i < info.num_specials; ++i) {
      const tenon_special_token& special = info.specials_ref[i];
      add(concat(special.name, ",", special.text, ",", special.id));
    }
    for (const auto& [name, bytes] : tokenizer_.files()) {
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
    const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
    return {hash.low64, hash.high64};
  }

  // ---- encoding ----

  template <class Body>
  static std::invoke_result_t<Body&> at_place(const ChatFile& file, size_t i, Body&& body) {
    try {
      return body();
    } catch (const Error& error) {
      throw Error(error.code(), error.id(), file.place(i) + ": " + error.what());
    }
  }

  TokenShard make_shard(const ShardPlan& plan) const {
    constexpr size_t kTask = 32;  // samples
    const ChatFile& file = files_[plan.file];
    const size_t n = plan.end - plan.begin;
    std::vector<TokenShard> parts((n + kTask - 1) / kTask);
    for_each_in_parallel(parts.size(), [&](size_t task) {
      const size_t begin = plan.begin + task * kTask;
      for (size_t i = begin; i < std::min(begin + kTask, plan.end); ++i) {
        at_place(file, i, [&] { encode_sample(file, i, formats_[plan.file], parts[task]); });
      }
    });
    TokenShard shard;
    for (const TokenShard& part : parts) {
      append_shard(shard, part);
    }
    return shard;
  }

  void encode_sample(const ChatFile& file, size_t i, ChatFormat format, TokenShard& out) const {
    const Json sample = parse_sample(file.sample(i));
    std::vector<std::vector<MarkedToken>> rows;
    for (Conversation& chat : conversations_of(sample, format)) {
      if (chat.tools.is_null()) {
        chat.tools = tools_;
      }
      rows.push_back(encoder_->encode(chat, format, options_.train_on));
    }
    if (std::any_of(rows.begin(), rows.end(), [](const auto& row) {
          return !has_label(row, 0, row.size());
        })) {
      out.counts.unlabeled.add(file.place(i));
      return;
    }
    size_t longest = 0;
    for (const auto& row : rows) {
      longest = std::max(longest, row.size());
    }
    const auto limit = static_cast<size_t>(options_.max_length.value_or(INT64_MAX));
    if (longest <= limit) {
      for (const auto& row : rows) {
        add_row(out, row, 0, row.size());
      }
    } else {
      add_overlong(file.place(i), rows, limit, out);
    }
  }

  void add_overlong(const std::string& place,
                    const std::vector<std::vector<MarkedToken>>& rows,
                    size_t limit,
                    TokenShard& out) const {
    switch (options_.overlong) {
      case Overlong::kError: {
        size_t longest = 0;
        for (const auto& row : rows) {
          longest = std::max(longest, row.size());
        }
        TENON_FAIL(TENON_INVALID,
                   "chat.overlong",
                   "the sample has ",
                   longest,
                   " tokens (expected at most `max_length`, ",
                   limit,
                   "); set `overlong` to \"drop\", \"cut\" or \"split\"");
      }
      case Overlong::kDrop:
        out.counts.dropped.add(place);
        return;
      case Overlong::kCut:
        if (std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
              return !has_label(row, 0, std::min(limit, row.size()));
            })) {
          out.counts.unlabeled.add(place);
          return;
        }
        for (const auto& row : rows) {
          add_row(out, row, 0, std::min(limit, row.size()));
        }
        out.counts.cut.add(place);
        return;
      case Overlong::kSplit:
        // The last token of a part is the first of the next, so that each is a label once.
        for (size_t begin = 0; begin + 1 < rows[0].size(); begin += limit - 1) {
          const size_t end = std::min(begin + limit, rows[0].size());
          if (has_label(rows[0], begin, end)) {
            add_row(out, rows[0], begin, end);
          }
        }
        out.counts.split.add(place);
        return;
    }
  }

  // ---- the report ----

  void report() const {
    ShardCounts all;
    for (size_t file = 0, shard = 0; file < files_.size(); ++file) {
      size_t rows = 0;
      ShardCounts counts;
      for (; shard < plan_.size() && plan_[shard].file == file; ++shard) {
        rows += store_->rows_of_shard(shard);
        const ShardCounts& more = store_->counts_of_shard(shard);
        counts.unlabeled.add(more.unlabeled);
        counts.dropped.add(more.dropped);
        counts.cut.add(more.cut);
        counts.split.add(more.split);
      }
      if (rows == 0) {
        TENON_FAIL(TENON_INVALID,
                   "chat.no_labels",
                   files_[file].path(),
                   " has no label to train on: of ",
                   files_[file].size(),
                   " samples, ",
                   counts.unlabeled.samples,
                   " have none, and ",
                   counts.dropped.samples,
                   " are longer than `max_length`; check `train_on`, `max_length` and the chat "
                   "template");
      }
      all.unlabeled.add(counts.unlabeled);
      all.dropped.add(counts.dropped);
      all.cut.add(counts.cut);
      all.split.add(counts.split);
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
  std::vector<ChatFile> files_;
  std::vector<ChatFormat> formats_;  // of files
  std::vector<ShardPlan> plan_;
  bool is_paired_ = false;
  std::optional<SampleEncoder> encoder_;
  std::optional<TokenStore> store_;
  int64_t pad_ = 0;
  uint32_t input_ids_ = 0;
  uint32_t labels_ = 0;
  uint32_t position_ids_ = 0;
  uint32_t segment_ids_ = 0;
};

}  // namespace
}  // namespace tenon

TENON_PLUGIN(tenon::Chat)
