// SPDX-License-Identifier: Apache-2.0
//
// Axes and ports as values that own their strings. A component writes `info.port("logits", {"B",
// "C"}, TENON_CLASS_COMPUTE)`, and the wrapper owns the memory that the ABI borrows.
#ifndef TENON_CPP_PORTS_HPP
#define TENON_CPP_PORTS_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/ports.h>

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* One axis: a name ("B"), a size (64), or both. Size -1 is known only at run time. */
struct Axis {
  // NOLINTBEGIN(google-explicit-constructor): a list of axes reads as {"B", "T", 64}
  Axis(const char* axis_name) : name(axis_name) {}
  Axis(std::string axis_name) : name(std::move(axis_name)) {}
  Axis(int64_t axis_size) : size(axis_size) {}
  Axis(int axis_size) : size(axis_size) {}
  // NOLINTEND(google-explicit-constructor)
  Axis(std::string axis_name, int64_t axis_size) : name(std::move(axis_name)), size(axis_size) {}
  std::string name;
  int64_t size = -1;
};
using Axes = std::vector<Axis>;

/* Axes in the form of the ABI. It cannot be copied or moved, because `data` points into it. */
class AxesStorage {
 public:
  explicit AxesStorage(Axes axes) : axes_(std::move(axes)) {
    raw_.reserve(axes_.size());
    for (const Axis& axis : axes_) {
      raw_.push_back({axis.name.empty() ? nullptr : axis.name.c_str(), axis.size});
    }
  }
  AxesStorage(const AxesStorage&) = delete;
  AxesStorage& operator=(const AxesStorage&) = delete;
  ~AxesStorage() = default;
  const tenon_axis* data() const { return raw_.data(); }
  size_t size() const { return raw_.size(); }

 private:
  Axes axes_;
  std::vector<tenon_axis> raw_;
};

/* The ports that a component declares. It must live as long as the instance. */
class PortList {
 public:
  /* Adds a port. `dtype` is a dtype or a class of ports.h; `flags` is TENON_PORT_*; empty `axes`
   * mean any shape. All arguments are copied. */
  void add(std::string name, Axes axes, uint32_t dtype, uint32_t flags) {
    names_.push_back(std::move(name));
    axes_.emplace_back(std::move(axes));
    raw_.push_back({sizeof(tenon_port),
                    names_.back().c_str(),
                    dtype,
                    flags,
                    axes_.back().size() == 0 ? nullptr : axes_.back().data(),
                    axes_.back().size()});
  }
  void add_any_shape(std::string name, uint32_t dtype, uint32_t flags) {
    add(std::move(name), {}, dtype, flags);
  }
  const tenon_port* data() const { return raw_.data(); }
  size_t size() const { return raw_.size(); }

 private:
  std::deque<std::string> names_;
  std::deque<AxesStorage> axes_;
  std::vector<tenon_port> raw_;
};

TENON_NAMESPACE_END

#endif
