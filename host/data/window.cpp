// SPDX-License-Identifier: Apache-2.0
#include "host/data/window.hpp"

#include <utility>

namespace tenon {

Window::Window(const tenon_window& window) {
  auto data = std::make_shared<Data>();
  data->label = window.label_ref != nullptr ? window.label_ref : "";
  data->abi = window;
  data->abi.label_ref = data->label.c_str();
  data_ = std::move(data);
}

}  // namespace tenon
