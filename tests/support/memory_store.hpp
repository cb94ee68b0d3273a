// SPDX-License-Identifier: Apache-2.0
//
// A store of ranks that is plain memory of one process, and that can go as one does whose keeper
// has died.
#pragma once

#include "host/distributed/ranks/store.hpp"
#include "host/error/error.hpp"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace tenon {

struct Memory {
  std::mutex mutex;
  std::map<std::string, std::string> texts;
  std::atomic<bool> is_gone = false;
  std::condition_variable changed;
};

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(Memory& memory) : memory_(memory) {}
  void set(const std::string& key, const std::string& value) override {
    const auto lock = open();
    memory_.texts[key] = value;
    memory_.changed.notify_all();
  }
  std::optional<std::string> find(const std::string& key) override {
    const auto lock = open();
    const auto text = memory_.texts.find(key);
    return text != memory_.texts.end() ? std::optional(text->second) : std::nullopt;
  }
  std::string set_once(const std::string& key, const std::string& value) override {
    const auto lock = open();
    return memory_.texts.try_emplace(key, value).first->second;
  }
  int64_t add(const std::string& key, int64_t amount) override {
    const auto lock = open();
    std::string& text = memory_.texts.try_emplace(key, "0").first->second;
    const int64_t sum = std::stoll(text) + amount;
    text = std::to_string(sum);
    return sum;
  }

 private:
  std::unique_lock<std::mutex> open() {
    if (memory_.is_gone) {
      throw Error("distributed.failed", "connection closed");
    }
    return std::unique_lock(memory_.mutex);
  }
  Memory& memory_;
};

}  // namespace tenon
