// SPDX-License-Identifier: Apache-2.0
//
// Saves and restores component state. A component derives from Stateful in addition to its kind.
// State that it does not save is lost on resume. <tenon/state.h> defines the contract.
#ifndef TENON_CPP_STATEFUL_HPP
#define TENON_CPP_STATEFUL_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/state.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Receives the entries of a snapshot. Names are paths "a/b/c" whose parts use [a-z0-9_.-].
 *
 * Errors   TENON_INVALID for an invalid or duplicate name, an unknown scope or unknown flags
 * Threads  those of `snapshot`, and only during it */
class StateWriter {
 public:
  StateWriter(const Host& host, tenon_state_writer* writer) : host_(host), writer_(writer) {}
  void put_int(const char* name, int64_t value, uint32_t scope = TENON_STATE_REPLICATED) {
    host_.check(writer_->put_int(writer_, name, value, scope));
  }
  void put_double(const char* name, double value, uint32_t scope = TENON_STATE_REPLICATED) {
    host_.check(writer_->put_double(writer_, name, value, scope));
  }
  /* Saves at most 1 MiB; copied. */
  void put_bytes(const char* name,
                 const std::string& bytes,
                 uint32_t scope = TENON_STATE_REPLICATED) {
    host_.check(writer_->put_bytes(writer_, name, bytes.data(), bytes.size(), scope));
  }
  /* Saves a tensor. Set TENON_STATE_COPY in `flags` if the tensor is changed in place later.
   *
   * Owner    the host takes a reference */
  void put_tensor(const char* name,
                  const tenon_tensor* tensor,
                  uint32_t scope = TENON_STATE_REPLICATED,
                  uint32_t flags = 0) {
    host_.check(writer_->put_tensor(writer_, name, tensor, scope, flags));
  }

 private:
  Host host_;
  tenon_state_writer* writer_;
};

/* Name and type of an entry of a checkpoint. */
struct StateEntry {
  std::string name;
  uint32_t type = 0; /* TENON_STATE_INT to TENON_STATE_TENSOR */
};

/* Gives access to the entries of a checkpoint.
 *
 * Errors   TENON_NOT_FOUND if there is no such entry, TENON_INVALID if it has another type
 * Threads  those of `load`, and only during it */
class StateReader {
 public:
  StateReader(const Host& host, tenon_state_reader* reader) : host_(host), reader_(reader) {}
  /* The `state_version` of the component that saved the entries. */
  uint32_t version() const { return reader_->version; }
  /* Returns all entries, sorted by name. */
  std::vector<StateEntry> entries() const {
    size_t num_entries = 0;
    host_.check(reader_->get_num_entries(reader_, &num_entries));
    std::vector<StateEntry> out;
    out.reserve(num_entries);
    for (size_t i = 0; i < num_entries; ++i) {
      const char* name = nullptr;
      uint32_t type = 0;
      host_.check(reader_->get_entry(reader_, i, &name, &type));
      out.push_back({name, type});
    }
    return out;
  }
  /* Returns true if there is an entry of this name, of any type. */
  bool has(const std::string& name) const {
    const std::vector<StateEntry> all = entries();
    return std::any_of(
        all.begin(), all.end(), [&](const StateEntry& entry) { return entry.name == name; });
  }
  int64_t get_int(const char* name) const {
    int64_t out = 0;
    host_.check(reader_->get_int(reader_, name, &out));
    return out;
  }
  double get_double(const char* name) const {
    double out = 0;
    host_.check(reader_->get_double(reader_, name, &out));
    return out;
  }
  std::string get_bytes(const char* name) const {
    const void* data = nullptr;
    size_t size = 0;
    host_.check(reader_->get_bytes(reader_, name, &data, &size));
    return {static_cast<const char*>(data), size};
  }
  /* Borrowed until `load` returns. */
  const tenon_tensor* get_tensor(const char* name) const {
    const tenon_tensor* out = nullptr;
    host_.check(reader_->get_tensor(reader_, name, &out));
    return out;
  }

 private:
  Host host_;
  tenon_state_reader* reader_;
};

/* Base class of components with state; derive from it in addition to a kind. */
class Stateful {
 public:
  virtual ~Stateful() = default;
  /* Returns the version of the entries that `snapshot` writes.
   *
   * Errors   none: an exception ends the process
   * Threads  [any] */
  virtual uint32_t state_version() const { return 1; }
  /* Saves the state. It must be cheap and do no I/O.
   *
   * Errors   any exception makes the checkpoint fail
   * Threads  [step], between steps
   * Owner    `writer` is borrowed until return */
  virtual void snapshot(StateWriter& writer) = 0;
  /* Restores the state.
   *
   * Errors   TENON_UNSUPPORTED for a version it cannot read. After an exception the host destroys
   *          the instance
   * Threads  [main]
   * Owner    `reader` is borrowed until return */
  virtual void load(const StateReader& reader) = 0;
};

/* The table "tenon.stateful/1" of a class. `self` is that of the kind's tables. */
template <class T>
struct StatefulCalls {
  static T& of(void* self) {
    TENON_CHECK(self != nullptr, "self is null");
    return *static_cast<T*>(static_cast<typename T::Kind*>(self));
  }
  static const tenon_host* host(void* self) noexcept {
    return self == nullptr ? PluginHost::get() : static_cast<typename T::Kind*>(self)->host().get();
  }
  static uint32_t version(void* self) noexcept {
    return self == nullptr ? 0
                           : static_cast<T*>(static_cast<typename T::Kind*>(self))->state_version();
  }
  static tenon_status* snapshot(void* self, tenon_state_writer* raw) noexcept {
    return guard(host(self), [&] {
      T& instance = of(self);
      TENON_CHECK(raw != nullptr, "the writer is null");
      StateWriter writer(instance.host(), raw);
      instance.snapshot(writer);
    });
  }
  static tenon_status* load(void* self, tenon_state_reader* raw) noexcept {
    return guard(host(self), [&] {
      T& instance = of(self);
      TENON_CHECK(raw != nullptr, "the reader is null");
      instance.load(StateReader(instance.host(), raw));
    });
  }
  static const tenon_stateful& table() {
    static const tenon_stateful calls{sizeof(tenon_stateful), version, snapshot, load};
    return calls;
  }
};

TENON_NAMESPACE_END

#endif
