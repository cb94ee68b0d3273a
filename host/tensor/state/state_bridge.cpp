// SPDX-License-Identifier: Apache-2.0

#include "host/tensor/state/state_bridge.hpp"

#include "host/tensor/handle.hpp"
#include "host/tensor/not_null.hpp"
#include "host/tensor/torch_guard.hpp"
#include "host/text/formatted.hpp"

#include <utility>
#include <variant>

namespace tenon {
namespace {

std::string full_name(const std::string& prefix, const char* name) {
  not_null(name, "name");
  if (!is_legal_state_name(name)) {
    throw Error("state.bad_entry",
                "'" + std::string(name) +
                    "' is not a valid state name; use parts of [a-z0-9_.-] separated by slashes");
  }
  return state_path(prefix, name);
}

// Checks that plugins may use the scope; the host has one more.
uint32_t checked(uint32_t scope, const std::string& path) {
  if (scope > TENON_STATE_PER_RANK) {
    throw Error("state.bad_entry", formatted("entry '{}' has the unknown scope {}", path, scope));
  }
  return scope;
}

tenon_status* null_table() {
  return make_status(
      nullptr, TENON_INVALID, "tensor.bad_argument", "the state writer or reader is null");
}

}  // namespace

struct StateWriter::Callbacks {
  template <class Put>
  static tenon_status* put(tenon_state_writer* table, const char* name, Put put_value) {
    if (table == nullptr || table->impl == nullptr) {
      return null_table();
    }
    StateWriter& self = *static_cast<StateWriter*>(table->impl);
    return torch_guard(
        self.host_, "state: ", [&] { put_value(self.tree_, full_name(self.prefix_, name)); });
  }

  static tenon_status* put_int(tenon_state_writer* table,
                               const char* name,
                               int64_t value,
                               uint32_t scope) {
    return put(table, name, [&](StateTree& tree, const std::string& path) {
      tree.put_int(path, value, checked(scope, path));
    });
  }
  static tenon_status* put_double(tenon_state_writer* table,
                                  const char* name,
                                  double value,
                                  uint32_t scope) {
    return put(table, name, [&](StateTree& tree, const std::string& path) {
      tree.put_double(path, value, checked(scope, path));
    });
  }
  static tenon_status* put_bytes(
      tenon_state_writer* table, const char* name, const void* data, size_t size, uint32_t scope) {
    return put(table, name, [&](StateTree& tree, const std::string& path) {
      if (size > 0) {
        not_null(static_cast<const char*>(data), "data");
      }
      tree.put_bytes(path, {static_cast<const char*>(data), size}, checked(scope, path));
    });
  }
  static tenon_status* put_tensor(tenon_state_writer* table,
                                  const char* name,
                                  const tenon_tensor* tensor,
                                  uint32_t scope,
                                  uint32_t flags) {
    return put(table, name, [&](StateTree& tree, const std::string& path) {
      not_null(tensor, "tensor");
      if ((flags & ~uint32_t{TENON_STATE_COPY}) != 0) {
        throw Error("state.bad_entry",
                    formatted("entry '{}' has the unknown flags {}", path, flags));
      }
      const bool copy = (flags & TENON_STATE_COPY) != 0;
      tree.put_tensor(path,
                      tensor_of(tensor),
                      copy ? StateTree::Copy::kYes : StateTree::Copy::kNo,
                      checked(scope, path));
    });
  }
};

StateWriter::StateWriter(StateTree& tree,
                         std::string prefix,
                         uint32_t version,
                         const tenon_host* host)
    : tree_(tree),
      prefix_(std::move(prefix)),
      host_(host),
      table_{.struct_size = sizeof(tenon_state_writer),
             .impl = this,
             .put_int = Callbacks::put_int,
             .put_double = Callbacks::put_double,
             .put_bytes = Callbacks::put_bytes,
             .put_tensor = Callbacks::put_tensor} {
  tree_.set_version(prefix_, version);
}

struct StateReader::Callbacks {
  template <class Get>
  static tenon_status* get(tenon_state_reader* table, const char* name, Get get_value) {
    if (table == nullptr || table->impl == nullptr) {
      return null_table();
    }
    StateReader& self = *static_cast<StateReader*>(table->impl);
    return torch_guard(
        self.host_, "state: ", [&] { get_value(self, full_name(self.prefix_, name)); });
  }

