// SPDX-License-Identifier: Apache-2.0
#include "host/plugin/storage_proxy.hpp"
#include "host/text/formatted.hpp"
#include "host/tools/check/at_once.hpp"
#include "host/tools/check/check_functions.hpp"
#include "host/tools/check/subject.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using Names = std::vector<std::string>;

constexpr std::size_t kStorageThreads = 4;
constexpr std::size_t kFileBytes = 100'000;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string code_name(uint32_t code) {
  return code == TENON_NOT_FOUND   ? "TENON_NOT_FOUND"
         : code == TENON_EXISTS    ? "TENON_EXISTS"
         : code == TENON_DATA_LOSS ? "TENON_DATA_LOSS"
                                   : formatted("code {}", code);
}

std::string text_of_names(const Names& names) {
  std::string text;
  for (const std::string& name : names) {
    text += (text.empty() ? "" : ", ") + name;
  }
  return "[" + text + "]";
}

// A storage that is connected to a location of this check.
class StorageTrial {
 public:
  StorageTrial(Subject& subject,
               const CheckedComponent& checked,
               ComponentInstance instance,
               const std::string& location)
      : subject_(subject), name_(checked.name()), storage_(std::move(instance)) {
    note("connect");
    storage_.connect(location);
  }

  const std::string& name() const { return name_; }
  void note(const char* function) { subject_.note(std::string(function) + " of " + name_); }
  // The functions of the storage; the caller notes the call.
  const StorageProxy& calls() const { return storage_; }

  void open(const std::string& checkpoint, bool is_first = true) {
    note("open");
    storage_.open(checkpoint, is_first ? 1 : 0);
  }
  void write_file(const std::string& checkpoint, const std::string& file, std::string_view text) {
    note("create_file, write or close");
    write_at_once(checkpoint, file, text);
  }
  // As above, by several threads at once.
  void write_at_once(const std::string& checkpoint,
                     const std::string& file,
                     std::string_view text) const {
    tenon_storage_file* const out = storage_.create_file(checkpoint, file);
    const std::size_t cut = text.size() / 3;
    storage_.write(out, bytes_of(text.substr(0, cut)));
    storage_.write(out, bytes_of({}));
    storage_.write(out, bytes_of(text.substr(cut)));
    storage_.close(out, 1);
  }
  void commit(const std::string& checkpoint) {
    note("commit");
    storage_.commit(checkpoint);
  }
  void save(const std::string& checkpoint, const std::string& text) {
    open(checkpoint);
    write_file(checkpoint, "a", text);
    commit(checkpoint);
  }
  Names list() {
    note("list");
    return storage_.list();
  }
  Names list_files(const std::string& checkpoint) {
    note("list_files");
    return storage_.list_files(checkpoint);
  }
  std::string read_file(const std::string& checkpoint, const std::string& file) {
    note("file_size or read");
    std::string text(storage_.file_size(checkpoint, file), '\0');
    storage_.read(checkpoint, file, 0, std::as_writable_bytes(std::span(text)));
    return text;
  }
  void remove(const std::string& checkpoint) {
    note("remove");
    storage_.remove(checkpoint);
  }

 private:
  Subject& subject_;
  std::string name_;
  StorageProxy storage_;
};

// Makes storages of one location, as several ranks or processes have them.
class StorageLocation {
 public:
  StorageLocation(Subject& subject, const CheckedComponent& checked)
      : subject_(subject),
        checked_(checked),
        location_(formatted("check-{}/checkpoints", std::random_device()())) {}

  StorageTrial connect() const {
    return {subject_, checked_, subject_.create(checked_), location_};
  }
  StorageTrial connect_elsewhere() const {
    return {subject_, checked_, subject_.create(checked_), location_ + "-2"};
  }

 private:
  Subject& subject_;
  const CheckedComponent& checked_;
  std::string location_;
};

std::string random_text(Subject& subject, std::size_t size) {
  std::mt19937_64 generator = subject.generator();
  std::string text(size, '\0');
  for (char& c : text) {
    c = static_cast<char>(generator() >> 40);
  }
  return text;
}

using StorageBody = std::function<void(
    const StorageLocation& location, const std::string& name, Findings& findings)>;

