// SPDX-License-Identifier: Apache-2.0
#include "host/process/run_witness.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/support/catch.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A run with a witness, in a process that is killed. `before` is called while it runs, `after`
// between its end and that of the witness, which is stopped meanwhile.
template <class After>
void kill_run(const fs::path& folder, After after) {
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  std::ofstream(folder / ".lock") << "process 1 on here\n";
  const pid_t run = ::fork();
  if (run == 0) {
    // The witness is the only child of this process.
    RunWitness witness;
    witness.expect({.file = (folder / "summary.json").string(),
                    .text = "{\"steps\": 0}",
                    .lock = (folder / ".lock").string(),
                    .owner = "process 1 on here"});
    std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    pid_t child = 0;
    children >> child;
    (void)!::write(ready[1], &child, sizeof(child));
    ::pause();
    ::_exit(0);
  }
  pid_t witness = 0;
  REQUIRE(::read(ready[0], &witness, sizeof(witness)) == sizeof(witness));
  REQUIRE(witness > 0);
  ::kill(witness, SIGSTOP);
  ::kill(run, SIGKILL);
  REQUIRE(::waitpid(run, nullptr, 0) == run);
  after();
  ::kill(witness, SIGCONT);
  while (::kill(witness, 0) == 0 &&
         text_of("/proc/" + std::to_string(witness) + "/stat").find(" Z ") == std::string::npos) {
    std::this_thread::yield();  // the test's own limit is the bound
  }
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace

TEST_CASE("a witness writes the summary of a run that was killed", "[train]") {
  const ScratchFolder folder;
  kill_run(folder.path(), [] {});
  CHECK_THAT(text_of(folder.path() / "summary.json"), contains_text("run.killed"));
}

TEST_CASE("a witness that continues late leaves the summary of the next run alone", "[train]") {
  const ScratchFolder folder;
  SECTION("the next run has ended") {
    kill_run(folder.path(), [&folder] {
      folder.write("summary.json", "of the next run");
      fs::remove(folder.path() / ".lock");
    });
    CHECK(text_of(folder.path() / "summary.json") == "of the next run");
  }
  SECTION("the next run uses the folder") {
    kill_run(folder.path(), [&folder] { folder.write(".lock", "process 2 on here\n"); });
    CHECK_FALSE(fs::exists(folder.path() / "summary.json"));
  }
}

}  // namespace tenon
