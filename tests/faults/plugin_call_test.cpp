// SPDX-License-Identifier: Apache-2.0
//
// Calls into plugins that throw, answer with an error, or give what they must not. Each ends the
// run with the name of the component, its plugin and what it said; none ends the process.
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "tests/recipes/host_run.hpp"
#include "tests/support/catch.hpp"

namespace tenon {
namespace {

struct Call {
  std::string kind;  // as messages have it
  std::string at;
  int calls_before = 0;
  bool is_before_step = false;  // made before the first step
};

// A recipe whose component of that kind is the faulty one.
std::string faulty(const Call& call, const std::string& how) {
  const std::string options = R"("at": ")" + call.at + R"(", "how": ")" + how +
                              R"(", "calls_before": )" + std::to_string(call.calls_before);
  const std::string use = R"({"type": "faulty", "options": {)" + options + "}}";
  if (call.kind == "model") {
    return small_recipe(R"({"model": {"type": "faulty", "options": {"in_features": null,
      "hidden": null, "out_features": null, )" +
                        options + "}}}");
  }
  if (call.kind == "dataset") {
    return small_recipe(R"({"data": {"train": {"type": "faulty", "options": {"samples": null, )" +
                        options + "}}}}");
  }
  if (call.kind == "optimizer") {
    return small_recipe(R"({"optimizer": {"type": "faulty", "options": {"lr": 0.1, )" + options +
                        "}}}");
  }
  if (call.kind == "tokenizer") {
    return small_recipe(R"({"data": {"train": {"type": "text", "options": {"samples": null,
      "path": "README.md", "sequence_length": 8, "tokenizer": )" +
                        use + "}}}}");
  }
  const bool is_list = call.kind == "metric" || call.kind == "hook" || call.kind == "metric_sink";
  const std::string key = call.kind == "metric_sink" ? "sinks"
                          : is_list                  ? call.kind + "s"
                                                     : call.kind;
  return small_recipe("{\"" + key + "\": " + (is_list ? "[" + use + "]" : use) + "}");
}

std::string named(const std::string& kind, const std::string& type = "faulty") {
  return kind + " \"" + type + "\" (plugin org.tenon.test.faulty 0.1.0, ";
}

const std::vector<Call>& calls() {
  static const std::vector<Call> list = {
      {"model", "create", 0, true},
      {"model", "describe", 0, true},
      {"model", "forward", 2},
      {"model", "backward", 2},
      {"loss", "create", 0, true},
      {"loss", "describe", 0, true},
      {"loss", "count", 2},
      {"loss", "compute", 2},
      {"loss", "backward", 2},
      {"optimizer", "create", 0, true},
      {"optimizer", "describe", 0, true},
      {"optimizer", "update", 2},
      {"metric", "create", 0, true},
      {"metric", "describe", 0, true},
      {"metric", "update", 2},
      {"metric", "compute", 2},
      {"metric_sink", "create", 0, true},
      {"metric_sink", "open", 0, true},
      {"lr_scheduler", "create", 0, true},
      {"lr_scheduler", "factor", 3},
      {"hook", "create", 0, true},
      {"hook", "describe", 0, true},
      {"hook", "on_event", 2},
      {"dataset", "create", 0, true},
      {"dataset", "describe", 0, true},
      {"dataset", "size", 0, true},
      {"dataset", "read", 3},
  };
  return list;
}

}  // namespace

TEST_CASE("a call that fails or throws any object is reported with its component",
          "[faults][.release]") {
  // Each throws what no handler but the last catches; the other two ways take turns.
  size_t turn = 0;
  for (const Call& call : calls()) {
    const std::string turns = turn++ % 2 == 0 ? "error" : "exception";
    for (const std::string& how : {std::string("foreign"), turns}) {
      const std::string says = how == "foreign" ? "an exception that is no std::exception"
                               : how == "error" ? "asked to fail at " + call.at
                                                : "asked to throw at " + call.at;
      const HostRun run(faulty(call, how));
      INFO(call.kind << " " << call.at << " " << how << "\n" << run.result().err);
      CHECK(run.result().exit_code == (call.is_before_step ? 4 : 5));
      CHECK_THAT(run.result().err, contains_text("[plugin.failed] "));
      CHECK_THAT(run.result().err, contains_text(named(call.kind)));
      CHECK_THAT(run.result().err, contains_text(says));
      if (how == "foreign") {  // the plugin cannot say where
        CHECK_THAT(run.result().err, contains_text(call.at + " failed: "));
      }
      CHECK_THAT(run.result().err, !contains_text("frame #"));
      if (!call.is_before_step) {
        CHECK(run.summary()["error_id"] == "plugin.failed");
        CHECK(run.file("metrics.jsonl").ends_with("}\n"));
      } else if (call.at != "open") {  // a sink is opened in the run folder
        CHECK_FALSE(std::filesystem::exists(run.run_dir()));
      }
    }
  }
}

