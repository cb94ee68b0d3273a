// SPDX-License-Identifier: Apache-2.0

#include "host/kernels/head_classes.hpp"

#include "host/kernels/head_rows.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tenon {
namespace {

// What each first copy of some classes has, in the order of classes; nothing if this rank has all.
std::vector<at::Tensor> of_first_copies(const HeadClasses& classes, const at::Tensor& mine) {
  if (!classes.call || classes.copies == classes.call->region->ranks->size()) {
    return {};
  }
  const std::vector<at::Tensor> all = of_all_ranks(*classes.call, mine);
  std::vector<at::Tensor> first;
  for (size_t r = 0; r < all.size(); r += static_cast<size_t>(classes.copies)) {
    first.push_back(all[r]);
  }
  return first;
}

}  // namespace

bool HeadClasses::adds_gradients() const {
  return !call || call->region->ranks->rank() % copies == 0;
}

HeadClasses head_classes(std::string_view op, int64_t num_rows, int64_t whole) {
  HeadClasses classes{.whole = whole, .copies = num_copies(op, num_rows, whole), .call = {}};
  if (const TensorRegionPtr& region = tensor_region()) {
    classes.call = begin_call(region, op);
    classes.first = region->ranks->rank() / classes.copies * num_rows;
  }
  return classes;
}

void add_classes_of_ranks(const HeadClasses& classes, at::Tensor& rows_NF) {
  const std::vector<at::Tensor> parts = of_first_copies(classes, rows_NF);
  if (parts.empty()) {
    return;
  }
  const auto num = static_cast<size_t>(rows_NF.size(0));
  auto* const rows = reinterpret_cast<HeadRow*>(rows_NF.mutable_data_ptr<double>());
  std::fill(rows, rows + num, HeadRow{});
  for (const at::Tensor& part : parts) {
    const auto* const more = reinterpret_cast<const HeadRow*>(part.const_data_ptr<double>());
    for (size_t i = 0; i < num; ++i) {
      add_row(rows[i], more[i]);
    }
  }
}

at::Tensor sums_of_ranks(const HeadClasses& classes, const at::Tensor& sums_FN) {
  const std::vector<at::Tensor> parts = of_first_copies(classes, sums_FN);
  if (parts.empty()) {
    return sums_FN;
  }
  at::Tensor all = parts[0].clone();
  for (size_t i = 1; i < parts.size(); ++i) {
    at::Tensor z_N = all[0];
    z_N.copy_(at::logaddexp(z_N, parts[i][0]));
    all.narrow(0, 1, 2).add_(parts[i].narrow(0, 1, 2));
  }
  return all;
}

}  // namespace tenon
