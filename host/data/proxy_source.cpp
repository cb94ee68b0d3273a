// SPDX-License-Identifier: Apache-2.0

#include "host/data/proxy_source.hpp"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace tenon {
namespace {

BatchSchema schema_of(const DatasetInfo& info) {
  std::vector<FieldInfo> fields;
  fields.reserve(info.fields.size());
  for (const FieldSpec& field : info.fields) {
    fields.push_back({.name = field.name,
                      .dtype = field.dtype,
                      .flags = field.flags,
                      .axes = field.axes,
                      .pad = field.pad});
  }
  return std::make_shared<const std::vector<FieldInfo>>(std::move(fields));
}

const tenon_window* abi_of(const Window* window) {
  return window != nullptr ? window->abi() : nullptr;
}

}  // namespace

ProxySource::ProxySource(DatasetProxy proxy)
    : proxy_(std::move(proxy)),
      name_(proxy_.instance().identity().describe()),
      info_{.style = proxy_.info().style,
            .has_windows = proxy_.info().has_windows,
            .num_shards = proxy_.info().num_shards,
            .schema = schema_of(proxy_.info())} {}

int64_t ProxySource::size(const Window* window) {
  return proxy_.size(abi_of(window));
}

void ProxySource::read(const Window* window,
                       std::span<const int64_t> indices,
                       tenon_batch_writer& writer) {
  proxy_.read(abi_of(window), indices, writer);
}

bool ProxySource::next(const Window* window,
                       uint32_t shard,
                       int64_t max_samples,
                       tenon_batch_writer& writer) {
  return proxy_.next(abi_of(window), shard, max_samples, writer);
}

void ProxySource::seek(const Window* window,
                       uint32_t shard,
                       const std::optional<std::string>& position) {
  proxy_.seek(abi_of(window),
              shard,
              position ? std::as_bytes(std::span(*position)) : std::span<const std::byte>());
}

std::optional<Window> ProxySource::next_window() {
  return proxy_.next_window();
}

void ProxySource::reset(uint64_t epoch) {
  proxy_.reset(epoch);
}

}  // namespace tenon
