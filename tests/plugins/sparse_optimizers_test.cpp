// SPDX-License-Identifier: Apache-2.0
//
// The sparse optimizers against PyTorch's, or against their papers' formulas in fp64:
// tests/parity/sparse_optim_golden.py wrote the values, and says how. Then what the contract
// (draft/sparse_optimizer.h) asks of each of them.
#include "host/tensor/philox.hpp"

#include <c10/util/BFloat16.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/plugins/made_component.hpp"
#include "tests/plugins/row_rig.hpp"
#include "tests/support/paths.hpp"

namespace {

using tenon::RowGradient;
using tenon::RowRig;
using tenon::RowRigOptions;
using tenon::SparseOptimizerProxy;

SparseOptimizerProxy make_optimizer(const std::string& type, const std::string& options = "{}") {
  return SparseOptimizerProxy(tenon::make_component("sparse_optimizer", type, options));
}

// Of each formula one, with options that let all of it count.
const std::vector<std::pair<std::string, std::string>>& all_optimizers() {
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"sgd", R"({"weight_decay": 0.1, "lr": 0.1})"},
      {"sgd", R"({"momentum": 0.9, "nesterov": true, "lr": 0.1})"},
      {"adagrad", R"({"weight_decay": 0.1, "lr": 0.1})"},
      {"rowwise_adagrad", R"({"weight_decay": 0.1, "lr": 0.1})"},
      {"adam", R"({"weight_decay": 0.1, "lr": 0.1})"},
      {"adamw", R"({"lr": 0.1})"},
      {"ftrl", R"({"l1": 0.01, "l2": 0.1, "lr": 0.1})"},
      {"lion", R"({"weight_decay": 0.1, "lr": 0.1})"}};
  return all;
}

// The formulas of sparse_optim_golden.py.
float start(int64_t row, int64_t j) {
  return static_cast<float>(
      std::sin(1.0 + static_cast<double>(j) + 10.0 * static_cast<double>(row)));
}
int64_t occurrences(int64_t num_rows, int64_t row, int64_t step) {
  return row == num_rows - 1 || (step + row) % 3 == 0 ? 0 : 1 + (step + 2 * row) % 3;
}
float gradient(int64_t row, int64_t k, int64_t j, int64_t step) {
  return static_cast<float>(std::cos(0.3 * static_cast<double>(j) +
                                     0.7 * static_cast<double>(step) + static_cast<double>(row) +
                                     0.5 * static_cast<double>(k)));
}
double factor(int64_t step) {
  return 1.0 - static_cast<double>(step - 1) / 400.0;
}

// What the host hands over in a step: one row each, its occurrences summed.
std::vector<RowGradient> gradients(int64_t num_rows, int64_t dim, int64_t step) {
  std::vector<RowGradient> all;
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t count = occurrences(num_rows, row, step);
    if (count == 0) {
      continue;
    }
    RowGradient one{row, std::vector<float>(static_cast<size_t>(dim)), count};
    for (int64_t k = 0; k < count; ++k) {
      for (int64_t j = 0; j < dim; ++j) {
        one.grad[static_cast<size_t>(j)] += gradient(row, k, j, step);
      }
    }
    all.push_back(one);
  }
  return all;
}

void set_starts(RowRig& rig, int64_t num_rows, int64_t dim) {
  for (int64_t row = 0; row < num_rows; ++row) {
    std::vector<float> value;
    for (int64_t j = 0; j < dim; ++j) {
      value.push_back(start(row, j));
    }
    rig.set_value(row, value);
  }
}

// A table of 40 rows of `dim` elements after some steps of its optimizer.
struct Grown {
  explicit Grown(const SparseOptimizerProxy& optimizer, RowRigOptions options = {.dim = 12})
      : dim(options.dim), rig(optimizer, with_rows(options)) {
    set_starts(rig, kRows, dim);
    for (int64_t step = 1; step <= 3; ++step) {
      rig.update(gradients(kRows, dim, step), 0.1);
    }
  }

  static constexpr int64_t kRows = 40;
  int64_t dim;
  RowRig rig;

 private:
  static RowRigOptions with_rows(RowRigOptions options) {
    options.num_rows = kRows;
    return options;
  }
};

}  // namespace