  static tenon_status* get_int(tenon_state_reader* table, const char* name, int64_t* out) {
    return get(table, name, [&](StateReader& self, const std::string& path) {
      not_null(out, "out") = self.tree_.get_int(path);
    });
  }
  static tenon_status* get_double(tenon_state_reader* table, const char* name, double* out) {
    return get(table, name, [&](StateReader& self, const std::string& path) {
      not_null(out, "out") = self.tree_.get_double(path);
    });
  }
  static tenon_status* get_bytes(tenon_state_reader* table,
                                 const char* name,
                                 const void** out_ref,
                                 size_t* out_size) {
    return get(table, name, [&](StateReader& self, const std::string& path) {
      not_null(out_ref, "out_ref");
      not_null(out_size, "out_size");
      const std::string& bytes = self.tree_.get_bytes(path);
      *out_ref = bytes.data();
      *out_size = bytes.size();
    });
  }
  static tenon_status* get_tensor(tenon_state_reader* table,
                                  const char* name,
                                  const tenon_tensor** out_ref) {
    return get(table, name, [&](StateReader& self, const std::string& path) {
      self.lent_.push_back(self.tree_.get_tensor(path));
      not_null(out_ref, "out_ref") = borrow(self.lent_.back());
    });
  }
  template <class Body>
  static tenon_status* on_all(tenon_state_reader* table, Body body) {
    if (table == nullptr || table->impl == nullptr) {
      return null_table();
    }
    StateReader& self = *static_cast<StateReader*>(table->impl);
    return torch_guard(self.host_, "state: ", [&] { body(self.entries()); });
  }
  static tenon_status* get_num_entries(tenon_state_reader* table, size_t* out) {
    return on_all(
        table, [&](const std::vector<Entry>& entries) { not_null(out, "out") = entries.size(); });
  }
  static tenon_status* get_entry(tenon_state_reader* table,
                                 size_t i,
                                 const char** out_name_ref,
                                 uint32_t* out_type) {
    return on_all(table, [&](const std::vector<Entry>& entries) {
      not_null(out_name_ref, "out_name_ref");
      not_null(out_type, "out_type");
      if (i >= entries.size()) {
        throw StatusError(TENON_NOT_FOUND,
                          "state.missing_entry",
                          formatted("entry {} of {} does not exist", i, entries.size()));
      }
      *out_name_ref = entries[i].name.c_str();
      *out_type = entries[i].type;
    });
  }
};

StateReader::StateReader(const StateTree& tree, std::string prefix, const tenon_host* host)
    : tree_(tree),
      prefix_(std::move(prefix)),
      host_(host),
      table_{.struct_size = sizeof(tenon_state_reader),
             .impl = this,
             .version = tree.version(prefix_),
             .reserved = 0,
             .get_int = Callbacks::get_int,
             .get_double = Callbacks::get_double,
             .get_bytes = Callbacks::get_bytes,
             .get_tensor = Callbacks::get_tensor,
             .get_num_entries = Callbacks::get_num_entries,
             .get_entry = Callbacks::get_entry} {}

const std::vector<StateReader::Entry>& StateReader::entries() {
  if (entries_.has_value()) {
    return *entries_;
  }
  entries_.emplace();
  const std::string start = prefix_.empty() ? "" : prefix_ + "/";
  for (auto entry = tree_.entries().lower_bound(start);
       entry != tree_.entries().end() && entry->first.starts_with(start);
       ++entry) {
    const auto& value = entry->second.value;
    const uint32_t type = std::holds_alternative<int64_t>(value)       ? TENON_STATE_INT
                          : std::holds_alternative<double>(value)      ? TENON_STATE_DOUBLE
                          : std::holds_alternative<std::string>(value) ? TENON_STATE_BYTES
                                                                       : TENON_STATE_TENSOR;
    entries_->push_back({entry->first.substr(start.size()), type});
  }
  return *entries_;
}

}  // namespace tenon