TEST_CASE("a call that crashes or exits ends the run with its component, function and step",
          "[faults][.release]") {
#ifdef __SANITIZE_ADDRESS__
  TENON_SKIP("the address sanitizer reports crashes in its own way, before anybody else");
#endif
  const std::string ways[][3] = {{"segv", "[plugin.crashed] ", " crashed with SIGSEGV"},
                                 {"abort", "[plugin.crashed] ", " crashed with SIGABRT"},
                                 {"exit", "[plugin.exited] ", " called exit()"}};
  size_t turn = 0;
  for (const Call& call : calls()) {
    const auto& [how, id, says] = ways[turn++ % std::size(ways)];
    const HostRun run(faulty(call, how));
    INFO(call.kind << " " << call.at << " " << how << "\n" << run.result().err);
    CHECK_THAT(run.result().err, contains_text("error: " + id + named(call.kind)));
    CHECK_THAT(run.result().err, contains_text(": " + call.at));
    CHECK_THAT(run.result().err, contains_text(says));
    const bool is_early = run.result().err.find(", before the first step") != std::string::npos;
    CHECK(run.result().exit_code == (is_early ? 4 : 5));
    if (call.is_before_step) {
      CHECK(is_early);
    }
    if (std::filesystem::exists(run.run_dir())) {
      const nlohmann::json summary = run.awaited_summary();
      CHECK(summary["outcome"] == "failed");
      CHECK(summary["exit_code"] == run.result().exit_code);
      CHECK("[" + summary["error_id"].get<std::string>() + "] " == id);
      CHECK_THAT(run.result().err, contains_text(summary["reason"].get<std::string>()));
    } else {
      CHECK(is_early);
    }
  }
}

TEST_CASE("a rank whose plugin crashes or exits is named by the launcher, with its step",
          "[faults][ranks]") {
#ifdef __SANITIZE_ADDRESS__
  TENON_SKIP("the address sanitizer reports crashes in its own way, before anybody else");
#endif
  const std::string hook = "hook \"fail_at\" (plugin org.tenon.test.fail_at 0.1.0, ";
  const std::string ways[][2] = {
      {"crash", ": on_event at after_step crashed with SIGSEGV, in step 3 of rank "},
      {"leave", ": on_event at after_step called exit(), in step 3 of rank "},
      {"quit", ": on_event at after_step called _exit(), in step 3 of rank "}};
  for (const auto& [how, says] : ways) {
    for (const std::string rank : {"0", "1"}) {
      const HostRun run(
          busy_recipe(R"({"hooks": [{"type": "fail_at", "options": {"event": "after_step",
            "step": 3, "how": ")" +
                      how + R"(", "rank": )" + rank + "}}]}"),
          {"--launch", "2"});
      INFO(how << " on rank " << rank << "\n" << run.result().err);
      CHECK(run.result().exit_code == 5);
      CHECK_THAT(run.result().err, contains_text("rank " + rank + " ended: [plugin."));
      CHECK_THAT(run.result().err, contains_text(hook));
      CHECK_THAT(run.result().err, contains_text(says + rank));
      const nlohmann::json summary = run.awaited_summary();
      CHECK(summary["outcome"] == "failed");
      CHECK(summary["exit_code"] == 5);
    }
  }
}

TEST_CASE("a rank that a plugin ends with status 0 is a failure of the run", "[faults][ranks]") {
  for (const std::string rank : {"0", "1"}) {
    const HostRun run(
        busy_recipe(R"({"hooks": [{"type": "fail_at", "options": {"event": "after_step",
          "step": 3, "how": "vanish", "rank": )" +
                    rank + "}}]}"),
        {"--launch", "2"});
    INFO("rank " << rank << "\n" << run.result().err);
    CHECK(run.result().exit_code == 5);
    CHECK_THAT(run.result().err,
               contains_text("rank " + rank +
                             " exited with status 0 before the run ended; it was last seen in "
                             "step 3"));
    CHECK(run.awaited_summary()["outcome"] == "failed");
  }
}

TEST_CASE("a run that is killed has a summary", "[faults]") {
  const HostRun run(faulty({"hook", "on_event", 2}, "kill"));
  INFO(run.result().err);
  CHECK(run.result().exit_code == 137);
  const nlohmann::json summary = run.awaited_summary();
  CHECK(summary["outcome"] == "failed");
  CHECK(summary["error_id"] == "run.killed");
  CHECK(summary["steps"].get<int>() > 0);
  CHECK(summary["components"].size() > 3);
}

