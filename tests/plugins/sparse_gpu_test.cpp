// SPDX-License-Identifier: Apache-2.0
//
// The sparse optimizers on a GPU, where there is one: the rows must become those of the CPU. Their
// formulas, and the code for single elements that a GPU runs, are tested without one
// (row_kernels_test.cpp).
#include "host/device/compute_device.hpp"
#include "host/device/device.hpp"
#include "host/device/gpu_driver.hpp"
#include "host/error/error.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/plugins/row_rig.hpp"
#include "tests/support/paths.hpp"

namespace tenon {
namespace {

// On a GPU: the rows of a rig, and what an update of them needs.
class RowsOnGpu {
 public:
  RowsOnGpu(const RowRig& rig, const Gpu& gpu) : layout_(rig.layout()), gpu_(&gpu) {
    std::vector<int64_t> addresses;
    for (const auto& block : rig.bytes()) {
      blocks_.push_back(at::from_blob(const_cast<unsigned char*>(block.data()),
                                      {static_cast<int64_t>(block.size())},
                                      at::kByte)
                            .to(gpu.device()));
      addresses.push_back(reinterpret_cast<int64_t>(blocks_.back().data_ptr()));
    }
    addresses_ = at::tensor(addresses, at::kLong).to(gpu.device());
    layout_.blocks = static_cast<void* const*>(addresses_.data_ptr());
  }

  void update(const SparseOptimizerProxy& optimizer,
              const RowUpdate& update,
              int64_t step,
              double lr,
              float found_inf) {
    const auto numbers = [&](const auto& values, at::ScalarType type) {
      return at::tensor(values, type).to(gpu_->device());
    };
    const at::Tensor rows = numbers(update.rows, at::kLong);
    const at::Tensor ids = numbers(update.ids, at::kLong);
    const at::Tensor counts = numbers(update.counts, at::kLong);
    const at::Tensor grads = numbers(update.grads, at::kFloat);
    const at::Tensor steps = numbers(std::vector<int64_t>{step}, at::kLong);
    const at::Tensor rate = numbers(std::vector<double>{lr}, at::kDouble);
    const at::Tensor found = numbers(std::vector<float>{found_inf}, at::kFloat);
    tenon_sparse_update_args args{};
    args.struct_size = sizeof args;
    args.layout = &layout_;
    args.n = update.rows.size();
    args.rows = rows.const_data_ptr<int64_t>();
    args.ids = ids.const_data_ptr<int64_t>();
    args.grads = grads.const_data_ptr<float>();
    args.counts = counts.const_data_ptr<int64_t>();
    args.step = steps.const_data_ptr<int64_t>();
    args.lr = rate.const_data_ptr<double>();
    args.found_inf = found.const_data_ptr<float>();
    args.seed = 77;
    tenon_exec exec = make_exec(optimizer.instance());
    exec.device = {TENON_CUDA, 0};
    exec.stream = gpu_->stream();
    optimizer.update(exec, args);
    at::zeros({1}, rate.options()).add_(rate).item<double>();  // waits
  }

  void copy_to(RowRig& rig) const {
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const at::Tensor block = blocks_[b].cpu();
      const auto* const data = block.const_data_ptr<uint8_t>();
      rig.set_bytes(b, {data, data + block.numel()});
    }
  }

 private:
  tenon_row_layout layout_;
  const Gpu* gpu_;
  std::vector<at::Tensor> blocks_;
  at::Tensor addresses_;
};

double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = 0;
  for (size_t j = 0; j < a.size(); ++j) {
    worst = std::max(worst, std::abs(static_cast<double>(a[j]) - b[j]));
  }
  return worst;
}

}  // namespace

TEST_CASE("a GPU updates rows as a CPU does", "[plugins][gpu]") {
  const GpuFiles files = gpu_files_of(host_program());
  const GpuDriver driver = ask_gpu_driver(files.driver);
  if (driver.num_gpus == 0) {
    TENON_SKIP(driver.problem);
  }
  if (!std::filesystem::exists(files.module)) {
    TENON_SKIP("this build has no CUDA module");
  }
  const ComputeDevice device = open_device("cuda", files);
  const std::vector<std::pair<std::string, std::string>> all = {
      {"sgd", R"({"momentum": 0.9})"},
      {"sgd", "{}"},
      {"adagrad", "{}"},
      {"rowwise_adagrad", R"({"occurrences": "mean"})"},
      {"adam", R"({"weight_decay": 0.1})"},
      {"adamw", "{}"},
      {"ftrl", R"({"l1": 0.01})"},
      {"lion", "{}"}};
  for (const auto& [type, options] : all) {
    const SparseOptimizerProxy optimizer(make_component("sparse_optimizer", type, options));
    if (!optimizer.info().runs_on_cuda) {
      TENON_SKIP("this build has no CUDA kernels of plugins");
    }
    for (const uint32_t dim : {1u, 12u, 100u}) {
      for (const uint32_t dtype : {TENON_F32, TENON_BF16}) {
        CAPTURE(type, options, dim, dtype);
        const RowRigOptions rows{.dim = dim, .num_rows = 300, .value_dtype = dtype, .shift = 4};
        RowRig on_cpu(optimizer, rows);
        RowRig on_gpu(optimizer, rows);
        RowsOnGpu gpu_rows(on_gpu, *device.gpu);
        for (int64_t step = 1; step <= 3; ++step) {
          std::vector<RowGradient> gradients;
          for (int64_t row = step % 2; row < 300; row += 2) {
            RowGradient one{row, {}, 1 + row % 3};
            for (uint32_t j = 0; j < dim; ++j) {
              one.grad.push_back(
                  static_cast<float>(std::cos(static_cast<double>(row * 7 + step + j))));
            }
            gradients.push_back(one);
          }
          on_cpu.update(gradients, 0.1);
          gpu_rows.update(optimizer, on_cpu.prepare(gradients, 0.1), step, 0.1, 0.0f);
        }
        gpu_rows.update(optimizer, on_cpu.prepare({{3, std::vector<float>(dim, 1)}}, 1), 4, 1, 1);
        gpu_rows.copy_to(on_gpu);
        // A sum in another order may round a bf16 to its neighbour.
        const double bound = dtype == TENON_F32 ? 1e-5 : 2e-2;
        for (int64_t row = 0; row < 300; ++row) {
          CHECK(difference(on_gpu.value(row), on_cpu.value(row)) < bound);
          for (size_t s = 0; s < optimizer.info().slots.size(); ++s) {
            CHECK(difference(on_gpu.slot(s, row), on_cpu.slot(s, row)) < bound);
          }
        }
      }
    }
  }
}

}  // namespace tenon
