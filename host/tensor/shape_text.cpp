// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/shape_text.hpp"

namespace tenon {

std::string shape_text(c10::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (const int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

}  // namespace tenon
