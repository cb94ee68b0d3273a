// SPDX-License-Identifier: Apache-2.0
//
// A plugin's dataset as a DataSource: the only caller of its functions (dataset.h defines the
// contract).
// Threads: as in DataSource.
#pragma once

#include <tenon/dataset.h>

#include "host/data/data_source.hpp"
#include "host/data/length_table.hpp"
#include "host/plugin/instance.hpp"
#include "host/tensor/exec_frame.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tenon {

// All functions: Errors  PluginError; plugin.bad_result
class DatasetProxy final : public DataSource {
 public:
  // `mesh` is that of the run; it may be null in tests.
  //
  // Errors   plugin.missing_interface, plugin.bad_result, PluginError of `describe`
  // Threads  [main]
  explicit DatasetProxy(ComponentInstance instance, const tenon_mesh* mesh = nullptr);

  const ComponentInstance& instance() const noexcept { return instance_; }

  const std::string& name() const override { return name_; }
  const DataSourceInfo& info() const override { return info_; }
  int64_t size(const Window* window) override;
  void read(const Window* window,
            std::span<const int64_t> indices,
            tenon_batch_writer& writer) override;
  bool next(const Window* window,
            uint32_t shard,
            int64_t max_samples,
            tenon_batch_writer& writer) override;
  void seek(const Window* window,
            uint32_t shard,
            const std::optional<std::string>& position) override;
  std::optional<Window> next_window() override;
  // Does nothing for a map-style dataset without windows that lacks the function.
  void reset(uint64_t epoch) override;
  // Reads the entries left_out and problems of the dataset's state, if it has a state.
  SourceReport report() override;
  // Both read all lengths of a window at the first call of an epoch, and keep them.
  void lengths(const Window* window,
               std::span<const int64_t> indices,
               std::span<int32_t> out) override;
  LengthSummary length_summary(const Window* window) override;
  // Returns "" also if the dataset cannot find the place.
  std::string place_of(const Window* window, int64_t index) override;

 private:
  const LengthTable& lengths_of(const Window* window);

  ComponentInstance instance_;
  std::string name_;
  const tenon_dataset* table_;
  DataSourceInfo info_;
  ExecFrame frame_;  // of all calls, which may run concurrently
  bool has_reset_ = false;
  std::optional<LengthTable> lengths_;
  uint64_t window_of_lengths_ = 0;  // its id
};

}  // namespace tenon
