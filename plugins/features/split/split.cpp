// SPDX-License-Identifier: Apache-2.0
//
// Splits texts into lists of texts or numbers, with or without weights.
#include <tenon/cpp/plugin.hpp>

#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <vector>

#include "../inputs.hpp"

namespace {

enum class EntryType { kText, kIds, kF32 };

struct SplitOptions {
  std::string separator;
  std::optional<std::string> weights;
  EntryType type = EntryType::kText;
  bool skip_empty = true;
};

struct Entry {
  std::string_view text;
  float weight = 1;
};

class Split : public tenon::Feature {
 public:
  static constexpr const char* kType = "split";
  static constexpr const char* kSummary = "splits texts into lists";
  using Options = SplitOptions;
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("separator", &Options::separator)
        .required()
        .non_empty()
        .doc("text between two entries, for example \",\"");
    binder.field("weights", &Options::weights)
        .non_empty()
        .doc(
            "text between an entry and its weight, for example \":\" in \"k:0.5\"; null: entries "
            "have no weights");
    binder
        .choice("type",
                &Options::type,
                {{"text", EntryType::kText}, {"ids", EntryType::kIds}, {"f32", EntryType::kF32}})
        .doc("type of the entries; ids are i64");
    binder.field("skip_empty", &Options::skip_empty).doc("whether empty entries are skipped");
  }

  explicit Split(const Options& options) : options_(options) {
    TENON_CHECK(options_.weights != options_.separator, "`weights` must differ from `separator`");
  }

  std::vector<tenon::ColumnType> infer(const std::vector<tenon::ColumnType>& inputs) override {
    tenon::ColumnType type = tenon_features::one_input(inputs);
    TENON_CHECK(type.is_text && type.num_levels == 1, "requires a column with one text per sample");
    type.has_weights = options_.weights.has_value();
    if (options_.type == EntryType::kText) {
      type.num_levels = 2;
      return {type};
    }
    type.is_text = false;
    type.dtype = options_.type == EntryType::kIds ? TENON_I64 : TENON_F32;
    return {type};
  }

  void run(const tenon::Exec&, const tenon::FeatureColumns& columns) const override {
    const tenon::Column in = columns.input(0);
    tenon::ColumnOut out = columns.output(0);
    const int64_t samples = in.num_samples();
    const int64_t* const texts = in.offsets(0);
    const auto* const bytes = reinterpret_cast<const char*>(in.data<uint8_t>());
    int64_t* const ends = out.offsets(0, samples);
    std::vector<Entry> entries;
    ends[0] = 0;
    for (int64_t i = 0; i < samples; ++i) {
      add_entries({bytes + texts[i], static_cast<size_t>(texts[i + 1] - texts[i])}, i, entries);
      ends[i + 1] = static_cast<int64_t>(entries.size());
    }
    const auto n = static_cast<int64_t>(entries.size());
    if (options_.weights) {
      float* weights = out.weights(n);
      for (const Entry& entry : entries) {
        *weights++ = entry.weight;
      }
    }
    switch (options_.type) {
      case EntryType::kText:
        return write_texts(entries, out);
      case EntryType::kIds:
        return write_ids(entries, ends, out.values<int64_t>({n}));
      case EntryType::kF32:
        return write_numbers(entries, ends, out.values<float>({n}), "a number (f32)");
    }
  }

 private:
  void add_entries(std::string_view text, int64_t sample, std::vector<Entry>& entries) const {
    while (!text.empty()) {
      const size_t end = text.find(options_.separator);
      const std::string_view entry = text.substr(0, end);
      if (!entry.empty() || !options_.skip_empty) {
        entries.push_back(entry_of(entry, sample));
      }
      if (end == std::string_view::npos) {
        return;
      }
      text.remove_prefix(end + options_.separator.size());
      if (text.empty() && !options_.skip_empty) {
        entries.push_back(entry_of(text, sample));  // after the last separator
      }
    }
  }

