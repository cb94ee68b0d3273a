// SPDX-License-Identifier: Apache-2.0
#include "tests/ranks/finished_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "tests/recipes/ranks_run.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/read_files.hpp"

namespace tenon {
namespace {

NamedValues kept_parameters(const std::filesystem::path& run_dir) {
  NamedValues parameters;
  for (const auto& entry : std::filesystem::directory_iterator(run_dir / "parameters")) {
    const std::string bytes = file_text(entry.path());
    std::vector<double>& values = parameters[entry.path().stem().string()];
    values.resize(bytes.size() / sizeof(double));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  }
  return parameters;
}

}  // namespace

FinishedRun finished_run(const nlohmann::json& recipe, uint32_t num_ranks) {
  const RanksRun run(recipe.dump(), num_ranks);
  INFO(run.text());
  REQUIRE(run.exit_codes() == std::vector<int>(num_ranks, 0));
  return finished_in(run.run_dir());
}

FinishedRun finished_in(const std::filesystem::path& run_dir) {
  const nlohmann::json summary = nlohmann::json::parse(file_text(run_dir / "summary.json"));
  FinishedRun finished{.metrics = metric_records(file_text(run_dir / "metrics.jsonl")),
                       .parameters = kept_parameters(run_dir),
                       .parameters_hash = summary["parameters_hash"],
                       .samples = summary["samples"]};
  REQUIRE(!finished.parameters.empty());
  return finished;
}

FinishedRun without_bytes(FinishedRun run) {
  for (nlohmann::json& record : run.metrics) {
    for (auto metric = record.begin(); metric != record.end();) {
      const std::string& name = metric.key();
      const bool is_bytes = name.starts_with("tables/") && name.ends_with("bytes");
      metric = is_bytes ? record.erase(metric) : std::next(metric);
    }
  }
  return run;
}

void check_metrics(const FinishedRun& found, const FinishedRun& want, double bound) {
  REQUIRE(found.metrics.size() == want.metrics.size());
  for (size_t i = 0; i < want.metrics.size(); ++i) {
    INFO("record " << i << ": " << found.metrics[i] << " for " << want.metrics[i]);
    REQUIRE(found.metrics[i].size() == want.metrics[i].size());
    for (const auto& [name, value] : want.metrics[i].items()) {
      REQUIRE(found.metrics[i].contains(name));
      CAPTURE(name);
      if (!value.is_number()) {
        CHECK(found.metrics[i][name] == value);
        continue;
      }
      const double metric = value.get<double>();
      const double difference = std::abs(found.metrics[i][name].get<double>() - metric);
      CHECK(difference <= bound * std::max(1.0, std::abs(metric)));
    }
  }
}

double largest_difference(const NamedValues& found, const NamedValues& want) {
  REQUIRE(found.size() == want.size());
  double largest = 0;
  for (const auto& [name, values] : want) {
    CAPTURE(name);
    REQUIRE(found.contains(name));
    const std::vector<double>& others = found.at(name);
    REQUIRE(others.size() == values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(others[i] - values[i]));
    }
  }
  return largest;
}

double norm_difference(const NamedValues& found, const NamedValues& want) {
  REQUIRE(found.size() == want.size());
  double difference = 0;
  double whole = 0;
  for (const auto& [name, values] : want) {
    CAPTURE(name);
    REQUIRE(found.contains(name));
    const std::vector<double>& others = found.at(name);
    REQUIRE(others.size() == values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      difference += (others[i] - values[i]) * (others[i] - values[i]);
      whole += values[i] * values[i];
    }
  }
  return std::sqrt(difference / whole);
}

}  // namespace tenon
