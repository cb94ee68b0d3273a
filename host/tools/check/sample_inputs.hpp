// SPDX-License-Identifier: Apache-2.0
//
// Random inputs for the ports of a loss or metric. Ports may leave their shapes open, so several
// guesses are tried until the component accepts one.
// Letters in comments: B samples, T positions, C classes.
// Threads: any.
#pragma once

#include <tenon/tensor.h>

#include "host/error/error.hpp"
#include "host/plugin/port_spec.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// Shapes of inputs whose port states none.
struct InputGuess {
  std::vector<int64_t> floating;  // of floating-point inputs
  std::vector<int64_t> integer;   // of integer inputs; their values are below 2
  bool is_any_integer;            // an input of any dtype is an integer, else floating-point
};

std::span<const InputGuess> input_guesses();

// The answers of a component to guesses that it does not accept.
class RefusedInputs {
 public:
  // Throws the error unless it is a status of the component. TENON_INVALID means that the shapes do
  // not match; other codes may be mistakes.
  void add(const Error& error);
  // Returns why no guess was accepted.
  //
  // Errors   the first one, if none had the code TENON_INVALID
  const std::string& reason() const;

 private:
  std::optional<Error> first_;
  std::string reason_;
};

// Inputs in the order of ports; undefined for optional ones.
using SampleInputs = std::vector<at::Tensor>;

// Values are in (0.1, 0.9), so that they are valid as probabilities, weights and logits.
SampleInputs make_inputs(const std::vector<Port>& ports,
                         const InputGuess& guess,
                         at::ScalarType floating,
                         std::mt19937_64& generator);

// A tensor of random values in (low, high).
at::Tensor random_tensor(const std::vector<int64_t>& shape,
                         at::ScalarType dtype,
                         double low,
                         double high,
                         std::mt19937_64& generator);

// True if both have the same shape, dtype and bits.
bool is_same_to_the_bit(const at::Tensor& a, const at::Tensor& b);

}  // namespace tenon
