// SPDX-License-Identifier: Apache-2.0
//
// Base of parsers that build a JSON value from nlohmann's events: forwards each scalar to add() and
// each container to open(). A derived class adds limits and records places. It may throw.
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <utility>

namespace tenon {

class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() final { return add(nullptr); }
  bool boolean(bool value) final { return add(value); }
  bool number_integer(number_integer_t value) final { return add(value); }
  bool number_unsigned(number_unsigned_t value) final { return add(value); }
  bool number_float(number_float_t value, const string_t&) final { return add(value); }
  bool string(string_t& value) final { return add(std::move(value)); }
  bool binary(binary_t&) final { return false; }  // JSON text has none
  bool start_object(std::size_t) final { return open(nlohmann::json::object()); }
  bool start_array(std::size_t) final { return open(nlohmann::json::array()); }
  bool end_object() final { return close(); }
  bool end_array() final { return close(); }

 protected:
  // Puts a value into the open container, or makes it the root. Returns its stable place: nothing
  // is added to a container while one of its values is open.
  virtual nlohmann::json* put(nlohmann::json value) = 0;
  virtual bool open(nlohmann::json container) = 0;
  virtual bool close() = 0;

 private:
  bool add(nlohmann::json value) { return put(std::move(value)) != nullptr; }
};

}  // namespace tenon
