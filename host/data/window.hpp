// SPDX-License-Identifier: Apache-2.0
//
// A window of a dataset, as the dataset announced it.
// Threads: any; copies share immutable data.
#pragma once

#include <tenon/dataset.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace tenon {

// Owns a copy of the label. Copies are cheap.
class Window {
 public:
  explicit Window(const tenon_window& window);

  uint64_t id() const noexcept { return data_->abi.id; }
  const std::string& label() const noexcept { return data_->label; }
  int64_t size() const noexcept { return data_->abi.size; }  // samples; -1 if unknown
  bool is_skipped() const noexcept { return data_->abi.skip != 0; }
  // True if the dataset has no window yet; ask again after ask_again().
  bool is_pending() const noexcept { return data_->abi.wait_ms != 0; }
  std::chrono::milliseconds ask_again() const noexcept {
    return std::chrono::milliseconds(data_->abi.wait_ms);
  }

  // For calls to the dataset; valid while a copy of this window exists.
  const tenon_window* abi() const noexcept { return &data_->abi; }

 private:
  struct Data {
    std::string label;
    tenon_window abi;
  };
  // Shared with reads that still run when the next window starts.
  std::shared_ptr<const Data> data_;
};

}  // namespace tenon