// A location is removed after the check, also if it finds a problem.
CheckResult for_each_storage(Subject& subject, const StorageBody& body) {
  return subject.for_each_instance(
      "storage",
      [&](const CheckedComponent& checked, ComponentInstance instance, Findings& findings) {
        { const ComponentInstance unused = std::move(instance); }
        const StorageLocation location(subject, checked);
        findings.add_examined();
        try {
          body(location, checked.name(), findings);
        } catch (const Error& error) {
          findings.add_problem(error.message());
        }
        try {
          StorageTrial storage = location.connect();
          for (const std::string& checkpoint : storage.list()) {
            storage.remove(checkpoint);
          }
        } catch (const Error&) {  // the check itself has found it
        }
      });
}

void expect(const Names& found, const Names& wanted, const std::string& what, Findings& findings) {
  if (found != wanted) {
    findings.add_problem(what + " returns " + text_of_names(found) + ", expected " +
                         text_of_names(wanted));
  }
}

// Adds a problem unless `body` fails with this code.
void expect_code(uint32_t code,
                 const std::string& what,
                 const std::function<void()>& body,
                 Findings& findings) {
  try {
    body();
    findings.add_problem(what + " succeeds, expected " + code_name(code));
  } catch (const StatusError& error) {
    if (error.code() != code) {
      findings.add_problem(what + " returns " + code_name(error.code()) + ", expected " +
                           code_name(code));
    }
  }
}

}  // namespace

CheckResult check_storage_round_trip(Subject& subject) {
  return for_each_storage(
      subject, [&](const StorageLocation& location, const std::string& name, Findings& findings) {
        StorageTrial storage = location.connect();
        const std::string text = random_text(subject, kFileBytes);
        storage.open("step-1");
        storage.write_file("step-1", "rank-1.safetensors", text);
        storage.write_file("step-1", "empty", "");
        storage.write_file("step-1", "Z_9.x-y", "short");
        storage.commit("step-1");
        storage.save("another", "text");
        storage.save("a", "text");
        expect(storage.list(), {"step-1", "another", "a"}, "list of " + name, findings);
        StorageTrial other = location.connect();
        expect(other.list(), {"step-1", "another", "a"}, "list of another " + name, findings);
        expect(other.list_files("step-1"),
               {"Z_9.x-y", "empty", "rank-1.safetensors"},
               "list_files of " + name,
               findings);
        if (other.read_file("step-1", "rank-1.safetensors") != text ||
            other.read_file("step-1", "Z_9.x-y") != "short" ||
            !other.read_file("step-1", "empty").empty()) {
          findings.add_problem(name + " reads other bytes than were written");
        }
        constexpr std::size_t kOffset = 777;
        std::string part(1000, '\0');
        other.note("read");
        other.calls().read(
            "step-1", "rank-1.safetensors", kOffset, std::as_writable_bytes(std::span(part)));
        if (part != text.substr(kOffset, part.size())) {
          findings.add_problem(name + " reads other bytes from an offset");
        }
        other.remove("another");
        expect(storage.list(), {"step-1", "a"}, "list of " + name + " after remove", findings);
        expect(
            location.connect_elsewhere().list(), {}, "list of another place of " + name, findings);
        storage.note("address");
        if (storage.calls().address("step-1").empty()) {
          findings.add_problem("address of " + name + " is empty");
        }
      });
}

CheckResult check_storage_commit(Subject& subject) {
  return for_each_storage(
      subject, [](const StorageLocation& location, const std::string& name, Findings& findings) {
        StorageTrial storage = location.connect();
        expect(storage.list(), {}, "list of a new place of " + name, findings);
        storage.open("step-1");
        storage.write_file("step-1", "a", "left over");
        storage.write_file("step-1", "left", "left over");
        StorageTrial other = location.connect();
        expect(other.list(), {}, name + ": list before commit", findings);
        expect_code(
            TENON_NOT_FOUND,
            name + ": list_files before commit",
            [&] { other.list_files("step-1"); },
            findings);
        // Its process dies here; the next open of that name deletes what is left.
        other.open("step-1");
        other.write_file("step-1", "a", "new");
        other.commit("step-1");
        expect(other.list_files("step-1"),
               {"a"},
               "list_files of " + name + " after leftovers of another process",
               findings);
        if (other.read_file("step-1", "a") != "new") {
          findings.add_problem(name + " reads leftovers of another process");
        }
        other.open("step-2");
        other.write_file("step-2", "a", "text");
        other.note("abort");
        other.calls().abort("step-2");
        other.open("step-3");
        other.note("create_file, write or close");
        tenon_storage_file* const out = other.calls().create_file("step-3", "dropped");
        other.calls().write(out, bytes_of("text"));
        other.calls().close(out, 0);
        other.write_file("step-3", "kept", "text");
        other.commit("step-3");
        expect(other.list(), {"step-1", "step-3"}, "list of " + name + " after abort", findings);
        expect(other.list_files("step-3"),
               {"kept"},
               "list_files of " + name + " after a file was discarded",
               findings);
      });
}

