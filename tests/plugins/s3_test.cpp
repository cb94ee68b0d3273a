// SPDX-License-Identifier: Apache-2.0
//
// Storage in S3 against a server of S3, which is another program, on loopback: the contract of
// storages, writers that are killed, and a server that does not answer or is gone.
#include "host/checkpoint/commit_record.hpp"
#include "host/checkpoint/plugin_storage.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/host/checkpoint/storage_contract.hpp"
#include "tests/plugins/made_component.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/read_files.hpp"
#include "tests/support/s3_server.hpp"
#include "tests/support/scratch_folder.hpp"

namespace tenon {
namespace {

using Names = std::vector<std::string>;

std::string options_of(const std::string& uri, const nlohmann::json& more = {}) {
  nlohmann::json options = {{"uri", uri}};
  options.update(more.is_null() ? nlohmann::json::object() : more);
  return options.dump();
}

std::unique_ptr<PluginStorage> connect(const std::string& uri,
                                       const std::string& location = "run/checkpoints",
                                       const nlohmann::json& more = {}) {
  for (const auto& [name, value] : S3Server::environment()) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  return std::make_unique<PluginStorage>(make_component("storage", "s3", options_of(uri, more)),
                                         location);
}

// Few tries, soon over.
const nlohmann::json kImpatient = {
    {"attempts", 2}, {"connect_timeout_seconds", 1}, {"timeout_seconds", 1}};

// One server for all that need nothing but an empty place.
const S3Server& shared_server() {
  static const ScratchFolder empty;
  static const S3Server server(empty.path(), "runs");
  return server;
}

std::string uri_in(const S3Server& server, const std::string& prefix) {
  return "s3://runs/" + prefix + server.uri_options();
}

std::string file_of(size_t bytes) {
  return std::string(bytes, 'x');
}

// This program again, in the hidden test case below, until it says that it is at `stop`.
class KilledWriter {
 public:
  KilledWriter(const std::string& uri, const std::string& stop) {
    int out[2];
    if (::pipe2(out, O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "pipe2");
    }
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(out[1], STDERR_FILENO);
      ::setenv("TENON_S3_URI", uri.c_str(), 1);
      ::execl("/proc/self/exe", "s3_test", "a writer that is killed", static_cast<char*>(nullptr));
      ::_exit(127);
    }
    ::close(out[1]);
    std::string line;
    char byte = 0;
    while (!is_there_ && ::read(out[0], &byte, 1) == 1) {
      line = byte == '\n' ? "" : line + byte;
      is_there_ = line == "at " + stop;
    }
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    ::close(out[0]);
  }

  bool was_there() const { return is_there_; }

 private:
  pid_t process_ = -1;
  bool is_there_ = false;
};

}  // namespace

#define TENON_NEED_S3()                                                      \
  if (!S3Server::is_there()) {                                               \
    TENON_SKIP("there is no server of S3; `./dev deps --peers` brings one"); \
  }                                                                          \
  static_cast<void>(0)

TEST_CASE("object storage keeps the contract of storages", "[plugins][checkpoint]") {
  TENON_NEED_S3();
  static int number = 0;
  const std::string uri = uri_in(shared_server(), "contract-" + std::to_string(++number));
  check_storage_contract([&] { return connect(uri); });
}

TEST_CASE("runs in one bucket do not see each other, with or without a prefix",
          "[plugins][checkpoint]") {
  TENON_NEED_S3();
  const auto one = connect(uri_in(shared_server(), ""), "one/checkpoints");
  const auto two = connect(uri_in(shared_server(), ""), "two/checkpoints");
  const auto third = connect(uri_in(shared_server(), "deep/er/"), "one/checkpoints");
  save_checkpoint(*one, "step-1", 1);
  CHECK(two->list().empty());
  CHECK(third->list().empty());
  save_checkpoint(*third, "step-1", 3);
  check_checkpoint(*one, "step-1", 1);
  check_checkpoint(*third, "step-1", 3);
  CHECK(one->address("step-1") == "s3://runs/one/checkpoints/step-1");
  CHECK(third->address("step-1") == "s3://runs/deep/er/one/checkpoints/step-1");
}

TEST_CASE("a file larger than what may wait in memory arrives whole", "[plugins][checkpoint]") {
  TENON_NEED_S3();
  const auto storage =
      connect(uri_in(shared_server(), "large"), "run/checkpoints", {{"upload_bytes", 10 << 20}});
  std::string text = file_of(36'000'000);
  for (size_t i = 0; i < text.size(); i += 4096) {
    text[i] = static_cast<char>(i / 4096 % 251);
  }
  storage->open("step-1", true);
  write_file(*storage, "step-1", "a", text);
  storage->commit("step-1");
  CHECK((read_file(*storage, "step-1", "a") == text));
}