TEST_CASE("sparse optimizers follow PyTorch's, or their papers, over 200 steps", "[plugins]") {
  std::ifstream in(tenon::source_dir() / "tests" / "parity" / "sparse_optim_golden.json");
  const nlohmann::json golden = nlohmann::json::parse(in);
  const int64_t num_rows = golden["rows"];
  CHECK(golden["cases"].size() == 20);
  for (const nlohmann::json& c : golden["cases"]) {
    CAPTURE(c["type"], c["options"].dump());
    const auto optimizer = make_optimizer(c["type"], c["options"].dump());
    for (const auto& [dim_text, values] : c["values"].items()) {
      const int64_t dim = std::stoll(dim_text);
      CAPTURE(dim);
      RowRig rig(optimizer, {.dim = static_cast<uint32_t>(dim), .num_rows = num_rows});
      set_starts(rig, num_rows, dim);
      const double lr = c["options"]["lr"];
      double worst = 0;
      for (int64_t step = 1; step <= 200; ++step) {
        rig.update(gradients(num_rows, dim, step), lr * factor(step));
        for (size_t kept = 0; kept < golden["steps"].size(); ++kept) {
          if (golden["steps"][kept] != step) {
            continue;
          }
          const auto want = values[kept].get<std::vector<double>>();
          for (int64_t row = 0; row < num_rows; ++row) {
            const std::vector<float> got = rig.value(row);
            for (int64_t j = 0; j < dim; ++j) {
              const double w = want[static_cast<size_t>(row * dim + j)];
              const double off = std::abs(got[static_cast<size_t>(j)] - w);
              worst = std::max(worst, off / std::max(1.0, std::abs(w)));
            }
          }
        }
      }
      CHECK(worst < 1e-6);
    }
  }
}

TEST_CASE("an update changes no byte but those of its rows", "[plugins]") {
  for (const auto& [type, options] : all_optimizers()) {
    for (const uint32_t dim : {1u, 7u, 16u, 40u}) {
      for (const uint32_t dtype : {TENON_F32, TENON_BF16, TENON_F16}) {
        CAPTURE(type, options, dim, dtype);
        const auto optimizer = make_optimizer(type, options);
        Grown grown(optimizer, {.dim = dim, .value_dtype = dtype});
        std::vector<std::vector<unsigned char>> before;
        for (int64_t row = 0; row < Grown::kRows; ++row) {
          before.push_back(grown.rig.row_bytes(row));
        }
        const std::vector<float> grad(dim, 0.5f);
        grown.rig.update({{17, grad}, {4, grad}}, 0.1);
        for (int64_t row = 0; row < Grown::kRows; ++row) {
          const bool is_has_grad = row == 4 || row == 17;
          const auto after = grown.rig.row_bytes(row);
          CHECK((after == before[static_cast<size_t>(row)]) == !is_has_grad);
          // What lies around the fields of a row.
          CHECK(std::all_of(after.begin(), after.begin() + 4, [](auto c) { return c == 0xA5; }));
          CHECK(std::all_of(after.end() - 4, after.end(), [](auto c) { return c == 0xA5; }));
        }
      }
    }
  }
}

TEST_CASE("a row's result is its own, whatever the company, the order and the threads",
          "[plugins]") {
  for (const auto& [type, options] : all_optimizers()) {
    for (const uint32_t dtype : {TENON_F32, TENON_BF16}) {
      CAPTURE(type, options, dtype);
      const auto optimizer = make_optimizer(type, options);
      const RowRigOptions rows{.dim = 20, .value_dtype = dtype};
      Grown together(optimizer, rows);
      const auto all = gradients(Grown::kRows, 20, 4);
      together.rig.update(all, 0.1);

      Grown alone(optimizer, rows);
      for (const RowGradient& one : all) {
        alone.rig.set_step(3);
        alone.rig.update({one}, 0.1);
      }
      CHECK(alone.rig.bytes() == together.rig.bytes());

      Grown reversed(optimizer, rows);
      reversed.rig.update({all.rbegin(), all.rend()}, 0.1);
      CHECK(reversed.rig.bytes() == together.rig.bytes());

      Grown shared(optimizer, rows);
      const size_t half = all.size() / 2;
      const auto middle = all.begin() + static_cast<std::ptrdiff_t>(half);
      const tenon::RowUpdate first = shared.rig.prepare({all.begin(), middle}, 0.1);
      const tenon::RowUpdate second = shared.rig.prepare({middle, all.end()}, 0.1);
      shared.rig.set_step(4);
      std::thread other([&] { shared.rig.run(second); });
      shared.rig.run(first);
      other.join();
      CHECK(shared.rig.bytes() == together.rig.bytes());
    }
  }
}

