// SPDX-License-Identifier: Apache-2.0
#include "host/tools/check/sample_inputs.hpp"

#include "host/error/status.hpp"
#include "host/tensor/handle.hpp"

#include <ATen/Functions.h>

#include <cstring>

namespace tenon {
namespace {

constexpr int64_t kSamples = 4;    // B
constexpr int64_t kPositions = 3;  // T
constexpr int64_t kClasses = 5;    // C, and every other axis

int64_t size_of(const Axis& axis) {
  if (axis.size >= 0) {
    return axis.size;
  }
  return axis.name == "B" ? kSamples : axis.name == "T" ? kPositions : kClasses;
}

// Returns the dtype of an input for a port.
at::ScalarType dtype_for(const Port& port, const InputGuess& guess, at::ScalarType floating) {
  switch (port.dtype) {
    case TENON_CLASS_COMPUTE:
    case TENON_CLASS_PARAM:
    case TENON_CLASS_FLOAT:
      return floating;
    case TENON_CLASS_INTEGER:
      return at::kLong;
    case TENON_CLASS_ANY:
      return guess.is_any_integer ? at::kLong : floating;
    default:
      return scalar_type_of(port.dtype).value_or(floating);
  }
}

}  // namespace

void RefusedInputs::add(const Error& error) {
  const auto* const status = dynamic_cast<const StatusError*>(&error);
  if (status == nullptr || error.id() == "plugin.bad_result") {
    throw error;
  }
  if (!first_) {
    first_ = error;
  }
  if (status->code() == TENON_INVALID) {
    reason_ = error.message();
  }
}

const std::string& RefusedInputs::reason() const {
  if (first_ && reason_.empty()) {
    throw *first_;
  }
  return reason_;
}

std::span<const InputGuess> input_guesses() {
  static const std::vector<InputGuess> guesses = [] {
    struct Shapes {
      std::vector<int64_t> floating;
      std::vector<int64_t> integer;
    };
    const std::vector<Shapes> shapes = {
        {{kSamples, kClasses}, {kSamples}},
        {{kSamples}, {kSamples}},
        {{kSamples, kPositions, kClasses}, {kSamples, kPositions}},
        {{kSamples, kClasses}, {kSamples, kClasses}},
    };
    std::vector<InputGuess> all;
    for (const Shapes& shape : shapes) {
      all.push_back({shape.floating, shape.integer, true});
      all.push_back({shape.floating, shape.integer, false});
    }
    return all;
  }();
  return guesses;
}

at::Tensor random_tensor(const std::vector<int64_t>& shape,
                         at::ScalarType dtype,
                         double low,
                         double high,
                         std::mt19937_64& generator) {
  at::Tensor values = at::empty(shape, at::kDouble);
  std::uniform_real_distribution<double> distribution(low, high);
  auto* const data = values.mutable_data_ptr<double>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    data[i] = distribution(generator);
  }
  return values.to(dtype);
}

SampleInputs make_inputs(const std::vector<Port>& ports,
                         const InputGuess& guess,
                         at::ScalarType floating,
                         std::mt19937_64& generator) {
  SampleInputs inputs;
  for (const Port& port : ports) {
    if (port.is_optional()) {
      inputs.emplace_back();
      continue;
    }
    const at::ScalarType dtype = dtype_for(port, guess, floating);
    const bool is_floating = at::isFloatingType(dtype);
    std::vector<int64_t> shape = is_floating ? guess.floating : guess.integer;
    if (port.axes) {
      shape.clear();
      for (const Axis& axis : *port.axes) {
        shape.push_back(size_of(axis));
      }
    }
    if (is_floating) {
      inputs.push_back(random_tensor(shape, dtype, 0.1, 0.9, generator));
    } else {
      inputs.push_back(random_tensor(shape, at::kDouble, 0.0, 2.0, generator).floor().to(dtype));
    }
  }
  return inputs;
}

bool is_same_to_the_bit(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) {
    return false;
  }
  if (!a.defined()) {
    return true;
  }
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) {
    return false;
  }
  const at::Tensor x = a.detach().contiguous();
  const at::Tensor y = b.detach().contiguous();
  return std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

}  // namespace tenon