CheckResult check_storage_errors(Subject& subject) {
  return for_each_storage(
      subject, [](const StorageLocation& location, const std::string& name, Findings& findings) {
        StorageTrial storage = location.connect();
        storage.save("step-1", "text");
        std::string buffer(5, '\0');
        const auto out = std::as_writable_bytes(std::span(buffer));
        const StorageProxy& calls = storage.calls();
        const auto missing = [&](const char* function,
                                 const std::string& what,
                                 const std::function<void()>& body) {
          storage.note(function);
          expect_code(
              TENON_NOT_FOUND, std::string(function) + " of " + name + " " + what, body, findings);
        };
        missing("list_files", "of a missing checkpoint", [&] { calls.list_files("no"); });
        missing("file_size", "of a missing checkpoint", [&] { calls.file_size("no", "a"); });
        missing("file_size", "of a missing file", [&] { calls.file_size("step-1", "no"); });
        missing("read", "of a missing file", [&] { calls.read("step-1", "no", 0, out); });
        missing("read", "of a missing checkpoint", [&] { calls.read("no", "a", 0, out); });
        missing("commit", "of a checkpoint that is not open", [&] { calls.commit("no"); });
        storage.note("read");
        expect_code(
            TENON_DATA_LOSS,
            "read of " + name + " beyond the end of a file",
            [&] { calls.read("step-1", "a", 0, out); },
            findings);
        storage.note("open");
        expect_code(
            TENON_EXISTS,
            "open of " + name + " for a committed checkpoint",
            [&] { calls.open("step-1", 1); },
            findings);
        if (storage.read_file("step-1", "a") != "text") {
          findings.add_problem(name + " changes a committed checkpoint");
        }
        storage.open("step-2");
        storage.write_file("step-2", "a", "text");
        storage.note("create_file");
        expect_code(
            TENON_EXISTS,
            "create_file of " + name + " for a file that exists",
            [&] { calls.close(calls.create_file("step-2", "a"), 0); },
            findings);
        storage.note("abort or remove");
        calls.abort("step-2");
        calls.abort("step-2");
        calls.abort("no");
        calls.remove("no");
        expect(storage.list(), {"step-1"}, "list of " + name + " after these errors", findings);
      });
}

CheckResult check_storage_at_once(Subject& subject) {
  return for_each_storage(
      subject, [&](const StorageLocation& location, const std::string& name, Findings& findings) {
        StorageTrial storage = location.connect();
        const std::string text = random_text(subject, kFileBytes);
        const auto text_of_thread = [&](std::size_t i) {
          return std::string_view(text).substr(i * 1000, kFileBytes / 2);
        };
        storage.open("step-1");
        storage.note("create_file, write or close by several threads at once");
        run_at_once(kStorageThreads, [&](std::size_t i) {
          storage.write_at_once("step-1", formatted("rank-{}", i), text_of_thread(i));
        });
        storage.commit("step-1");
        std::vector<std::string> found(2 * kStorageThreads);
        storage.note("read by several threads at once");
        run_at_once(2 * kStorageThreads, [&](std::size_t i) {
          // Two threads read each file, in several parts.
          const std::string file = formatted("rank-{}", i / 2);
          found[i].resize(storage.calls().file_size("step-1", file));
          const auto all = std::as_writable_bytes(std::span(found[i]));
          for (std::size_t begin = 0; begin < all.size(); begin += 7001) {
            const std::size_t size = std::min<std::size_t>(7001, all.size() - begin);
            storage.calls().read("step-1", file, begin, all.subspan(begin, size));
          }
        });
        for (std::size_t i = 0; i < found.size(); ++i) {
          if (found[i] != text_of_thread(i / 2)) {
            findings.add_problem(formatted(
                "{} reads other bytes than were written if several threads use it", name));
            return;
          }
        }
      });
}

}  // namespace tenon
