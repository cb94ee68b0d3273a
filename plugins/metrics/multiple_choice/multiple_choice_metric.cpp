// SPDX-License-Identifier: Apache-2.0
//
// Accuracy on questions with choices. A row is a question with one of its choices; labels mark the
// tokens of the choice. The model answers with the choice whose tokens have the largest sum of
// log-probabilities (acc), or the largest sum divided by the number of characters of the choice
// (acc_norm). Of equal choices, the first is the answer.
//
// Source: lm-eval 0.4.13, ConfigurableTask.process_results; Gao et al., A framework for few-shot
// language model evaluation (2021).
//
// Shapes: B rows, T positions, N labels, V classes.
#include <tenon/cpp/plugin.hpp>
#include <tenon/torch/metric.hpp>

#include <ATen/ATen.h>

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace {

class MultipleChoice : public tenon::TorchMetric {
 public:
  static constexpr const char* kType = "multiple_choice";
  static constexpr const char* kSummary =
      "accuracy on questions with choices, by log-probabilities of the choices";
  struct Options {
    int64_t ignore_index = -100;
  };
  static void bind(tenon::OptionBinder<Options>& binder) {
    binder.field("ignore_index", &Options::ignore_index).doc("label value to ignore");
  }

  explicit MultipleChoice(const Options& options) : options_(options) {}

  // The fields of the dataset are optional: an evaluation set of another kind has no questions.
  void describe(tenon::MetricInfo& info) override {
    info.port("logits", {}, TENON_CLASS_FLOAT)
        .port("labels", {"B", "T"}, TENON_CLASS_INTEGER)
        .optional_port("question", {"B"}, TENON_CLASS_INTEGER)
        .optional_port("choice", {"B"}, TENON_CLASS_INTEGER)
        .optional_port("num_choices", {"B"}, TENON_CLASS_INTEGER)
        .optional_port("characters", {"B"}, TENON_CLASS_INTEGER)
        .optional_port("answer", {"B"}, TENON_CLASS_INTEGER)
        .state("choices", {0, kNumColumns}, TENON_F64, TENON_REDUCE_CONCAT)
        .metric("acc")
        .metric("acc_norm");
  }

  void update(const tenon::Exec&,
              const tenon::TorchInputs& inputs,
              tenon::TorchStates& states) override {
    for (size_t port = kQuestion; port <= kAnswer; ++port) {
      if (!inputs.has(port)) {
        return;
      }
    }
    std::vector<at::Tensor> columns(kNumColumns);
    columns[kScore] = scores_of(inputs[kLogits], inputs[kLabels]);
    for (size_t column = 0; column < kScore; ++column) {
      columns[column] = inputs[kQuestion + column].to(at::kDouble);
    }
    states.append(0, at::stack(columns, 1));
  }

  // Questions of which some choices were not evaluated are skipped.
  std::vector<double> compute(const tenon::Exec&, const tenon::TorchInputs& states) override {
    const at::Tensor rows = states[0].to(at::kCPU).contiguous();
    const double* row = rows.const_data_ptr<double>();
    std::map<double, std::map<double, const double*>> questions;  // by number: rows by choice
    for (int64_t i = 0; i < rows.size(0); ++i, row += kNumColumns) {
      questions[row[kQuestionColumn]][row[kChoice]] = row;
    }
    double num_questions = 0;
    double right = 0;
    double right_norm = 0;
    for (const auto& [question, choices] : questions) {
      const double* const any = choices.begin()->second;
      if (static_cast<double>(choices.size()) != any[kNumChoices]) {
        continue;
      }
      ++num_questions;
      const auto is_right = [&](bool by_character) {
        return best(choices, by_character) == any[kAnswerColumn] ? 1.0 : 0.0;
      };
      right += is_right(false);
      right_norm += is_right(true);
    }
    if (num_questions == 0) {
      const double none = std::numeric_limits<double>::quiet_NaN();
      return {none, none};
    }
    return {right / num_questions, right_norm / num_questions};
  }

 private:
  enum Port : size_t { kLogits, kLabels, kQuestion, kAnswer = 6 };
  // Columns of the state: the fields of the dataset in the order of the ports, then the score.
  enum Column : size_t {
    kQuestionColumn,
    kChoice,
    kNumChoices,
    kCharacters,
    kAnswerColumn,
    kScore,
    kNumColumns
  };

  // Returns the sum of the log-probabilities of the labels of each row. `logits` may be the
  // log-probabilities of the labels themselves.
  //
  // Shapes   logits [B, T, V] or [B, T]; labels [B, T]; result [B]
  at::Tensor scores_of(const at::Tensor& logits, const at::Tensor& labels_BT) const {
    TENON_CHECK(
        logits.dim() >= 2 && logits.dim() <= 3 && logits.sizes().slice(0, 2) == labels_BT.sizes(),
        "logits of shape ",
        logits.sizes(),
        " and labels of shape ",
        labels_BT.sizes(),
        " do not match; logits must have the labels' axes plus an axis of classes, or be "
        "log-probabilities of the labels");
    const at::Tensor is_label_BT = labels_BT.ne(options_.ignore_index);
    if (logits.dim() == 2) {
      return at::where(is_label_BT, logits.to(at::kDouble), 0.0).sum(1);
    }
    const std::vector<at::Tensor> at_N = at::where(is_label_BT);
    const at::Tensor logits_NV = logits.index({at_N[0], at_N[1]});
    const at::Tensor labels_N = labels_BT.index({at_N[0], at_N[1]}).to(at::kLong);
    const at::ScalarType dtype = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const at::Tensor logps_N =
        at::log_softmax(logits_NV, -1, dtype).gather(1, labels_N.unsqueeze(1)).squeeze(1);
    return at::zeros({labels_BT.size(0)}, logps_N.options().dtype(at::kDouble))
        .index_add(0, at_N[0], logps_N.to(at::kDouble));
  }

  // Returns the choice with the largest score.
  static double best(const std::map<double, const double*>& choices, bool by_character) {
    double answer = 0;
    double largest = -std::numeric_limits<double>::infinity();
    for (const auto& [choice, row] : choices) {
      const double score = by_character ? row[kScore] / row[kCharacters] : row[kScore];
      if (score > largest) {
        largest = score;
        answer = choice;
      }
    }
    return answer;
  }

  Options options_;
};

}  // namespace

TENON_PLUGIN(MultipleChoice)
