// SPDX-License-Identifier: Apache-2.0
//
// Measures checkpoints without training, in tensors of 4 Mi floats: writes and reads as plain bytes
// of one file, and as a checkpoint, in turn on the same disk. Saves are durable, and loads start
// with a cold cache. It also measures a copy of the state in memory and the copy of the snapshot.
//
// usage: checkpoint_speed disk FOLDER TENSORS ROUNDS
//        checkpoint_speed copy BYTES ROUNDS THREADS
// (prints a line of JSON with the seconds of each round; the folder stays unchanged)
#include "host/checkpoint/checkpoint_reader.hpp"
#include "host/checkpoint/checkpoint_writer.hpp"
#include "host/checkpoint/local_storage.hpp"
#include "host/error/error.hpp"
#include "host/io/durable_file.hpp"
#include "host/tensor/state/state_tree.hpp"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace tenon {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kElements = int64_t{4} << 20;  // per tensor
constexpr size_t kPiece = size_t{8} << 20;       // bytes per plain write or read
constexpr const char* kCheckpoint = "state";

template <class Call>
double seconds(Call call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// No two tensors, and no two pages, have the same bytes.
std::vector<at::Tensor> make_state(int64_t num_tensors) {
  std::vector<at::Tensor> state;
  uint32_t random = 1;
  for (int64_t t = 0; t < num_tensors; ++t) {
    state.push_back(at::empty({kElements}, at::kFloat));
    auto* const values = state.back().mutable_data_ptr<float>();
    for (int64_t i = 0; i < kElements; ++i) {
      random = random * 1664525u + 1013904223u;
      values[i] = static_cast<float>(random) * 0x1p-32f;
    }
  }
  return state;
}

std::vector<at::Tensor> make_room(const std::vector<at::Tensor>& state) {
  std::vector<at::Tensor> room;
  for (const at::Tensor& tensor : state) {
    room.push_back(at::zeros_like(tensor));
    std::memset(room.back().mutable_data_ptr(), 1, tensor.nbytes());
  }
  return room;
}

void check_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a[i].const_data_ptr(), b[i].const_data_ptr(), a[i].nbytes()) != 0) {
      throw Error("bench.differs", "tensor " + std::to_string(i) + " is not what was saved");
    }
  }
}

OpenFile open_or_throw(const std::string& path, int flags) {
  OpenFile file(::open(path.c_str(), flags | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    throw_disk_error("open", path, errno);
  }
  return file;
}

void write_plain(const std::string& path, const std::vector<at::Tensor>& state) {
  const OpenFile file = open_or_throw(path, O_WRONLY | O_CREAT | O_EXCL);
  for (const at::Tensor& tensor : state) {
    const auto* const bytes = static_cast<const std::byte*>(tensor.const_data_ptr());
    for (size_t at = 0; at < tensor.nbytes();) {
      const ssize_t n = ::write(file.get(), bytes + at, std::min(kPiece, tensor.nbytes() - at));
      if (n <= 0) {
        throw_disk_error("write", path, errno);
      }
      at += static_cast<size_t>(n);
    }
  }
  if (::fsync(file.get()) != 0) {
    throw_disk_error("sync", path, errno);
  }
  sync_folder(fs::path(path).parent_path().string());
}

void read_plain(const std::string& path, const std::vector<at::Tensor>& room) {
  const OpenFile file = open_or_throw(path, O_RDONLY);
  for (const at::Tensor& tensor : room) {
    auto* const bytes = static_cast<std::byte*>(tensor.mutable_data_ptr());
    for (size_t at = 0; at < tensor.nbytes();) {
      const ssize_t n = ::read(file.get(), bytes + at, std::min(kPiece, tensor.nbytes() - at));
      if (n <= 0) {
        throw_disk_error("read", path, errno);
      }
      at += static_cast<size_t>(n);
    }
  }
}

std::string name_of(size_t i) {
  return "parameters/values/" + std::to_string(i);
}

void save(LocalStorage& storage, const std::vector<at::Tensor>& state) {
  StateTree tree;
  for (size_t i = 0; i < state.size(); ++i) {
    tree.put_tensor(name_of(i), state[i], StateTree::Copy::kNo);
  }
  const std::atomic<bool> give_up = false;
  storage.open(kCheckpoint, /*is_first=*/true);
  std::vector<RankShare> shares;
  shares.push_back(write_share(tree, {}, storage, kCheckpoint, give_up));
  CheckpointMetadata metadata;
  metadata.run = "bench";
  metadata.kind = "full";
  const CheckpointIndex index = merged(std::move(metadata), std::move(shares));
  for (const auto& [name, content] : index_files(index, "{}")) {
    write_file(name, content, storage, kCheckpoint);
  }
  storage.commit(kCheckpoint);
}

void load(const std::shared_ptr<LocalStorage>& storage, const std::vector<at::Tensor>& room) {
  const CheckpointReader reader(storage, kCheckpoint);
  const StateTree tree = reader.state(0, 1, nullptr);
  for (size_t i = 0; i < room.size(); ++i) {
    tree.copy_tensor(name_of(i), room[i]);
  }
}

// Written data is already on the disk.
void drop_from_cache(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) {
      const OpenFile file = open_or_throw(entry.path().string(), O_RDONLY);
      ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
  }
}

