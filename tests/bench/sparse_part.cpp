// SPDX-License-Identifier: Apache-2.0
//
// The embedding tables of the `sparse` workload without the dense layers: 26 tables, rows of 16,
// batches of 2048. Each step looks up its ids, receives a gradient of ones, and updates the rows
// with row-wise Adagrad, a plugin that is loaded as in a run. It makes two passes and times the
// second.
//
// usage: sparse_part PLUGINS THREADS BATCHES      (a plugin folder; prints a line of JSON)
#include <tenon/model.h>

#include "host/embedding/table_set.hpp"
#include "host/error/status.hpp"
#include "host/plugin/plugin_loader.hpp"
#include "host/plugin/plugin_services.hpp"
#include "host/plugin/registry.hpp"
#include "host/tensor/op_service.hpp"
#include "host/tensor/parallel_service.hpp"
#include "host/tensor/random_service.hpp"
#include "host/tensor/tensor_service.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "random_clicks.hpp"

namespace tenon {
namespace {

constexpr int64_t kBatch = 2048;
constexpr uint32_t kDim = 16;

ServiceTable services() {
  ServiceTable table = {{TENON_STATUS_ID, status_service()},
                        {TENON_TENSOR_ID, tensor_service()},
                        {TENON_OP_ID, op_service()},
                        {TENON_PARALLEL_ID, parallel_service()},
                        {TENON_RANDOM_ID, random_service()}};
  add_plugin_services(table);
  return table;
}

std::string column_name(int64_t column) {
  return "c" + std::to_string(column);
}

std::unique_ptr<TableSet> make_tables(PluginRegistry& registry) {
  std::vector<TableUse> uses;
  std::vector<LookupUse> lookups;
  for (int64_t c = 0; c < RandomClicks::kColumns; ++c) {
    TableSpec spec;
    spec.name = column_name(c);
    spec.dim = kDim;
    spec.init = {.kind = TENON_INIT_UNIFORM, .a = -0.01, .b = 0.01};
    spec.seed = static_cast<uint64_t>(c);
    uses.push_back({.spec = std::move(spec),
                    .optimizer = SparseOptimizerProxy(ComponentInstance::create(
                        registry.get("sparse_optimizer", "rowwise_adagrad"),
                        {.options_json = R"({"lr": 0.01, "eps": 1e-8})"})),
                    .lr = 0.01});
    lookups.push_back({.value = column_name(c),
                       .column = column_name(c),
                       .table = static_cast<size_t>(c),
                       .pooling = {.kind = TENON_POOL_NONE, .length = 0, .dim = kDim}});
  }
  ExecBase base;
  base.tensors = tensor_service();
  base.ops = op_service();
  return std::make_unique<TableSet>(std::move(uses), std::move(lookups), base);
}

std::vector<Batch> make_batches(int64_t num_batches) {
  const RandomClicks clicks(num_batches * kBatch);
  std::vector<FieldInfo> schema;
  for (int64_t c = 0; c < RandomClicks::kColumns; ++c) {
    FieldInfo info;
    info.name = column_name(c);
    info.dtype = TENON_I64;
    info.axes.resize(1);
    schema.push_back(std::move(info));
  }
  const auto shared = std::make_shared<const std::vector<FieldInfo>>(std::move(schema));
  std::vector<Batch> batches(static_cast<size_t>(num_batches));
  for (int64_t b = 0; b < num_batches; ++b) {
    Batch& batch = batches[static_cast<size_t>(b)];
    batch.schema = shared;
    batch.samples = kBatch;
    for (int64_t c = 0; c < RandomClicks::kColumns; ++c) {
      batch.fields.push_back(at::empty({kBatch}, at::kLong));
      auto* ids = batch.fields.back().mutable_data_ptr<int64_t>();
      for (int64_t i = 0; i < kBatch; ++i) {
        ids[i] = clicks.id(c, b * kBatch + i);
      }
    }
  }
  return batches;
}

void measure(const char* plugins, int64_t num_batches) {
  PluginRegistry registry(
      {.folders = {{plugins, "argument"}}, .services = services(), .vetting = Vetting::kNone});
  const std::vector<Batch> batches = make_batches(num_batches);
  const auto tables = make_tables(registry);
  const at::Tensor ones = at::ones({kBatch, int64_t{kDim}});
  double step_s = 0;
  uint64_t step = 0;
  for (int turn = 0; turn < 2; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    for (const Batch& batch : batches) {
      const CallPoint point{.step = ++step, .microbatch = 0, .is_train = true};
      const auto pass = tables->begin(&batch, point, TableSet::Lookup::kTrain);
      for (size_t l = 0; l < tables->size(); ++l) {
        const at::Tensor rows = pass->rows(l, {});
        pass->take_grad(l, ones);
      }
      tables->finish_gradients(1);
      tables->update(1, point);
      tables->end_step(step);
    }
    step_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
             static_cast<double>(num_batches);
  }
  int64_t rows = 0;
  for (size_t i = 0; i < tables->size(); ++i) {
    rows += tables->table(i).num_rows();
  }
  std::printf("{\"step_s\": %.9g, \"rows\": %lld}\n", step_s, static_cast<long long>(rows));
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: sparse_part PLUGINS THREADS BATCHES\n", stderr);
    return 2;
  }
  try {
    at::set_num_threads(std::atoi(argv[2]));
    const at::NoGradGuard no_grad;
    tenon::measure(argv[1], std::atoll(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::fflush(stdout);
  tenon::shutdown_plugins();
}