TEST_CASE("objects of others below the same prefix are left alone", "[plugins][checkpoint]") {
  TENON_NEED_S3();
  const ScratchFolder files;
  files.write("p/run/checkpoints/notes/a.txt", "mine");
  files.write("p/run/checkpoints/step-1/a.txt", "mine");
  const S3Server server(files.path(), "runs");
  const auto storage = connect(uri_in(server, "p"));
  CHECK(storage->list().empty());
  CHECK_THAT(error_of([&] { storage->open("step-1", true); }),
             contains_text("already exists and is not a checkpoint"));
  storage->remove("step-1");
  storage->abort("notes");
  save_checkpoint(*storage, "step-2", 2);
  check_checkpoint(*storage, "step-2", 2);
  CHECK_THAT(error_of([&] { storage->open("step-1", true); }), contains_text("[storage.exists]"));
}

TEST_CASE("a bucket that is not there, a wrong URI and wrong keys are told",
          "[plugins][checkpoint]") {
  TENON_NEED_S3();
  CHECK_THAT(error_of([] { connect("s3://absent" + shared_server().uri_options()); }),
             contains_text("[storage.not_found]"));
  CHECK_THAT(error_of([] { connect("s3://absent" + shared_server().uri_options()); }),
             contains_text("bucket does not exist: s3://absent"));
  CHECK_THAT(error_of([] { connect("runs/a"); }),
             contains_text("is not a valid s3://BUCKET/PREFIX"));
  CHECK_THAT(error_of([] { connect("s3://"); }), contains_text("s3://"));
  CHECK_THAT(error_of([] { connect("s3://runs?scheme=gopher"); }),
             contains_text("[plugin.failed]"));
}

TEST_CASE("a writer that is killed", "[.]") {
  const char* const uri = std::getenv("TENON_S3_URI");
  REQUIRE(uri != nullptr);
  const auto storage = connect(uri, "run/checkpoints", {{"upload_bytes", 10 << 20}});
  const auto at = [](const std::string& where) { std::fprintf(stderr, "at %s\n", where.c_str()); };
  at("start");
  storage->open("new", true);
  at("open");
  const std::string part = file_of(11 << 20);
  for (const std::string name : {"a", "b"}) {
    const auto file = storage->create_file("new", name);
    file->write(std::as_bytes(std::span(part)));
    at("half of " + name);
    file->write(std::as_bytes(std::span(part)));
    at("all of " + name);
    file->close();
    at("close of " + name);
  }
  storage->commit("new");
  at("end");
}

TEST_CASE("a writer that is killed leaves nothing that is listed",
          "[plugins][checkpoint][.release]") {
  TENON_NEED_S3();
  int number = 0;
  for (const std::string stop :
       {"start", "open", "half of a", "all of a", "close of a", "half of b", "close of b", "end"}) {
    INFO(stop);
    const std::string uri = uri_in(shared_server(), "killed-" + std::to_string(++number));
    const auto storage = connect(uri);
    save_checkpoint(*storage, "old", 1);
    CHECK(KilledWriter(uri, stop).was_there());
    check_checkpoint(*storage, "old", 1);
    const Names listed = storage->list();
    if (stop == "end") {
      CHECK(listed == Names{"old", "new"});
      CHECK(storage->file_size("new", "b") == 22u << 20);
      continue;
    }
    // Killed behind the last close, it may just have got through.
    if (stop != "close of b" || listed.size() == 1) {
      CHECK(listed == Names{"old"});
      save_checkpoint(*storage, "new", 5);
      check_checkpoint(*storage, "new", 5);
    }
    save_checkpoint(*storage, "next", 7);
    CHECK(storage->list() == Names{"old", "new", "next"});
  }
}

TEST_CASE("a server that is gone in the middle of a save is told in bounded time",
          "[plugins][checkpoint][.release]") {
  TENON_NEED_S3();
  const ScratchFolder empty;
  S3Server server(empty.path(), "runs");
  const auto storage = connect(uri_in(server, "gone"), "run/checkpoints", kImpatient);
  save_checkpoint(*storage, "old", 1);
  storage->open("new", true);
  auto file = storage->create_file("new", "a");
  const std::string part = file_of(11 << 20);
  file->write(std::as_bytes(std::span(part)));
  server.kill();
  // Bounded by the test's own limit; two tries of a connection that is refused take much less.
  const std::string error = error_of([&] {
    for (int i = 0; i < 20; ++i) {
      file->write(std::as_bytes(std::span(part)));
    }
    file->close();
  });
  CHECK_THAT(error, contains_text("[storage.io]"));
  CHECK_THAT(error, contains_text("s3://runs/gone/run/checkpoints/new/a cannot be written"));
  CHECK_THAT(error, contains_text("connect"));
  file.reset();
  CHECK_THAT(error_of([&] { storage->abort("new"); }), contains_text("[storage.io]"));
  CHECK_THAT(error_of([&] { storage->list(); }), contains_text("[storage.io]"));
  CHECK_THAT(error_of([&] { connect(uri_in(server, "gone"), "run/checkpoints", kImpatient); }),
             contains_text("s3://runs cannot be reached"));
}

