// SPDX-License-Identifier: Apache-2.0
#include "host/train/pretrained/load_differences.hpp"

#include "host/json/bounded_json.hpp"
#include "host/plugin/weights_layout_proxy.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/text/formatted.hpp"
#include "host/text/name_pattern.hpp"
#include "host/train/weights/hf_names.hpp"

#include <algorithm>

namespace tenon {
namespace {

// Keys of config.json that say which tensors a model has, and of which shapes. The tensors
// themselves show these differences.
bool is_shape_key(const std::string& key) {
  static const std::set<std::string> keys = {"hidden_size",
                                             "intermediate_size",
                                             "layer_types",
                                             "moe_intermediate_size",
                                             "n_embd",
                                             "n_inner",
                                             "n_layer",
                                             "n_routed_experts",
                                             "num_experts",
                                             "num_hidden_layers",
                                             "num_local_experts",
                                             "tie_word_embeddings",
                                             "vocab_size"};
  return keys.contains(key);
}

// True if the shapes are those of matrices or larger, and differ in the number of rows alone.
bool differ_in_rows(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return a.size() == b.size() && a.size() > 1 && a.front() != b.front() &&
         std::equal(a.begin() + 1, a.end(), b.begin() + 1);
}

std::vector<std::string> names_that(const std::vector<std::string>& names, const char* what) {
  std::vector<std::string> lines;
  for (const std::string& name : names) {
    lines.push_back("'" + name + "'" + what);
  }
  return lines;
}

}  // namespace

std::string shown_lines(const std::vector<std::string>& lines, size_t num_shown) {
  std::string text;
  for (size_t i = 0; i < std::min(lines.size(), num_shown); ++i) {
    text += "\n  " + lines[i];
  }
  return lines.size() > num_shown ? formatted("{}\n  and {} more", text, lines.size() - num_shown)
                                  : text;
}

bool LoadDifferences::resizes(const std::string& weight) const {
  return matches_any(load_.resize, weight);
}

void LoadDifferences::add_shape(const std::string& tensor,
                                const std::string& weight,
                                const std::vector<int64_t>& there,
                                const std::vector<int64_t>& here,
                                bool is_longer,
                                bool is_folder) {
  if (is_longer) {
    longer_.push_back(weight);
    longer_rows_.emplace(there.front(), here.front());
  } else {
    has_other_shapes_ = true;
  }
  if (differ_in_rows(there, here) && (is_longer || is_folder)) {
    rows_.push_back(
        formatted("'{}' is {}, expected {}; without \"resize\", all its rows would keep their "
                  "initial values: \"exclude\" it if that is wanted",
                  tensor,
                  shape_text(there),
                  shape_text(here)));
  }
}

void LoadDifferences::compare_config(const ComponentInstance& model,
                                     const std::string& config,
                                     bool takes_all,
                                     std::vector<std::string>& cautions) {
  const auto proxy = WeightsLayoutProxy::of(model);
  if (!proxy.has_value()) {
    return;
  }
  if (!is_json_object(config)) {
    function_.emplace_back("its config.json is not a JSON object");
    return;
  }
  if (const auto method = quantization_of(config)) {
    function_.push_back("its weights are quantized (quantization_config: " + *method +
                        "); save them dequantized, by dequantize() and save_pretrained() of "
                        "transformers");
  }
  for (const LayoutDifference& difference : proxy->compare("hf", text_config(config))) {
    // The number of rows of a tensor that gets more rows.
    const bool is_resizing = std::ranges::any_of(resized_, [&](const auto& rows) {
      return difference.there == formatted("{}", rows.first) &&
             difference.here == formatted("{}", rows.second);
    });
    if (is_resizing || matches_any(load_.may_differ, difference.option)) {
      continue;
    }
    // A load that does not take everything may read parts of another model. What the parts compute
    // must be the same.
    const bool is_visible = is_shape_key(difference.option) && (!takes_all || !load_.is_strict);
    (is_visible ? cautions : function_)
        .push_back(difference.option + " is " + difference.here + " in the recipe, and " +
                   difference.there + " in config.json");
  }
}

void LoadDifferences::add_missing_config(bool takes_all, std::vector<std::string>& cautions) {
  constexpr char kLine[] = "it has no config.json: only names and shapes can be compared";
  if (!takes_all) {
    cautions.emplace_back(kLine);
  } else if (!matches_any(load_.may_differ, "config.json")) {
    function_.push_back(std::string(kLine) +
                        "; add the file, or set \"may_differ\": [\"config.json\"]");
    lacks_config_ = true;
  }
}

std::string LoadDifferences::lines(const LoadMisfits& misfits) const {
  constexpr size_t kShown = 8;  // of each kind
  std::string text = shown_lines(adapter_) + shown_lines(function_);
  if (!load_.is_strict) {
    return text + shown_lines(rows_, kShown);
  }
  text += shown_lines(misfits.unfit, kShown);
  text += shown_lines(names_that(misfits.kept, " is missing"), kShown);
  return text + shown_lines(names_that(misfits.left, " is not in the model"), kShown);
}

// An embedding, a head and its bias. Other tensors of more rows belong to another model.
bool LoadDifferences::is_vocabulary() const {
  constexpr size_t kMost = 3;
  return !longer_.empty() && longer_.size() <= kMost && longer_rows_.size() == 1 &&
         !has_other_shapes_;
}

std::string LoadDifferences::advice(const LoadMisfits& misfits) const {
  std::string text;
  if (is_vocabulary()) {
    std::string names;
    for (const std::string& name : longer_) {
      names += (names.empty() ? "\"" : ", \"") + name + "\"";
    }
    text += "\nset \"resize\": [" + names + "] to keep the rows and add rows for new tokens";
  }
  if (!lacks_config_ && function_.size() > (is_vocabulary() ? 1 : 0)) {
    text +=
        "\nchange /model/options as config.json says, or list keys in \"may_differ\" to compute "
        "another function than the source's";
  }
  if (!misfits.kept.empty() || !misfits.left.empty() ||
      (!misfits.unfit.empty() && !is_vocabulary())) {
    text +=
        "\nselect and rename with \"match\", \"exclude\" and \"rename\"; parameters that are not "
        "loaded keep their initial values";
  }
  return text;
}

}  // namespace tenon
