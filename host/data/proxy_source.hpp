// SPDX-License-Identifier: Apache-2.0
//
// A plugin's dataset as a DataSource.
// Threads: as DataSource says.

#pragma once

#include "host/data/data_source.hpp"
#include "host/plugin/dataset_proxy.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace tenon {

class ProxySource final : public DataSource {
 public:
  explicit ProxySource(DatasetProxy proxy);

  const DatasetProxy& proxy() const noexcept { return proxy_; }

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
  void reset(uint64_t epoch) override;

 private:
  DatasetProxy proxy_;
  std::string name_;
  DataSourceInfo info_;
};

}  // namespace tenon
