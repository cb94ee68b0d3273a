// SPDX-License-Identifier: Apache-2.0
//
// Shared by metrics over labels: the ignored label, the training period, and the shape check of
// class logits.
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

  // In the form of MetricInfo::periods.
  uint32_t periods() const { return static_cast<uint32_t>(train); }
};

// Binds the members above, for options that derive from LabelOptions.
template <class Options>
void bind_label_options(tenon::OptionBinder<Options>& binder) {
  binder.field("ignore_index", &Options::ignore_index).doc("label value to ignore");
  using InTraining = LabelOptions::InTraining;
  binder
      .choice("train",
              &Options::train,
              {{"never", InTraining::kNever},
               {"step", InTraining::kStep},
               {"window", InTraining::kWindow},
               {"run", InTraining::kRun}})
      .doc(
          "start of the training metric: since the last record (step), window or run; never: "
          "evaluation only");
}

// Errors   invalid unless logits have the labels' axes plus a last axis of classes
inline void check_class_axes(const at::Tensor& logits, const at::Tensor& labels) {
  TENON_CHECK(logits.dim() == labels.dim() + 1 &&
                  logits.sizes().slice(0, static_cast<size_t>(labels.dim())) == labels.sizes(),
              "logits of shape ",
              logits.sizes(),
              " and labels of shape ",
              labels.sizes(),
              " do not match; logits must have the labels' axes plus a last axis of classes");
}
