// SPDX-License-Identifier: Apache-2.0
//
// A component that derives from Stateful, beside its kind, has its state saved in checkpoints and
// given back on resume. What it does not put is lost.
#ifndef TENON_CPP_STATEFUL_HPP
#define TENON_CPP_STATEFUL_HPP

#include <tenon/cpp/tensor.hpp>
#include <tenon/state.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tenon {

/* Where `snapshot` puts entries; names are "a/b/c" of [a-z0-9_.-].  Threads as `snapshot` */
class StateWriter {
 public:
  StateWriter(const Host& host, tenon_state_writer* writer) : host_(host), writer_(writer) {}
  void put_int(const char* name, int64_t value, uint32_t scope = TENON_STATE_REPLICATED) {
    host_.check(writer_->put_int(writer_, name, value, scope));
  }
  void put_double(const char* name, double value, uint32_t scope = TENON_STATE_REPLICATED) {
    host_.check(writer_->put_double(writer_, name, value, scope));
  }
  /* At most 1 MiB; copied. */
  void put_bytes(const char* name,
                 const std::string& bytes,
                 uint32_t scope = TENON_STATE_REPLICATED) {
    host_.check(writer_->put_bytes(writer_, name, bytes.data(), bytes.size(), scope));
  }
  /* `flags`: TENON_STATE_COPY where the tensor is later changed in place. */
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

/* What `load` reads from.  Errors TENON_NOT_FOUND, TENON_INVALID for another type */
class StateReader {
 public:
  StateReader(const Host& host, tenon_state_reader* reader) : host_(host), reader_(reader) {}
  /* That the writer's `state_version` gave. */
  uint32_t version() const { return reader_->version; }
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

/* To derive from beside a kind. */
class Stateful {
 public:
  virtual ~Stateful() = default;
  /* Of the entries that `snapshot` writes. */
  virtual uint32_t state_version() const { return 1; }
  /* Cheap, no I/O.  Threads [step], between steps */
  virtual void snapshot(StateWriter& writer) = 0;
  /* May throw for a version it cannot read; the instance is then destroyed.  Threads [main] */
  virtual void load(const StateReader& reader) = 0;
};

/* The table "tenon.stateful/1" of a class. `self` is what the kind's tables get. */
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

}  // namespace tenon

#endif
