// SPDX-License-Identifier: Apache-2.0
//
// The default dtype of torch, in which modules are built and constants are made. The host sets it
// to that of the run.
// Threads: one at a time, in the process of the check.
#pragma once

#include <c10/core/DefaultDtype.h>
#include <c10/core/ScalarType.h>
#include <c10/core/ScalarTypeToTypeMeta.h>

namespace tenon {

// Sets it for its lifetime.
class DefaultDtype {
 public:
  explicit DefaultDtype(at::ScalarType dtype) : before_(c10::get_default_dtype()) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype));
  }
  DefaultDtype(const DefaultDtype&) = delete;
  DefaultDtype& operator=(const DefaultDtype&) = delete;
  ~DefaultDtype() { c10::set_default_dtype(before_); }

 private:
  caffe2::TypeMeta before_;
};

}  // namespace tenon
