// SPDX-License-Identifier: Apache-2.0
#include "tests/host/checkpoint/storage_contract.hpp"

#include "host/error/error.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

namespace tenon {
namespace {

using Names = std::vector<std::string>;

std::string id_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.id();
  }
  return "";
}

// Bytes that differ from place to place, not only from file to file.
std::string content(int seed, size_t size) {
  std::string text(size, '\0');
  uint32_t x = static_cast<uint32_t>(seed) * 2654435761u + 1;
  for (char& c : text) {
    x = x * 1664525u + 1013904223u;
    c = static_cast<char>(x >> 24);
  }
  return text;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

void write_file(CheckpointStore& storage,
                const std::string& checkpoint,
                const std::string& file,
                const std::string& text) {
  const auto out = storage.create_file(checkpoint, file);
  out->write(bytes_of(text));
  out->close();
}

void save_checkpoint(CheckpointStore& storage, const std::string& checkpoint, int seed) {
  storage.open(checkpoint, true);
  write_file(storage, checkpoint, "a", content(seed, 1000));
  write_file(storage, checkpoint, "b", content(seed + 1, 100'000));
  storage.commit(checkpoint);
}

void check_checkpoint(CheckpointStore& storage, const std::string& checkpoint, int seed) {
  const Names listed = storage.list();
  CHECK(std::ranges::count(listed, checkpoint) == 1);
  CHECK(storage.list_files(checkpoint) == Names{"a", "b"});
  CHECK((read_file(storage, checkpoint, "a") == content(seed, 1000)));
  CHECK((read_file(storage, checkpoint, "b") == content(seed + 1, 100'000)));
}

std::string read_file(CheckpointStore& storage,
                      const std::string& checkpoint,
                      const std::string& file) {
  std::string text(storage.file_size(checkpoint, file), '\0');
  storage.read(checkpoint, file, 0, std::as_writable_bytes(std::span(text)));
  return text;
}

void check_storage_contract(const std::function<std::unique_ptr<CheckpointStore>()>& connect) {
  const auto storage = connect();
  CHECK(storage->list().empty());

  SECTION("a bundle appears with its commit, wholly, and for others too") {
    const std::string large = content(7, 23'000'000);
    storage->open("step-1", true);
    const auto out = storage->create_file("step-1", "rank-0.safetensors");
    const std::span<const std::byte> all = bytes_of(large);
    out->write(all.first(1));
    out->write({});
    out->write(all.subspan(1, 9'000'000));
    out->write(all.subspan(9'000'001));
    out->close();
    write_file(*storage, "step-1", "empty", "");
    CHECK(storage->list().empty());
    CHECK(connect()->list().empty());
    CHECK(id_of([&] { storage->list_files("step-1"); }) == "storage.not_found");
    CHECK(id_of([&] { storage->file_size("step-1", "empty"); }) == "storage.not_found");
    CHECK(id_of([&] { storage->read("step-1", "empty", 0, {}); }) == "storage.not_found");
    storage->commit("step-1");
    for (const auto& reader : {connect(), connect()}) {
      CHECK(reader->list() == Names{"step-1"});
      CHECK(reader->list_files("step-1") == Names{"empty", "rank-0.safetensors"});
      CHECK(reader->file_size("step-1", "rank-0.safetensors") == large.size());
      CHECK(reader->file_size("step-1", "empty") == 0);
      CHECK((read_file(*reader, "step-1", "rank-0.safetensors") == large));
    }
    CHECK(storage->address("step-1").ends_with("/step-1"));
  }

  SECTION("ranks write files of their own, at once, and one of them commits") {
    const auto other = connect();
    storage->open("step-1", true);
    other->open("step-1", false);
    std::thread rank([&] { write_file(*other, "step-1", "b", content(2, 3'000'000)); });
    write_file(*storage, "step-1", "a", content(1, 3'000'000));
    rank.join();
    storage->commit("step-1");
    CHECK((read_file(*other, "step-1", "a") == content(1, 3'000'000)));
    CHECK((read_file(*storage, "step-1", "b") == content(2, 3'000'000)));
  }

  SECTION("any part of a file can be read, by several threads; what lies beyond its end cannot") {
    save_checkpoint(*storage, "step-1", 5);
    const std::string expected = content(6, 100'000);
    std::vector<std::string> parts(4, std::string(25'000, '\0'));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < parts.size(); ++i) {
      threads.emplace_back([&, i] {
        storage->read("step-1", "b", i * 25'000, std::as_writable_bytes(std::span(parts[i])));
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    CHECK((parts[0] + parts[1] + parts[2] + parts[3] == expected));
    std::string beyond(1001, '\0');
    const auto buffer = std::as_writable_bytes(std::span(beyond));
    CHECK(id_of([&] { storage->read("step-1", "a", 0, buffer); }) == "storage.io");
    CHECK(id_of([&] { storage->read("step-1", "a", 5000, buffer.first(1)); }) == "storage.io");
    CHECK(id_of([&] { storage->read("step-1", "c", 0, buffer); }) == "storage.not_found");
    CHECK(id_of([&] { storage->file_size("step-1", "c"); }) == "storage.not_found");
  }

  SECTION("bundles are listed in the order of their commits, whatever their names") {
    save_checkpoint(*storage, "z", 1);
    save_checkpoint(*connect(), "a", 2);
    save_checkpoint(*storage, "m", 3);
    CHECK(storage->list() == Names{"z", "a", "m"});
    CHECK(connect()->list() == Names{"z", "a", "m"});
    storage->remove("m");
    save_checkpoint(*connect(), "b", 4);
    CHECK(storage->list() == Names{"z", "a", "b"});
  }

  SECTION("a committed bundle is not written over; once removed its name is free") {
    save_checkpoint(*storage, "step-1", 1);
    CHECK(id_of([&] { storage->open("step-1", true); }) == "storage.exists");
    CHECK(id_of([&] { connect()->open("step-1", false); }) == "storage.exists");
    check_checkpoint(*storage, "step-1", 1);
    storage->remove("step-1");
    CHECK(storage->list().empty());
    CHECK(id_of([&] { storage->list_files("step-1"); }) == "storage.not_found");
    save_checkpoint(*storage, "step-1", 9);
    check_checkpoint(*connect(), "step-1", 9);
  }

  SECTION("a bundle that was given up leaves nothing, and its name is free") {
    save_checkpoint(*storage, "step-1", 1);
    storage->open("step-2", true);
    write_file(*storage, "step-2", "other", "text");
    storage->abort("step-2");
    CHECK(connect()->list() == Names{"step-1"});
    CHECK(id_of([&] { storage->commit("step-2"); }) == "storage.not_found");
    save_checkpoint(*storage, "step-2", 2);
    check_checkpoint(*storage, "step-2", 2);
  }

  SECTION("a file that was not closed is in no bundle") {
    storage->open("step-1", true);
    storage->create_file("step-1", "lost")->write(bytes_of("some of it"));
    storage->abort("step-1");
    storage->open("step-1", true);
    write_file(*storage, "step-1", "kept", "text");
    storage->commit("step-1");
    CHECK(storage->list_files("step-1") == Names{"kept"});
  }

  SECTION("what a dead process left of a bundle is not listed, and is cleared by the next open") {
    {
      const auto dead = connect();
      dead->open("step-1", true);
      write_file(*dead, "step-1", "other", "text");
    }
    CHECK(storage->list().empty());
    save_checkpoint(*storage, "step-1", 3);
    check_checkpoint(*storage, "step-1", 3);
  }

  SECTION("removing and giving up what is not there is no error") {
    save_checkpoint(*storage, "step-1", 1);
    storage->remove("step-2");
    storage->abort("step-2");
    storage->remove("step-1");
    storage->remove("step-1");
    CHECK(storage->list().empty());
    storage->open("step-3", true);
    write_file(*storage, "step-3", "a", "text");
    storage->remove("step-3");
    CHECK(id_of([&] { storage->commit("step-3"); }) == "storage.not_found");
  }

  SECTION("names that lead elsewhere are refused") {
    for (const char* name :
         {"", ".", "..", ".hidden", "a/b", "../a", "a b", "latest", "COMMITTED"}) {
      INFO(name);
      CHECK(id_of([&] { storage->open(name, true); }) == "storage.bad_name");
      CHECK(id_of([&] { storage->list_files(name); }) == "storage.bad_name");
      CHECK(id_of([&] { storage->remove(name); }) == "storage.bad_name");
    }
    save_checkpoint(*storage, "step-1", 1);
    std::byte byte{};
    CHECK(id_of([&] {
            storage->read("step-1", "../step-1/a", 0, {&byte, 1});
          }) == "storage.bad_name");
    storage->open("step-2", true);
    CHECK(id_of([&] { storage->create_file("step-2", "COMMITTED"); }) == "storage.bad_name");
    write_file(*storage, "step-2", "a", "text");
    CHECK(id_of([&] { storage->create_file("step-2", "a"); }) == "storage.exists");
  }
}

}  // namespace tenon