TEST_CASE("out of memory in a plugin has the memory error id and names the plugin",
          "[faults][.release]") {
  for (const Call& call : calls()) {
    // What libtorch's allocator throws takes other ways in a model and a loss alone.
    const bool is_torch = call.kind == "model" || call.at == "backward";
    for (const std::string how : {"bad_alloc", "huge"}) {
      if (how == "huge" && !is_torch) {
        continue;
      }
      const HostRun run(faulty(call, how));
      INFO(call.kind << " " << call.at << " " << how << "\n" << run.result().err);
      CHECK(run.result().exit_code == 5);
      CHECK_THAT(run.result().err, contains_text("[run.out_of_memory] "));
      CHECK_THAT(run.result().err, contains_text(named(call.kind)));
      CHECK_THAT(run.result().err, contains_text("/data/batch_size"));
      CHECK_THAT(run.result().err, !contains_text("frame #"));
      if (how == "huge") {
        CHECK_THAT(run.result().err, contains_text("could not allocate 131072.0 GiB"));
      }
    }
  }
}

TEST_CASE("a model output with a wrong shape, dtype or device is reported with its block",
          "[faults]") {
  const std::string wrong[][2] = {
      {"dtype", "is Long, but the run computes in Float"},
      {"device", "is on meta, but the run is on cpu"},
      {"columns", "has the shape [4, 6], but was declared as compute dtype [B, 3]"},
      {"rows", "has the shape [1, 3], but was declared as compute dtype [B, 3]"},
  };
  for (const auto& [how, says] : wrong) {
    const HostRun run(faulty({"model", "forward", 2}, how));
    INFO(how << "\n" << run.result().err);
    CHECK(run.result().exit_code == 5);
    CHECK_THAT(run.result().err, contains_text("[plugin.bad_result] " + named("model")));
    CHECK_THAT(run.result().err, contains_text("output 'logits' of block 'only' " + says));
  }
  const HostRun nothing(faulty({"model", "forward", 2}, "nothing"));
  CHECK(nothing.result().exit_code == 5);
  CHECK_THAT(nothing.result().err, contains_text("is undefined"));
}

TEST_CASE("a model that reports invalid sizes is rejected before any allocation", "[faults]") {
  const std::string wrong[][2] = {{"negative", "'weight' has a negative size"},
                                  {"overflow", "'weight' is larger than any memory"}};
  for (const auto& [how, says] : wrong) {
    const HostRun run(faulty({"model", "describe"}, how));
    INFO(how << "\n" << run.result().err);
    CHECK(run.result().exit_code == 4);
    CHECK_THAT(run.result().err, contains_text("[model.bad_graph] " + named("model")));
    CHECK_THAT(run.result().err, contains_text(says));
    CHECK_FALSE(std::filesystem::exists(run.run_dir()));
  }
  const HostRun large(faulty({"model", "describe"}, "too large"));
  INFO(large.result().err);
  CHECK(large.result().exit_code == 3);
  CHECK_THAT(large.result().err, contains_text("[run.too_large]"));
  CHECK_THAT(large.result().err, contains_text("parameters 65536.00 GiB"));
}

TEST_CASE("a loss that is not a scalar or cannot be summed is reported", "[faults]") {
  const std::string wrong[][3] = {
      {"compute", "vector", "compute returned Float [3] on cpu; it must return a scalar of Float"},
      {"compute", "dtype", "compute returned Long [] on cpu"},
      {"compute", "device", "compute returned Float [] on meta"},
      {"compute", "nothing", "compute returned success and no tensor"},
      {"count", "vector", "count returned Double [3] on cpu"},
      {"count", "device", "count returned Double [] on meta"},
      {"count", "nothing", "count returned success and no tensor"},
  };
  for (const auto& [at, how, says] : wrong) {
    const HostRun run(faulty({"loss", at, 2}, how));
    INFO(at << " " << how << "\n" << run.result().err);
    CHECK(run.result().exit_code == 5);
    CHECK_THAT(run.result().err, contains_text("[plugin.bad_result] " + named("loss")));
    CHECK_THAT(run.result().err, contains_text(says));
  }
}

TEST_CASE("a manual gradient with a wrong shape, dtype or device is reported", "[faults]") {
  const std::string wrong[][2] = {{"rows", "Float [1, 3] on cpu"},
                                  {"columns", "Float [4, 6] on cpu"},
                                  {"dtype", "Long [4, 3] on cpu"},
                                  {"device", "Float [4, 3] on meta"}};
  for (const auto& [how, says] : wrong) {
    const HostRun run(small_recipe(R"({"loss": {"type": "faulty_by_hand", "options":
      {"at": "backward", "how": ")" +
                                   how + R"(", "calls_before": 2}}})"));
    INFO(how << "\n" << run.result().err);
    CHECK(run.result().exit_code == 5);
    CHECK_THAT(run.result().err,
               contains_text("[plugin.bad_result] " + named("loss", "faulty_by_hand")));
    CHECK_THAT(run.result().err, contains_text("backward returned the gradient " + says));
    CHECK_THAT(run.result().err, contains_text("which is Float [4, 3] on cpu"));
  }
}

