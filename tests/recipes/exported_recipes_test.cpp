// SPDX-License-Identifier: Apache-2.0
//
// The recipes with modules exported from PyTorch, against PyTorch's losses of the same modules
// (tests/parity/exported_golden.py made them).
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

struct ExportedRecipe {
  const char* name;
  double tolerance;  // relative, of losses
};
constexpr ExportedRecipe kExported[] = {{"exported-torchscript", 2e-5}, {"exported-aot", 2e-4}};

nlohmann::json exported_golden() {
  std::ifstream in(source_dir() / "tests/parity/exported_golden.json");
  return nlohmann::json::parse(in);
}

bool lacks_avx2(const std::string& recipe) {
  return recipe == "exported-aot" && __builtin_cpu_supports("avx2") == 0;
}

}  // namespace

TEST_CASE("recipes with exported modules give the losses of PyTorch", "[recipes][.release]") {
  const ExportedRecipe recipe = GENERATE(kExported[0], kExported[1]);
  CAPTURE(recipe.name);
  if (lacks_avx2(recipe.name)) {
    TENON_SKIP("the compiled module needs a processor with AVX2");
  }
  // At once, in two microbatches, and on two ranks that share the parameters.
  const std::string parts = GENERATE("whole", "microbatches", "ranks");
  CAPTURE(parts);
  std::vector<std::string> sets = {"--set", "data.shuffle=false", "--set", "train.log_every=1"};
  if (parts != "whole") {
    sets.insert(sets.end(),
                {"--set",
                 "data.batch_size=12",
                 "--set",
                 parts == "ranks" ? "parallel.shard=2" : "train.gradient_accumulation=2"});
  }
  const ScratchFolder folder;
  const auto run_dir = folder.path() / "run";
  const SubprocessResult result =
      run_host(source_dir() / "recipes" / (std::string(recipe.name) + ".json"),
               run_dir,
               parts == "ranks" ? 2 : 1,
               sets);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const auto losses = exported_golden()["loss"];
  size_t step = 0;
  for (const nlohmann::json& record : records_of(run_dir)) {
    if (!record.contains("loss")) {
      continue;
    }
    CAPTURE(step);
    const double wanted = losses.at(step++);
    CHECK(std::abs(record["loss"].get<double>() - wanted) <= recipe.tolerance * wanted + 1e-7);
  }
  CHECK(step == losses.size());
}

TEST_CASE("recipes with exported modules learn the species of iris", "[recipes]") {
  const ExportedRecipe recipe = GENERATE(kExported[0], kExported[1]);
  CAPTURE(recipe.name);
  if (lacks_avx2(recipe.name)) {
    TENON_SKIP("the compiled module needs a processor with AVX2");
  }
  const ScratchFolder folder;
  const auto run_dir = folder.path() / "run";
  const SubprocessResult result =
      run_host(source_dir() / "recipes" / (std::string(recipe.name) + ".json"), run_dir);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  std::ifstream file(run_dir / "summary.json");
  const auto metrics = nlohmann::json::parse(file)["metrics"];
  CHECK(metrics["eval/accuracy"].get<double>() >= 27.0 / 30);
}

}  // namespace tenon