TEST_CASE("a server that holds still is waited for, and given up in bounded time",
          "[plugins][checkpoint][.release]") {
  TENON_NEED_S3();
  const ScratchFolder empty;
  S3Server server(empty.path(), "runs");
  const std::string uri = uri_in(server, "held");
  const auto storage = connect(uri, "run/checkpoints", kImpatient);
  save_checkpoint(*storage, "old", 1);
  storage->open("new", true);
  server.hold();
  CHECK_THAT(error_of([&] { write_file(*storage, "new", "a", "text"); }),
             contains_text("[storage.io]"));
  server.go_on();
  storage->abort("new");
  CHECK(storage->list() == Names{"old"});
  // One who is patient gets through.
  const auto patient = connect(uri, "run/checkpoints", {{"timeout_seconds", 1}, {"attempts", 20}});
  patient->open("new", true);
  server.hold();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));  // longer than one try
    server.go_on();
  });
  write_file(*patient, "new", "a", "text");
  later.join();
  patient->commit("new");
  CHECK(read_file(*patient, "new", "a") == "text");
}

TEST_CASE("a listing that repeats its pages without end is an error", "[plugins][checkpoint]") {
  TENON_NEED_S3();
  const ScratchFolder empty;
  const S3Server server(empty.path(), "endless");
  const auto storage =
      connect("s3://endless" + server.uri_options(), "run/checkpoints", kImpatient);
  const std::string error = error_of([&] { storage->list(); });
  CHECK_THAT(error, contains_text("[storage.io]"));
  CHECK_THAT(error, contains_text("s3://endless/run/checkpoints cannot be listed"));
  CHECK_THAT(error, contains_text("repeats a page of the listing"));
}

TEST_CASE("a bundle in object storage is the same objects as a local one is files",
          "[plugins][checkpoint]") {
  TENON_NEED_S3();
  const ScratchFolder files;
  // As one that was copied there from a run folder.
  files.write("run/checkpoints/step-7/COMMITTED", commit_record_text(7, "step-7"));
  files.write("run/checkpoints/step-7/a", "content");
  files.write("run/checkpoints/latest", "step-7\n");
  S3Server server(files.path(), "runs");
  const auto storage = connect("s3://runs" + server.uri_options());
  CHECK(storage->list() == Names{"step-7"});
  CHECK(storage->list_files("step-7") == Names{"a"});
  CHECK(read_file(*storage, "step-7", "a") == "content");
  save_checkpoint(*storage, "step-8", 8);
  CHECK(storage->list() == Names{"step-7", "step-8"});
  server.get("run/checkpoints/step-8/COMMITTED", files.path() / "record");
  CHECK(file_text(files.path() / "record") == commit_record_text(8, "step-8"));
}

TEST_CASE("a corrupt COMMITTED in object storage is found, and hides no other checkpoint",
          "[plugins][checkpoint]") {
  TENON_NEED_S3();
  const ScratchFolder files;
  std::string flipped = commit_record_text(9, "flipped");
  flipped[0] = '1';
  for (const auto& [name, text] : {std::pair{"old", std::string("7\n")},  // of an earlier release
                                   {"new", commit_record_text(8, "new")},
                                   {"flipped", flipped},
                                   {"largest", std::string("18446744073709551615\n")},
                                   {"empty", std::string()}}) {
    files.write(std::string("run/checkpoints/") + name + "/COMMITTED", text);
    files.write(std::string("run/checkpoints/") + name + "/a", "content");
  }
  const S3Server server(files.path(), "runs");
  const auto storage = connect("s3://runs" + server.uri_options());
  CHECK(storage->list() == Names{"old", "new", "empty", "flipped", "largest"});
  CHECK(read_file(*storage, "old", "a") == "content");
  for (const char* const name : {"flipped", "largest", "empty"}) {
    CHECK_THAT(error_of([&] { storage->list_files(name); }),
               contains_text("[storage.io]") && contains_text("COMMITTED is corrupt"));
    CHECK_THAT(error_of([&] { read_file(*storage, name, "a"); }), contains_text("[storage.io]"));
  }
  save_checkpoint(*storage, "next", 1);
  CHECK(storage->list() == Names{"old", "new", "next", "empty", "flipped", "largest"});
}

TEST_CASE("data and checkpoints may both be in object storage", "[plugins][checkpoint]") {
  TENON_NEED_S3();
  const ScratchFolder files;
  std::filesystem::copy_file(source_dir() / "tests/plugins/columnar/basic.parquet",
                             files.path() / "basic.parquet");
  const S3Server server(files.path(), "runs");
  const auto storage = connect("s3://runs/kept" + server.uri_options());
  const nlohmann::json options = {{"paths", {"s3://runs/basic.parquet" + server.uri_options()}},
                                  {"columns", {{{"name", "labels"}, {"column", "flag"}}}}};
  const ComponentInstance data = make_component("dataset", "columnar", options.dump());
  save_checkpoint(*storage, "step-1", 1);
  check_checkpoint(*storage, "step-1", 1);
}

}  // namespace tenon