// Maps memory before a timing, so that a virtual machine does not wait for pages within the timing.
// Also waits until the disk has freed removed files.
void resolve(const std::vector<at::Tensor>& state) {
  ::sync();
  const size_t bytes = state.size() * state.front().nbytes();
  void* const pages =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages != MAP_FAILED) {
    std::memset(pages, 1, bytes);
    ::munmap(pages, bytes);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
}

nlohmann::json measure_disk(const fs::path& folder, int64_t num_tensors, int rounds) {
  const fs::path own = folder / "checkpoint_speed";
  fs::create_directories(own);
  const std::string plain = (own / "plain").string();
  const std::vector<at::Tensor> state = make_state(num_tensors);
  const std::vector<at::Tensor> room = make_room(state);
  const auto storage = std::make_shared<LocalStorage>((own / "checkpoints").string());
  nlohmann::json result;
  for (int round = 0; round < rounds; ++round) {
    const auto both = [&](auto first, auto second) {
      if (round % 2 == 0) {
        first();
        second();
      } else {
        second();
        first();
      }
    };
    both(
        [&] {
          resolve(state);
          result["write_s"].push_back(seconds([&] { write_plain(plain, state); }));
        },
        [&] {
          resolve(state);
          result["save_s"].push_back(seconds([&] { save(*storage, state); }));
        });
    both(
        [&] {
          drop_from_cache(own);
          resolve(state);
          result["read_s"].push_back(seconds([&] { read_plain(plain, room); }));
          check_equal(state, room);
          std::memset(room.front().mutable_data_ptr(), 1, room.front().nbytes());
        },
        [&] {
          drop_from_cache(own);
          resolve(state);
          result["load_s"].push_back(seconds([&] { load(storage, room); }));
          check_equal(state, room);
          std::memset(room.front().mutable_data_ptr(), 1, room.front().nbytes());
        });
    fs::remove(plain);
    storage->remove(kCheckpoint);
  }
  fs::remove_all(own);
  result["bytes"] = num_tensors * kElements * int64_t{sizeof(float)};
  return result;
}

// A copy into mapped memory by one thread, and the copy of the snapshot.
nlohmann::json measure_copy(int64_t bytes, int rounds) {
  const std::vector<at::Tensor> state =
      make_state(std::max<int64_t>(1, bytes / (kElements * int64_t{sizeof(float)})));
  const std::vector<at::Tensor> room = make_room(state);
  nlohmann::json result;
  for (int round = 0; round < rounds; ++round) {
    result["copy_s"].push_back(seconds([&] {
      for (size_t i = 0; i < state.size(); ++i) {
        std::memcpy(room[i].mutable_data_ptr(), state[i].const_data_ptr(), state[i].nbytes());
      }
    }));
    StateTree tree(StateTree::Copies::kOnHost);
    result["snapshot_s"].push_back(seconds([&] {
      for (size_t i = 0; i < state.size(); ++i) {
        tree.put_tensor(name_of(i), state[i], StateTree::Copy::kYes);
      }
    }));
  }
  result["bytes"] = static_cast<int64_t>(state.size()) * kElements * int64_t{sizeof(float)};
  return result;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  const std::string what = argc == 5 ? argv[1] : "";
  if (what != "disk" && what != "copy") {
    std::fputs(
        "usage: checkpoint_speed disk FOLDER TENSORS ROUNDS\n"
        "       checkpoint_speed copy BYTES ROUNDS THREADS\n",
        stderr);
    return 2;
  }
  try {
    nlohmann::json result;
    if (what == "disk") {
      result = tenon::measure_disk(argv[2], std::atoll(argv[3]), std::atoi(argv[4]));
    } else {
      at::set_num_threads(std::atoi(argv[4]));
      result = tenon::measure_copy(std::atoll(argv[2]), std::atoi(argv[3]));
    }
    std::printf("%s\n", result.dump().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
