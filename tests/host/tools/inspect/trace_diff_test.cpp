// SPDX-License-Identifier: Apache-2.0
#include "host/tools/inspect/trace_diff.hpp"

#include "host/error/error.hpp"

#include <string>
#include <sys/stat.h>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

std::string event(const std::string& name, int step, const std::string& more = "") {
  return R"({"event":")" + name + R"(","step":)" + std::to_string(step) + R"(,"epoch":0)" + more +
         "}\n";
}

// Two files, a and b, in a folder of their own; what is printed calls them so.
class Pair {
 public:
  Pair(const std::string& a, const std::string& b)
      : a_(folder_.write("a", a).string()), b_(folder_.write("b", b).string()) {}

  TraceComparison compare() const {
    TraceComparison result = compare_traces(a_, b_);
    const std::string folder = folder_.path().string() + "/";
    for (std::size_t at = 0; (at = result.text.find(folder)) != std::string::npos;) {
      result.text.erase(at, folder.size());
    }
    return result;
  }

  std::string failure() const {
    try {
      compare_traces(a_, b_);
    } catch (const Error& error) {
      CHECK(error.id() == "trace.unreadable");
      CHECK(error.exit_code() == ExitCode::kUsage);
      return error.message();
    }
    return "no error";
  }

 private:
  ScratchFolder folder_;
  std::string a_;
  std::string b_;
};

}  // namespace

TEST_CASE("a trace is equal to itself", "[cli]") {
  const std::string golden = (source_dir() / "tests/recipes/trace/golden.jsonl").string();
  const TraceComparison result = compare_traces(golden, golden);
  CHECK(result.is_equal);
  CHECK(result.num_events > 50);
  CHECK(result.text == "equal: " + std::to_string(result.num_events) + " events\n");
  const std::string one = event("start", 0);
  CHECK(Pair(one, one.substr(0, one.size() - 1)).compare().text == "equal: 1 event\n");
}

TEST_CASE("the first difference is named by line, step, event and field", "[cli]") {
  const std::string start = event("start", 0) + event("before_step", 1);
  const TraceComparison field =
      Pair(start + event("after_step", 1, R"(,"window_label":"07:00","is_train":true)"),
           start + event("after_step", 1, R"(,"is_train":false,"extra":null)") + "not read")
          .compare();
  CHECK_FALSE(field.is_equal);
  CHECK(field.num_events == 2);
  CHECK(field.text ==
        "different from line 3 on: step 1, after_step\n"
        "  window_label is \"07:00\" in a and absent in b\n"
        "  is_train is true in a and false in b\n"
        "  extra is absent in a and null in b\n");
  CHECK(Pair(start + event("skip", 2), start + event("after_step", 1)).compare().text ==
        "different from line 3 on: step 2, skip\n"
        "  event is \"skip\" in a and \"after_step\" in b\n"
        "  step is 2 in a and 1 in b\n");
}

TEST_CASE("a trace that ends early is different from the line on where it ends", "[cli]") {
  const std::string one = event("start", 0);
  const std::string two = one + event("before_step", 1);
  CHECK(Pair(one, two).compare().text ==
        "different from line 2 on: step 1, before_step\n"
        "  a ends after 1 event (step 0, start), and b goes on (step 1, before_step)\n");
  CHECK(Pair(two, one).compare().text ==
        "different from line 2 on: step 1, before_step\n"
        "  b ends after 1 event (step 0, start), and a goes on (step 1, before_step)\n");
}

TEST_CASE("a file that is no trace is refused", "[cli]") {
  const std::string good = event("start", 0);
  CHECK_THAT(Pair("", good).failure(), contains_text("/a is empty"));
  CHECK_THAT(Pair(good, "").failure(), contains_text("/b is empty"));
  CHECK_THAT(Pair(good + "\n", good + good).failure(), contains_text("line 2 is not an event"));
  for (const std::string& bad : {std::string("words\n"),
                                 std::string("[1]\n"),
                                 std::string("{}\n"),
                                 std::string(R"({"event":1,"step":0})"),
                                 std::string(R"({"event":"start"})"),
                                 std::string(R"({"event":"start","step":-1})"),
                                 std::string(R"({"event":"start","step":0,"x":[[]]})"),
                                 good.substr(0, 12),
                                 std::string(3, '\0')}) {
    INFO(bad);
    CHECK_THAT(Pair(good, bad).failure(), contains_text("line 1 is not an event"));
  }
  CHECK_THAT(Pair(std::string(200000, ' '), good).failure(),
             contains_text("longer than any event"));
}

TEST_CASE("a file that cannot be read is named", "[cli]") {
  const ScratchFolder folder;
  const std::string good = folder.write("a", event("start", 0)).string();
  const std::string missing = (folder.path() / "none").string();
  CHECK_THROWS_WITH(compare_traces(good, missing),
                    contains_text(missing + " cannot be opened: No such file"));
  CHECK_THROWS_WITH(compare_traces(folder.path().string(), good),
                    contains_text(" cannot be opened: it is a folder"));
  const std::string fifo = (folder.path() / "fifo").string();
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK_THROWS_WITH(compare_traces(good, fifo),
                    contains_text(fifo + " cannot be opened: it is a FIFO"));
}

}  // namespace tenon
