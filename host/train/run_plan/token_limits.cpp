// SPDX-License-Identifier: Apache-2.0

#include "host/train/run_plan/token_limits.hpp"

#include "host/data/batch_builder.hpp"
#include "host/data/packed_source.hpp"
#include "host/error/error.hpp"
#include "host/plugin/tokenizer_proxy.hpp"
#include "host/recipe/component_options.hpp"
#include "host/text/formatted.hpp"
#include "host/train/components/recipe_tokenizer.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

namespace tenon {
namespace {

constexpr char kInputs[] = "input_ids";
constexpr char kLabels[] = "labels";
constexpr char kVocabulary[] = "V";

struct NamedLimit {
  std::string name;
  int64_t value;
};

std::optional<NamedLimit> position_limit(const ComponentUse& model) {
  const nlohmann::json options = options_of(model);
  for (const char* const name : {"max_position_embeddings", "n_positions", "n_ctx"}) {
    const auto found = options.find(name);
    if (found != options.end() && found->is_number_integer()) {
      return NamedLimit{name, found->get<int64_t>()};
    }
  }
  return std::nullopt;
}

std::optional<int64_t> vocabulary_of(const ModelGraph& graph) {
  for (const ModelValue& value : graph.values) {
    for (const Axis& axis : value.axes.value_or(std::vector<Axis>())) {
      if (axis.name == kVocabulary && axis.size >= 0) {
        return axis.size;
      }
    }
  }
  return std::nullopt;
}

bool has_field(const DataSource& source, std::string_view name) {
  return std::ranges::any_of(*source.info().schema, [name](const FieldInfo& field) {
    return field.name == name && field.dtype == TENON_I64;
  });
}

void check_lengths(const ComponentUse& model, DataSource& source) {
  // Positions that the samples have themselves start over within them.
  const bool has_positions = source.packed() == nullptr && has_field(source, "position_ids");
  const std::optional<NamedLimit> limit = position_limit(model);
  if (has_positions || !limit.has_value()) {
    return;
  }
  LengthSummary lengths = source.length_summary(nullptr);
  if (source.packed() != nullptr) {  // a longer sample becomes pieces, or is dropped
    lengths.longest = std::min(lengths.longest, source.packed()->options().length);
  }
  if (lengths.longest > limit->value) {
    throw Error(
        "data.beyond_model",
        formatted(
            "{}: sample {} (counted from 0){} has {} positions, but the model takes {} (`{}`); set "
            "`max_length` of the dataset to at most {}",
            lengths.source.empty() ? source.name() : lengths.source,
            lengths.sample,
            place_note(
                lengths.dataset != nullptr ? *lengths.dataset : source, nullptr, lengths.sample),
            lengths.longest,
            limit->value,
            limit->name,
            limit->value + 1));
  }
}

// The first entry of a field [B, T] that is no token of the model.
std::optional<int64_t> token_beyond(const at::Tensor* field, int64_t sample, int64_t vocabulary) {
  if (field == nullptr || field->dim() != 2) {
    return std::nullopt;
  }
  const auto* const row = field->const_data_ptr<int64_t>() + sample * field->size(1);
  const auto* const end = row + field->size(1);
  const auto* const found =
      std::find_if(row, end, [vocabulary](int64_t id) { return id >= vocabulary; });
  return found == end ? std::nullopt : std::optional(*found);
}

void check_ids(int64_t vocabulary, DataSource& source) {
  constexpr int64_t kRead = 64;  // samples
  const int64_t size = source.size(nullptr);
  std::vector<int64_t> indices;
  for (int64_t first = 0; first < size; first += kRead) {
    indices.resize(static_cast<std::size_t>(std::min(kRead, size - first)));
    std::iota(indices.begin(), indices.end(), first);
    BatchBuilder builder(source, static_cast<int64_t>(indices.size()));
    source.read(nullptr, indices, builder.writer());
    const Batch batch = builder.finish();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      for (const char* const name : {kInputs, kLabels}) {
        const auto id = token_beyond(batch.find(name), static_cast<int64_t>(i), vocabulary);
        if (id.has_value()) {
          throw Error("data.beyond_model",
                      formatted("{}: sample {} (counted from 0){} has the token {} in {}, but the "
                                "vocabulary of the "
                                "model has {} tokens; use the tokenizer of the model, or raise its "
                                "vocab_size and add rows by \"resize\" of its load",
                                source.name(),
                                indices[i],
                                place_note(source, nullptr, indices[i]),
                                *id,
                                name,
                                vocabulary));
        }
      }
    }
  }
}

}  // namespace

void check_token_limits(const Recipe& recipe,
                        const ComponentUse& model,
                        const ModelGraph& graph,
                        ComponentFactory& factory,
                        DataSource& source) {
  const DataSourceInfo& info = source.info();
  if (info.style != DatasetStyle::kMap || info.has_windows || !info.has_lengths ||
      !has_field(source, kInputs) || source.size(nullptr) == 0) {
    return;
  }
  check_lengths(model, source);
  const ComponentUse* const tokenizer = find_tokenizer(recipe);
  const std::optional<int64_t> vocabulary = vocabulary_of(graph);
  if (tokenizer == nullptr || !vocabulary.has_value()) {
    return;
  }
  if (TokenizerProxy(factory.nested(*tokenizer)).info().vocab_size > *vocabulary) {
    check_ids(*vocabulary, source);
  }
}

}  // namespace tenon
