// SPDX-License-Identifier: Apache-2.0
#include "host/train/run/run_kernels.hpp"

#include <array>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

constexpr std::array<std::string_view, 2> kTwo = {"one", "other"};

KernelQuestion question(int64_t size) {
  return {.op = "run_kernels.part", .dtype = at::kFloat, .sizes = {size, 1, 1}, .candidates = kTwo};
}

// Prefers "other" clearly, or must not be asked.
void prefer_other(size_t candidate) {
  std::this_thread::sleep_for(std::chrono::milliseconds(candidate == 0 ? 40 : 1));
}
void must_not_run(size_t /*candidate*/) {
  FAIL("measured");
}

// As in another process: nothing is known but what the file has.
void forget() {
  set_kernel_policy({});
}

class KeptIn {
 public:
  explicit KeptIn(const std::string& file) {
    set_kernel_policy({});
    set_kernel_answer_keeper(kernel_answers_in(file));
  }
  ~KeptIn() {
    set_kernel_answer_keeper(kernel_answers_in(""));
    set_kernel_policy({});
  }
  KeptIn(const KeptIn&) = delete;
  KeptIn& operator=(const KeptIn&) = delete;
};

}  // namespace

TEST_CASE("what was measured once is kept for later processes", "[train]") {
  const ScratchFolder folder;
  const std::string file = folder.path().string() + "/new/folder/kernels.json";
  const KeptIn kept(file);
  CHECK(choose_kernel(question(1), prefer_other) == 1);
  struct stat status {};
  REQUIRE(::stat(file.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777U) == 0600U);
  forget();
  CHECK(choose_kernel(question(1), must_not_run) == 1);
  CHECK(choose_kernel(question(2), prefer_other) == 1);
  forget();
  CHECK(choose_kernel(question(2), must_not_run) == 1);
  CHECK_THAT(kernel_answers_text(), contains_text("run_kernels.part Float 2x1x1"));
  CHECK_THAT(kernel_answers_text(), contains_text(kernel_machine()));
}

TEST_CASE("a cache of choices that cannot be read or trusted costs a measurement", "[train]") {
  const ScratchFolder folder;
  const std::string file = folder.path().string() + "/kernels.json";
  const KeptIn kept(file);
  for (const std::string& text :
       {std::string(),
        std::string("not JSON"),
        std::string(R"({"format": "tenon kernels 1"})"),
        std::string(R"({"format": "tenon kernels 1", "machines": []})"),
        R"({"format": "tenon kernels 1", "machines": {")" + kernel_machine() + R"(": 3}})",
        R"({"format": "tenon kernels 9", "machines": {")" + kernel_machine() +
            R"(": {"run_kernels.part Float 1x1x1 2 threads": "one"}}})",
        std::string(100, '[')}) {
    CAPTURE(text);
    folder.write("kernels.json", text);
    forget();
    CHECK(choose_kernel(question(1), prefer_other) == 1);
  }
  // Others could have written it.
  forget();
  REQUIRE(::chmod(file.c_str(), 0666) == 0);
  CHECK(choose_kernel(question(1), prefer_other) == 1);
}

TEST_CASE("choices are kept where the cache is no folder", "[train]") {
  const ScratchFolder folder;
  folder.write("cache", "a file");
  const KeptIn kept(folder.path().string() + "/cache/kernels.json");
  CHECK(choose_kernel(question(1), prefer_other) == 1);
  CHECK(choose_kernel(question(1), must_not_run) == 1);
}

}  // namespace tenon