TEST_CASE("an update that is not finite changes nothing", "[plugins]") {
  for (const auto& [type, options] : all_optimizers()) {
    CAPTURE(type, options);
    const auto optimizer = make_optimizer(type, options);
    Grown grown(optimizer);
    const auto before = grown.rig.bytes();
    float found_inf = 1;
    const std::vector<float> nan(12, std::numeric_limits<float>::quiet_NaN());
    grown.rig.update({{3, nan}}, 0.1, &found_inf);
    CHECK(grown.rig.bytes() == before);
    CHECK(grown.rig.step() == 3);
    found_inf = 0;
    grown.rig.update({{3, std::vector<float>(12, 1.0f)}}, 0.1, &found_inf);
    CHECK(grown.rig.bytes() != before);
    CHECK(grown.rig.step() == 4);
  }
}

TEST_CASE("a gradient that is no number spoils its own row at most, and shows there", "[plugins]") {
  for (const auto& [type, options] : all_optimizers()) {
    for (const uint32_t dtype : {TENON_F32, TENON_BF16, TENON_F16}) {
      CAPTURE(type, options, dtype);
      const auto optimizer = make_optimizer(type, options);
      const RowRigOptions rows{.dim = 12, .value_dtype = dtype};
      Grown spoiled(optimizer, rows);
      Grown whole(optimizer, rows);
      std::vector<float> nan(12, 0.25f);
      nan[5] = std::numeric_limits<float>::quiet_NaN();
      const RowGradient good{9, std::vector<float>(12, 1.0f)};
      spoiled.rig.update({{3, nan}, good}, 0.1);
      whole.rig.update({good}, 0.1);
      CHECK(std::isnan(spoiled.rig.value(3)[5]));
      for (int64_t row = 0; row < Grown::kRows; ++row) {
        if (row != 3) {
          CHECK(spoiled.rig.row_bytes(row) == whole.rig.row_bytes(row));
        }
      }
    }
  }
}

TEST_CASE("narrow values are rounded by the bits of their id, step and place", "[plugins]") {
  for (const auto& [type, options] : all_optimizers()) {
    const auto optimizer = make_optimizer(type, options);
    CHECK(optimizer.info().narrow == TENON_NARROW_STOCHASTIC);
    for (const uint32_t dim : {1u, 5u, 8u, 16u, 37u}) {
      for (const uint32_t dtype : {TENON_BF16, TENON_F16}) {
        CAPTURE(type, options, dim, dtype);
        // The twin of fp32 starts with what the narrow one has, and so gets its unrounded result.
        RowRig narrow(optimizer, {.dim = dim, .value_dtype = dtype});
        RowRig wide(optimizer, {.dim = dim});
        for (int64_t step = 1; step <= 4; ++step) {
          narrow.set_value(6, std::vector<float>(dim, 0.7f));
          wide.set_value(6, narrow.value(6));
          RowGradient one{6, {}};
          for (uint32_t j = 0; j < dim; ++j) {
            one.grad.push_back(gradient(6, 0, j, step));
          }
          narrow.update({one}, 0.01);
          wide.update({one}, 0.01);
          const std::vector<float> exact = wide.value(6);
          const std::vector<uint16_t> bits = narrow.narrow_bits(6);
          for (uint32_t j = 0; j < dim; ++j) {
            const auto random_bits =
                static_cast<uint32_t>(tenon::random_bits(77,
                                                         static_cast<uint64_t>(RowRig::id_of(6)),
                                                         static_cast<uint64_t>(step) * dim + j));
            const auto word = std::bit_cast<uint32_t>(exact[j]);
            REQUIRE(bits[j] == (dtype == TENON_BF16 ? tenon_cut_bf16(word, random_bits)
                                                    : tenon_cut_f16(word, random_bits)));
          }
        }
      }
    }
  }
}

TEST_CASE("rows rounded at random move as far as rows of fp32 do, on the mean", "[plugins]") {
  // Steps of a hundredth of what bf16 can show at 1: rounded to nearest, no row would ever move.
  const auto optimizer = make_optimizer("sgd", R"({"lr": 1})");
  RowRig rig(optimizer, {.dim = 64, .num_rows = 64, .value_dtype = TENON_BF16});
  std::vector<RowGradient> all;
  for (int64_t row = 0; row < 64; ++row) {
    rig.set_value(row, std::vector<float>(64, 1.5f));
    all.push_back({row, std::vector<float>(64, -0x1p-7f / 100)});
  }
  for (int i = 0; i < 100; ++i) {
    rig.update(all, 1.0);
  }
  double sum = 0;
  for (int64_t row = 0; row < 64; ++row) {
    for (const float x : rig.value(row)) {
      sum += x - 1.5;
    }
  }
  // A step is one of 2^-7 with probability 1/100: the mean of 4096 of 100 has this deviation.
  const double deviation = 0x1p-7 * std::sqrt(100 * 0.01 * 0.99 / 4096);
  CHECK(std::abs(sum / 4096 - 0x1p-7) < 5 * deviation);
}

