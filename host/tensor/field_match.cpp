// SPDX-License-Identifier: Apache-2.0
#include "host/tensor/field_match.hpp"

#include <tenon/ports.h>

#include "host/tensor/dtype.hpp"

namespace tenon {
namespace {

bool is_float(uint32_t dtype) {
  return is_floating_dtype(dtype) || dtype == TENON_CLASS_COMPUTE || dtype == TENON_CLASS_PARAM ||
         dtype == TENON_CLASS_FLOAT;
}

// A class fits every dtype that it may resolve to. A field of a floating-point dtype fits the
// floating-point classes, since the host converts it, but not another dtype.
bool dtype_fits(uint32_t have, uint32_t want) {
  if (have == want || want == TENON_CLASS_ANY || have == TENON_CLASS_ANY) {
    return true;
  }
  if (have < TENON_CLASS_FIRST && want < TENON_CLASS_FIRST) {
    return false;
  }
  if (have == TENON_CLASS_INTEGER || want == TENON_CLASS_INTEGER) {
    return is_integer_dtype(have == TENON_CLASS_INTEGER ? want : have);
  }
  return is_float(have) && is_float(want);
}

// "B" and "T" have a fixed meaning (ports.h); each side chooses other names freely.
bool has_meaning(const std::string& name) {
  return name == "B" || name == "T";
}

bool axes_fit(const std::vector<Axis>& have, const std::vector<Axis>& want) {
  if (have.size() != want.size()) {
    return false;
  }
  for (size_t i = 0; i < have.size(); ++i) {
    const Axis& a = have[i];
    const Axis& b = want[i];
    if (a.size >= 0 && b.size >= 0 && a.size != b.size) {
      return false;
    }
    if (!a.name.empty() && !b.name.empty() && a.name != b.name &&
        (has_meaning(a.name) || has_meaning(b.name))) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string describe(const Described& what) {
  std::string text = dtype_name(what.dtype);
  if (what.axes == nullptr) {
    return text + " of any shape";
  }
  text += " [";
  for (size_t i = 0; i < what.axes->size(); ++i) {
    const Axis& axis = (*what.axes)[i];
    text += i == 0 ? "" : ", ";
    text += axis.size >= 0 ? std::to_string(axis.size) : axis.name.empty() ? "?" : axis.name;
  }
  return text + "]";
}

std::string field_names(const std::vector<FieldInfo>& fields) {
  std::string names;
  for (const FieldInfo& field : fields) {
    names += (names.empty() ? "" : ", ") + field.name;
  }
  return names;
}

std::optional<std::string> mismatch(const Described& have, const Described& want) {
  const bool fits =
      dtype_fits(have.dtype, want.dtype) &&
      (have.axes == nullptr || want.axes == nullptr || axes_fit(*have.axes, *want.axes));
  if (fits) {
    return std::nullopt;
  }
  return "expected " + describe(want) + ", found " + describe(have);
}

}  // namespace tenon
