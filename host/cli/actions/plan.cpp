// SPDX-License-Identifier: Apache-2.0
//
// --plan: prints the memory, traffic and time of a step on any number of ranks, without a device.
#include "host/cli/all_actions.hpp"
#include "host/cli/quantity.hpp"
#include "host/cli/recipe_options.hpp"
#include "host/cli/used_recipe.hpp"
#include "host/terminal/print_output.hpp"
#include "host/terminal/usage_error.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/plan/longest_report.hpp"
#include "host/tools/plan/plan_report.hpp"
#include "host/tools/plan/program_table.hpp"
#include "host/train/plan/recipe_plan.hpp"

#include <array>
#include <optional>

namespace tenon {
namespace {

constexpr std::array kPlanOptions = {
    kRecipeOption,
    kPluginDirOption,
    kSetOption,
    kDeviceOption,
    kLogLevelOption,
    kNoVetCacheOption,
    kTrustOption,
    kAllowWritableOption,
    Option{"ranks-per-node", "N", "ranks of one machine; default 8"},
    Option{"flops",
           "RATE",
           "operations per second that the kernels of a rank reach; default 400T\n"
           "on GPUs, 100G on CPUs"},
    Option{"memory",
           "BYTES",
           "memory of a rank, as in 80GiB; if the plan needs more, the output\n"
           "lists settings that would fit"},
    Option{"longest", "", "print the longest sequence that fits into --memory, and how"},
    Option{"program", "", "print the instructions of a microbatch, with bytes held and sent"},
    Option{"bandwidth-node",
           "B/S",
           "bytes per second that a rank sends within its machine; default\n"
           "400GB on GPUs, 2GB on CPUs"},
    Option{"bandwidth-network",
           "B/S",
           "bytes per second that a rank sends to another machine; default\n"
           "50GB on GPUs, 1GB on CPUs"},
    Option{
        "bandwidth-host", "B/S", "bytes per second between a device and host memory; default 25GB"},
    Option{"latency",
           "SECONDS",
           "time until the next rank receives a message; default 5us on GPUs,\n"
           "50us on CPUs"},
    Option{"json", "", "print JSON"},
};

std::int64_t read_ranks(std::string_view option, const std::string& text) {
  return read_whole(option,
                    text,
                    1,
                    kMostPlannedRanks,
                    formatted("a number of ranks from 1 to {}", kMostPlannedRanks));
}

void read_plan(const GivenOptions& given, CommandLine& line) {
  const auto read_if_given = [&given](std::string_view option, const auto& read_value, auto& to) {
    if (given.has(option)) {
      to = read_value(option, given.value_of(option));
    }
  };
  PlanRequest& plan = line.plan;
  plan.ranks = read_ranks("plan", given.value_of("plan"));
  read_if_given("ranks-per-node", read_ranks, plan.ranks_per_node);
  read_if_given("flops", read_flops, plan.flops);
  if (given.has("memory")) {
    plan.memory = read_whole_bytes("memory", given.value_of("memory"), "machine");
  }
  plan.is_longest = given.has("longest");
  if (plan.is_longest && !plan.memory.has_value()) {
    fail_usage("--longest needs --memory, as in --memory 24GiB");
  }
  plan.is_program = given.has("program");
  if (plan.is_program && (plan.is_longest || given.has("json"))) {
    fail_usage(formatted("--program prints text and nothing else; remove --{}",
                         plan.is_longest ? "longest" : "json"));
  }
  read_if_given("bandwidth-node", read_bytes, plan.bandwidth_node);
  read_if_given("bandwidth-network", read_bytes, plan.bandwidth_network);
  read_if_given("bandwidth-host", read_bytes, plan.bandwidth_host);
  read_if_given("latency", read_seconds, plan.latency);
  read_recipe_options(given, line);
}

ExitCode run_plan(const CommandLine& line, const Invocation& invocation) {
  const UsedRecipe used = use_recipe(line, invocation);
  const RecipePlan plan = plan_recipe(used.recipe, *used.plugins, invocation.process, line.plan);
  if (line.plan.is_program) {
    print_output(program_table(plan));
  } else if (line.plan.is_longest) {
    print_output(line.is_json ? longest_json(plan) : longest_text(plan));
  } else {
    print_output(line.is_json ? plan_json(plan) : plan_text(plan));
  }
  return ExitCode::kDone;
}

}  // namespace

const Action kPlanAction = {
    .verb = "plan",
    .option = {"plan",
               "RANKS",
               "print memory, traffic and time of a step for each of RANKS\n"
               "ranks; needs no device"},
    .options = kPlanOptions,
    .read = read_plan,
    .run = run_plan};

}  // namespace tenon
