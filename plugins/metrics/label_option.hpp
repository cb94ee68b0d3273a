// SPDX-License-Identifier: Apache-2.0
//
// What metrics over labels have in common: which labels count, since when in training, and how
// logits of classes lie beside them.
#pragma once

#include <tenon/torch/metric.hpp>

#include <ATen/core/Tensor.h>

#include <cstdint>

struct LabelOptions {
  enum class InTraining : uint32_t {
    kNever = 0,
    kStep = TENON_PERIOD_STEP,
    kWindow = TENON_PERIOD_WINDOW,
    kRun = TENON_PERIOD_RUN
  };

  int64_t ignore_index = -100;
  InTraining train = InTraining::kNever;

  // As MetricInfo::periods takes them.
  uint32_t periods() const { return static_cast<uint32_t>(train); }
};

// Binds the members above for options that derive from LabelOptions.
template <class Options>
void bind_label_options(tenon::OptionBinder<Options>& binder) {
  binder.field("ignore_index", &Options::ignore_index)
      .doc("labels of this value count for nothing");
  using InTraining = LabelOptions::InTraining;
  binder
      .choice("train",
              &Options::train,
              {{"never", InTraining::kNever},
               {"step", InTraining::kStep},
               {"window", InTraining::kWindow},
               {"run", InTraining::kRun}})
      .doc("since when it counts in training: the last line of metrics, the window, the run");
}

// Errors  invalid, unless logits have the labels' axes and one more, for the classes
inline void check_class_axes(const at::Tensor& logits, const at::Tensor& labels) {
  TENON_CHECK(logits.dim() == labels.dim() + 1 &&
                  logits.sizes().slice(0, static_cast<size_t>(labels.dim())) == labels.sizes(),
              "logits of shape ",
              logits.sizes(),
              " and labels of shape ",
              labels.sizes(),
              " do not fit; logits must have the labels' axes and one more, for the classes");
}
