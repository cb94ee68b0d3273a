// SPDX-License-Identifier: Apache-2.0
//
// Reads the dataset `columnar` as a run does, through the C ABI and the loader threads, without
// training: batches of 2048 rows with all columns of the file that arrow_scan wrote.
//
// usage: columnar_scan PLUGINS FILE THREADS ROUNDS   prints a line of JSON: rows/s of the fastest
// round and CPU seconds per round, all threads
#include "host/data/data_stream.hpp"
#include "host/data/dataset_proxy.hpp"
#include "host/error/status.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/plugin_services.hpp"
#include "host/plugin/registry.hpp"
#include "host/tensor/random_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <string>

namespace tenon {
namespace {

void scan(const char* plugins, const char* file, int threads, int rounds) {
  ServiceTable services = {{TENON_STATUS_ID, status_service()},
                           {TENON_TENSOR_ID, tensor_service()},
                           {TENON_RANDOM_ID, random_service()}};
  add_plugin_services(services);
  PluginRegistry registry(
      {.folders = {{plugins, "argument"}}, .services = services, .vetting = Vetting::kNone});
  nlohmann::json columns = {{{"name", "dense"}, {"columns", {"i0..i12"}}}, {{"name", "clicks"}}};
  for (int c = 0; c < 26; ++c) {
    columns.push_back({{"name", "c" + std::to_string(c)}});
  }
  const nlohmann::json options = {
      {"paths", {file}}, {"columns", columns}, {"shards", threads}, {"deal_by", "row_groups"}};
  DatasetProxy source(ComponentInstance::create(registry.get("dataset", "columnar"),
                                                {.options_json = options.dump()}));
  DataStream stream(source, {.batch_size = 2048, .num_threads = threads, .prefetch = 2 * threads});
  double best = 0;
  int64_t rows = 0;
  const std::clock_t busy = std::clock();
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    rows = 0;
    stream.begin_epoch(static_cast<uint64_t>(round));
    while (stream.next_window()) {
      while (const std::optional<Batch> batch = stream.loader().next()) {
        rows += batch->samples;
      }
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    best = std::max(best, static_cast<double>(rows) / took.count());
  }
  std::printf("{\"rows\": %lld, \"rows_s\": %.0f, \"cpu_s\": %.3f}\n",
              static_cast<long long>(rows),
              best,
              static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC / rounds);
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: columnar_scan PLUGINS FILE THREADS ROUNDS\n");
    return 2;
  }
  try {
    tenon::scan(argv[1], argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