  Entry entry_of(std::string_view text, int64_t sample) const {
    if (!options_.weights) {
      return {text};
    }
    // The last one, since a key may contain the same text.
    const size_t at = text.rfind(*options_.weights);
    Entry entry{text.substr(0, at)};
    if (at == std::string_view::npos ||
        !parse(text.substr(at + options_.weights->size()), entry.weight)) {
      fail(sample, text, "an entry, " + tenon::json_string(*options_.weights) + " and a weight");
    }
    return entry;
  }

  static void write_texts(const std::vector<Entry>& entries, tenon::ColumnOut& out) {
    int64_t* const ends = out.offsets(1, static_cast<int64_t>(entries.size()));
    ends[0] = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      ends[i + 1] = ends[i] + static_cast<int64_t>(entries[i].text.size());
    }
    auto* bytes = out.values<uint8_t>({ends[entries.size()]});
    for (const Entry& entry : entries) {
      if (!entry.text.empty()) {
        std::memcpy(bytes, entry.text.data(), entry.text.size());
      }
      bytes += entry.text.size();
    }
  }

  template <class T>
  static void write_numbers(const std::vector<Entry>& entries,
                            const int64_t* ends,
                            T* values,
                            const char* expected) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (!parse(entries[i].text, values[i])) {
        fail(sample_of(ends, i), entries[i].text, expected);
      }
    }
  }

  // Negative ids have the same bits as ids of 2^63 and above, so a batch has one of the two.
  static void write_ids(const std::vector<Entry>& entries, const int64_t* ends, int64_t* values) {
    write_numbers(entries, ends, values, "a 64-bit integer");
    std::optional<size_t> negative;
    std::optional<size_t> large;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (values[i] < 0) {
        std::optional<size_t>& first = trimmed(entries[i].text).front() == '-' ? negative : large;
        first = first.value_or(i);
      }
    }
    if (negative && large) {
      TENON_FAIL(TENON_INVALID,
                 "bad_value",
                 "sample ",
                 sample_of(ends, *negative),
                 " of the batch has the entry ",
                 shortened(entries[*negative].text),
                 ", but sample ",
                 sample_of(ends, *large),
                 " has ",
                 shortened(entries[*large].text),
                 "; a column cannot mix negative ids with ids of 2^63 and above");
    }
  }

  // `ends` are the offsets of the samples.
  static int64_t sample_of(const int64_t* ends, size_t entry) {
    int64_t sample = 0;
    while (ends[sample + 1] <= static_cast<int64_t>(entry)) {
      ++sample;
    }
    return sample;
  }

  static std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
      text.remove_prefix(1);
    }
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
      text.remove_suffix(1);
    }
    return text;
  }

  static std::string shortened(std::string_view text) {
    constexpr size_t kLongest = 40;
    return tenon::json_string(std::string(text.substr(0, kLongest)));
  }

  // Accepts blanks around the number and a plus sign. Ids of 2^63 and above keep their bits.
  template <class T>
  static bool parse(std::string_view text, T& out) {
    text = trimmed(text);
    if (text.size() > 1 && text.front() == '+' && text[1] != '-') {
      text.remove_prefix(1);
    }
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, out);
    if constexpr (std::is_same_v<T, int64_t>) {
      if (error == std::errc::result_out_of_range) {
        uint64_t bits = 0;
        const auto [last, wrong] = std::from_chars(text.data(), end, bits);
        out = static_cast<T>(bits);
        return wrong == std::errc() && last == end;
      }
    }
    return !text.empty() && error == std::errc() && stop == end;
  }

  [[noreturn]] static void fail(int64_t sample,
                                std::string_view text,
                                const std::string& expected) {
    TENON_FAIL(TENON_INVALID,
               "bad_value",
               "sample ",
               sample,
               " of the batch has the entry ",
               shortened(text),
               " (expected ",
               expected,
               ")");
  }

  SplitOptions options_;
};

}  // namespace

TENON_PLUGIN(Split)
