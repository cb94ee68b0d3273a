// SPDX-License-Identifier: Apache-2.0
//
// Ports as the host stores them: copies of a component's declarations, independent of its memory.

#pragma once

#include <tenon/ports.h>

#include "host/plugin/instance.hpp"
#include "host/tensor/axis.hpp"
#include "host/tensor/dtype.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenon {

// An input of a loss or metric.
struct Port {
  std::string name;
  uint32_t dtype = TENON_CLASS_ANY;       // a dtype or a class
  uint32_t flags = 0;                     // TENON_PORT_*
  std::optional<std::vector<Axis>> axes;  // null: any shape

  bool is_optional() const noexcept { return (flags & TENON_PORT_OPTIONAL) != 0; }
};

// True if `dtype` is a class of ports.h.
bool is_dtype_class(uint32_t dtype) noexcept;

// Copies the declarations of a component.
//
// Errors   plugin.bad_result, with the component and `of` (`port "logits"`), if they are invalid
std::vector<Axis> copy_axes(const tenon_axis* axes,
                            std::size_t num_axes,
                            const std::string& of,
                            const ComponentIdentity& identity);
std::vector<Port> copy_ports(const tenon_port* ports,
                             std::size_t num_ports,
                             const ComponentIdentity& identity);

}  // namespace tenon
