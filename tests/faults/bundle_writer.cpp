// SPDX-License-Identifier: Apache-2.0
//
// The process that storage_faults_test.cpp lets fail: `checkpoint_writer save|remove ROOT NAME`
// makes or removes a bundle in local storage, and then opens the file ROOT.end: a last place to
// fail at. Exit status 0, or 1 with the error on stderr.
#include "host/checkpoint/local_storage.hpp"
#include "host/error/error.hpp"

#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

namespace {

void save(tenon::LocalStorage& storage, const std::string& name) {
  storage.open(name, true);
  // "a" is large enough that the disk is told to begin early; each comes in two pieces.
  for (const auto& [file, size] : {std::pair{"a", 5u << 20}, std::pair{"b", 1000u}}) {
    const auto out = storage.create_file(name, file);
    const std::string piece(size, file[0]);
    out->write(std::as_bytes(std::span(piece)));
    out->write(std::as_bytes(std::span(piece)));
    out->close();
  }
  storage.commit(name);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fputs("usage: bundle_writer save|remove ROOT NAME\n", stderr);
    return 2;
  }
  try {
    tenon::LocalStorage storage(argv[2]);
    if (std::string_view(argv[1]) == "save") {
      save(storage, argv[3]);
    } else {
      storage.remove(argv[3]);
    }
    ::close(::open((std::string(argv[2]) + ".end").c_str(), O_WRONLY | O_CREAT, 0666));
    return 0;
  } catch (const tenon::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
