// SPDX-License-Identifier: Apache-2.0

#include "host/plugin/port_spec.hpp"

#include "host/plugin/interface_table.hpp"
#include "host/text/formatted.hpp"

namespace tenon {

bool is_dtype_class(uint32_t dtype) noexcept {
  return dtype >= TENON_CLASS_FIRST && dtype <= TENON_CLASS_ANY;
}

std::vector<Axis> copy_axes(const tenon_axis* axes,
                            std::size_t num_axes,
                            const std::string& of,
                            const ComponentIdentity& identity) {
  if (axes == nullptr && num_axes != 0) {
    identity.fail_result(formatted("{} has {} axes at a null pointer", of, num_axes));
  }
  std::vector<Axis> copies;
  for (std::size_t i = 0; i < num_axes; ++i) {
    if (axes[i].size < -1) {
      identity.fail_result(formatted("{} has an axis of size {}", of, axes[i].size));
    }
    copies.push_back({axes[i].name != nullptr ? axes[i].name : "", axes[i].size});
  }
  return copies;
}

std::vector<Port> copy_ports(const tenon_port* ports,
                             std::size_t num_ports,
                             const ComponentIdentity& identity) {
  if (ports == nullptr && num_ports != 0) {
    identity.fail_result(formatted("describe returned {} ports at a null pointer", num_ports));
  }
  std::vector<Port> copies;
  for (std::size_t i = 0; i < num_ports; ++i) {
    const tenon_port port = element_of(ports, i, identity);
    identity.check_name(port.name, "port", i);
    const std::string of = "port \"" + std::string(port.name) + "\"";
    identity.check_flags(port.flags, TENON_PORT_OPTIONAL, of);
    if (!is_dtype(port.dtype) && !is_dtype_class(port.dtype)) {
      identity.fail_result(formatted("{} has the unknown dtype {}", of, port.dtype));
    }
    Port copy{.name = port.name, .dtype = port.dtype, .flags = port.flags, .axes = std::nullopt};
    if (port.axes != nullptr) {
      copy.axes = copy_axes(port.axes, port.num_axes, of, identity);
    }
    for (const Port& other : copies) {
      if (other.name == copy.name) {
        identity.fail_result(of + " is declared twice");
      }
    }
    copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace tenon
