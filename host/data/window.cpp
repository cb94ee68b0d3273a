// SPDX-License-Identifier: Apache-2.0
#include "host/data/window.hpp"

#include "host/error/utf8.hpp"

#include <utility>

namespace tenon {

Window::Window(const tenon_window& window) {
  auto data = std::make_shared<Data>();
  // A label can be the name of a file, which may have any bytes; records and summaries need UTF-8.
  data->label = as_utf8(window.label_ref != nullptr ? window.label_ref : "");
  data->abi = window;
  data->abi.label_ref = data->label.c_str();
  data_ = std::move(data);
}

}  // namespace tenon