TEST_CASE("with masters, narrow values are those of fp32 rounded to nearest", "[plugins]") {
  for (const auto& [type, options] : all_optimizers()) {
    CAPTURE(type, options);
    nlohmann::json with_master = nlohmann::json::parse(options);
    with_master["narrow"] = "master";
    const auto optimizer = make_optimizer(type, with_master.dump());
    CHECK(optimizer.info().narrow == TENON_NARROW_MASTER);
    Grown narrow(optimizer, {.dim = 12, .value_dtype = TENON_BF16});
    Grown wide(optimizer, {.dim = 12});
    for (int64_t row = 0; row < Grown::kRows; ++row) {
      const std::vector<float> exact = wide.rig.value(row);
      CHECK(narrow.rig.master(row) == exact);
      const std::vector<uint16_t> bits = narrow.rig.narrow_bits(row);
      for (size_t j = 0; j < bits.size(); ++j) {
        CHECK(bits[j] == c10::BFloat16(exact[j]).x);
      }
    }
  }
}

TEST_CASE("sparse optimizers say what a row keeps", "[plugins]") {
  const auto slots = [](const std::string& type, const std::string& options = "{}") {
    std::string text;
    const auto optimizer = make_optimizer(type, options);
    for (const tenon::RowSlotSpec& slot : optimizer.info().slots) {
      CHECK(slot.dtype == TENON_F32);
      text += slot.name + (slot.shape == TENON_ROW_SLOT_SCALAR ? "[1]" : "[dim]") + "=" +
              std::to_string(slot.init).substr(0, 3) + " ";
    }
    return text;
  };
  CHECK(slots("sgd").empty());
  CHECK(slots("sgd", R"({"momentum": 0.5})") == "momentum[dim]=0.0 ");
  CHECK(slots("adagrad", R"({"initial_accumulator_value": 0.5})") == "sum[dim]=0.5 ");
  CHECK(slots("rowwise_adagrad", R"({"initial_accumulator_value": 0.5})") == "sum[1]=0.5 ");
  CHECK(slots("adam") == "exp_avg[dim]=0.0 exp_avg_sq[dim]=0.0 ");
  CHECK(slots("adamw") == "exp_avg[dim]=0.0 exp_avg_sq[dim]=0.0 ");
  CHECK(slots("ftrl", R"({"initial_accumulator_value": 0.5})") == "z[dim]=0.0 n[dim]=0.5 ");
  CHECK(slots("lion") == "momentum[dim]=0.0 ");
  for (const auto& [type, options] : all_optimizers()) {
    CAPTURE(type);
    CHECK(make_optimizer(type, options).info().runs_on_cpu);
    CHECK_THAT(tenon::options_problem("sparse_optimizer", type, R"({"lr": -1})"),
               tenon::contains_text("/lr"));
  }
}

TEST_CASE("sparse optimizers name what does not fit", "[plugins]") {
  CHECK_THAT(tenon::error_of([] { make_optimizer("sgd", R"({"nesterov": true})"); }),
             tenon::contains_text("`nesterov` requires `momentum` above 0"));
  const auto optimizer = make_optimizer("adam");
  RowRig rig(optimizer, {});
  tenon_row_layout layout = rig.layout();
  tenon_sparse_update_args args{};
  args.struct_size = sizeof args;
  args.layout = &layout;
  layout.value_dtype = TENON_F64;
  const auto error = [&] {
    return tenon::error_of([&] { optimizer.update(tenon::make_exec(optimizer.instance()), args); });
  };
  CHECK_THAT(error(), tenon::contains_text("values are f64; they must be f32, bf16 or f16"));
  layout.value_dtype = TENON_F32;
  layout.num_slots = 1;
  CHECK_THAT(error(), tenon::contains_text("rows have 1 slots (expected 2"));
}

TEST_CASE("a rate of 0 leaves FTRL's rows as they are", "[plugins]") {
  const auto optimizer = make_optimizer("ftrl");
  Grown grown(optimizer);
  const auto before = grown.rig.bytes();
  grown.rig.update({{3, std::vector<float>(12, 1.0f)}}, 0.0);
  CHECK(grown.rig.bytes() == before);
}
