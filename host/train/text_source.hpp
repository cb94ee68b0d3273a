// SPDX-License-Identifier: Apache-2.0
//
// Continues texts with the model in training, for hooks. The assembly of a run implements it.
// Threads: the train thread; every rank calls the same functions.
#pragma once

#include "host/hook/run_view.hpp"

#include <cstdint>

namespace tenon {

class TextSource {
 public:
  virtual ~TextSource() = default;

  // Checks that `generate` could continue the text. Does not run the model.
  // Errors  generate.*; template.*; errors of the plugins
  virtual void check(const TextRequest& request) = 0;
  // Continues the text with the values of evaluation. `step` is the last finished step. Call it
  // while no gradients are accumulated.
  // Errors  as check; distributed.failed
  virtual WrittenText generate(const TextRequest& request, uint64_t step) = 0;
};

}  // namespace tenon