TEST_CASE("a schedule whose factor is no number is told, if it can be before the first step",
          "[faults]") {
  const HostRun before(faulty({"lr_scheduler", "factor"}, "nan"));
  INFO(before.result().err);
  CHECK(before.result().exit_code == 4);
  CHECK_THAT(before.result().err, contains_text("the factor of step 0 is nan"));
  CHECK_FALSE(std::filesystem::exists(before.run_dir()));
  const HostRun after(faulty({"lr_scheduler", "factor", 4}, "nan"));
  CHECK(after.result().exit_code == 5);
  CHECK_THAT(after.result().err, contains_text("[plugin.bad_result] " + named("lr_scheduler")));
  CHECK_THAT(after.result().err, contains_text("the factor of step 3 is nan"));
}

TEST_CASE("a schedule whose phases do not fit the run is rejected before the run", "[faults]") {
  const HostRun run(small_recipe(R"({"lr_scheduler": {"type": "wsd", "options":
    {"warmup_steps": 4, "decay_steps": 4}}})"));
  INFO(run.result().err);
  CHECK(run.result().exit_code == 4);
  CHECK_THAT(run.result().err,
             contains_text("warmup_steps 4 and decay_steps 4 exceed the 6 steps"));
  CHECK_FALSE(std::filesystem::exists(run.run_dir()));
}

TEST_CASE("invalid sizes from a dataset are reported with the reason", "[faults]") {
  struct Wrong {
    Call call;
    std::string how;
    int exit_code;
    std::string says;
  };
  const Wrong list[] = {
      {{"dataset", "describe"}, "nothing", 4, "describe returned no fields"},
      {{"dataset", "size"}, "negative", 4, "size returned -7"},
      {{"dataset", "size"}, "zero", 3, "has no samples"},
      {{"dataset", "read", 3}, "nothing", 5, "the read did not set the batch's counts"},
      {{"dataset", "read", 3}, "rows", 5, "field \"x\" has shape [5, 4], expected [B, D=4]"},
      {{"dataset", "read", 3}, "counts", 5, "the counts are set twice"},
  };
  for (const Wrong& wrong : list) {
    const HostRun run(faulty(wrong.call, wrong.how));
    INFO(wrong.call.at << " " << wrong.how << "\n" << run.result().err);
    CHECK(run.result().exit_code == wrong.exit_code);
    CHECK_THAT(run.result().err, contains_text(named("dataset")));
    CHECK_THAT(run.result().err, contains_text(wrong.says));
  }
}

TEST_CASE("an error of a C plugin is reported with any combination of texts", "[faults]") {
  const std::string said[][2] = {
      {"0", "[plugin.failed] at after_forward: hook \"faulty_status\""},
      {"1", "[plugin.failed] at after_forward: hook \"faulty_status\""},
      {"2", "[run.out_of_memory] at after_forward: hook \"faulty_status\""},
      {"3", "said in C [c.said] at hook.c:12"},
  };
  for (const auto& [texts, says] : said) {
    const HostRun run(small_recipe(R"({"hooks": [{"type": "faulty_status", "options": {"texts": )" +
                                   texts + "}}]}"));
    INFO(texts << "\n" << run.result().err);
    CHECK(run.result().exit_code == 5);
    CHECK_THAT(run.result().err, contains_text(says));
    if (texts == "0" || texts == "1") {
      CHECK_THAT(run.result().err, contains_text("on_event failed without a message"));
    }
    CHECK_THAT(run.result().err, !contains_text("/build/of/somebody"));
  }
}

TEST_CASE("a sink that fails during the run costs its metrics, which are counted", "[faults]") {
  for (const std::string how : {"error", "foreign", "bad_alloc"}) {
    const HostRun run(faulty({"metric_sink", "write", 2}, how));
    INFO(how << "\n" << run.result().err);
    CHECK(run.result().exit_code == 0);
    CHECK_THAT(run.result().err, contains_text("warning: ["));
    CHECK_THAT(run.result().err, contains_text(named("metric_sink")));
    CHECK(run.summary()["lost_records"] == 4);
    CHECK_THAT(run.last_line(), contains_text("4 writes of metrics failed"));
  }
}

}  // namespace tenon
