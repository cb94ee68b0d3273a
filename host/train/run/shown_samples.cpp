// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/shown_samples.hpp"

#include "host/data/batch_builder.hpp"
#include "host/error/error.hpp"
#include "host/error/utf8.hpp"
#include "host/plugin/tokenizer_proxy.hpp"
#include "host/text/counted.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/recipe_tokenizer.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>

namespace tenon {
namespace {

constexpr int64_t kIgnoredLabel = -100;

// Tokens that see each other.
struct ShownPart {
  std::vector<int32_t> ids;
  std::vector<bool> has_label;
};

[[noreturn]] void refuse_to_show(const std::string& why) {
  throw Error("data.cannot_show", "--show: " + why);
}

const int64_t* row_of(const Batch& batch, std::string_view name, int64_t length) {
  const at::Tensor* const field = batch.find(name);
  const bool fits = field != nullptr && field->dim() == 2 && field->size(1) >= length &&
                    field->scalar_type() == at::kLong;
  return fits ? field->const_data_ptr<int64_t>() : nullptr;
}

// The last token of a part is only a label.
std::vector<ShownPart> parts_of(const DataSource& source, const Batch& batch) {
  if (!batch.lengths.defined()) {
    refuse_to_show(source.name() + " reports no lengths of samples");
  }
  const int64_t length = batch.lengths.const_data_ptr<int64_t>()[0];
  const int64_t* const ids = row_of(batch, "input_ids", length);
  const int64_t* const labels = row_of(batch, "labels", length);
  if (ids == nullptr || labels == nullptr) {
    refuse_to_show(source.name() +
                   " has not the fields `input_ids` and `labels` [B, T] of whole numbers");
  }
  const int64_t* const segments = row_of(batch, "segment_ids", length);
  std::vector<ShownPart> parts;
  for (int64_t t = 0; t < length; ++t) {
    const bool begins = t == 0 || (segments != nullptr && segments[t] != segments[t - 1]);
    const bool ends = t + 1 == length || (segments != nullptr && segments[t + 1] != segments[t]);
    if (begins) {
      parts.emplace_back();
    }
    ShownPart& part = parts.back();
    part.ids.push_back(static_cast<int32_t>(ids[t]));
    part.has_label.push_back(!begins && labels[t - 1] != kIgnoredLabel);
    if (ends && labels[t] != kIgnoredLabel) {
      part.ids.push_back(static_cast<int32_t>(labels[t]));
      part.has_label.push_back(true);
    }
  }
  return parts;
}

// What the tokens [begin, end) add to the text of those before.
std::string added_text(const TokenizerProxy& tokenizer,
                       const std::vector<int32_t>& ids,
                       std::size_t begin,
                       std::size_t end) {
  const auto at = [&](std::size_t i) { return ids.begin() + static_cast<std::ptrdiff_t>(i); };
  const std::string before = begin == 0 ? "" : tokenizer.decode({ids.begin(), at(begin)});
  const std::string with = tokenizer.decode({ids.begin(), at(end)});
  return with.starts_with(before) ? with.substr(before.size())
                                  : tokenizer.decode({at(begin), at(end)});
}

// Knows special tokens by what their text becomes: other tokens.
class SpecialIds {
 public:
  explicit SpecialIds(const TokenizerProxy& tokenizer) : tokenizer_(tokenizer) {}

  bool has(int32_t id) {
    const auto [known, is_new] = known_.try_emplace(id, false);
    if (is_new && tokenizer_.has_pieces()) {
      const std::string text = tokenizer_.decode({id});
      if (text.size() > 1 && is_utf8(text)) {
        const auto encoded = [&](bool is_template) {
          return tokenizer_.encode({{text, is_template}}, false);
        };
        const std::vector<int32_t> in_template = encoded(true);
        known->second = in_template == std::vector<int32_t>{id} && encoded(false) != in_template;
      }
    }
    return known->second;
  }

 private:
  const TokenizerProxy& tokenizer_;
  std::map<int32_t, bool> known_;
};

// The text with [[ ]] around what is trained on, and { } around each special token, so that its
// text is not taken for it.
std::string text_of(const TokenizerProxy& tokenizer, SpecialIds& special, const ShownPart& part) {
  std::string text;
  bool was_trained = false;
  for (std::size_t begin = 0; begin < part.ids.size();) {
    const bool is_trained = part.has_label[begin];
    const bool is_special = special.has(part.ids[begin]);
    std::size_t end = begin + 1;
    while (end < part.ids.size() && !is_special && part.has_label[end] == is_trained &&
           !special.has(part.ids[end])) {
      ++end;
    }
    const std::string added = added_text(tokenizer, part.ids, begin, end);
    text += is_trained == was_trained ? "" : is_trained ? "[[" : "]]";
    text += is_special ? "{" + added + "}" : added;
    was_trained = is_trained;
    begin = end;
  }
  text += was_trained ? "]]" : "";
  return text.ends_with('\n') ? text : text + "\n";
}

Batch one_sample(DataSource& source, int64_t index) {
  BatchBuilder builder(source, 1);
  source.read(nullptr, std::span(&index, 1), builder.writer());
  return builder.finish();
}

}  // namespace

std::vector<std::string> shown_samples(const Recipe& recipe,
                                       ComponentFactory& factory,
                                       DataSource& source,
                                       int64_t count) {
  const ComponentUse* const use = find_tokenizer(recipe);
  if (use == nullptr) {
    refuse_to_show("no component of the recipe has a tokenizer");
  }
  if (source.info().style != DatasetStyle::kMap || source.info().has_windows) {
    refuse_to_show(source.name() +
                   " is a stream, or has windows; only samples with an index can be shown");
  }
  const ComponentInstance instance = factory.create(*use, "tokenizer");
  const TokenizerProxy tokenizer(instance);
  SpecialIds special(tokenizer);
  std::vector<std::string> shown;
  for (int64_t i = 0; i < std::min(count, source.size(nullptr)); ++i) {
    const std::vector<ShownPart> parts = parts_of(source, one_sample(source, i));
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const ShownPart& part = parts[p];
      const std::string of =
          parts.size() == 1 ? "" : formatted(" (part {} of {})", p + 1, parts.size());
      shown.push_back(formatted("--- sample {}{}: {}, {} with labels\n",
                                i + 1,
                                of,
                                counted(part.ids.size(), "token"),
                                std::count(part.has_label.begin(), part.has_label.end(), true)) +
                      text_of(tokenizer, special, part));
    }
  }
  return shown;
}

}  // namespace tenon
