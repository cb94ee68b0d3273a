// SPDX-License-Identifier: Apache-2.0

#include "host/data/batch_builder.hpp"

#include "host/device/host_memory.hpp"
#include "host/error/error.hpp"
#include "host/tensor/dtype.hpp"
#include "host/tensor/handle.hpp"
#include "host/tensor/shape_text.hpp"
#include "host/tensor/state/state_tree.hpp"
#include "host/tensor/torch_guard.hpp"
#include "host/text/formatted.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tenon {
namespace {

std::string in_quotes(std::string_view name) {
  return '"' + std::string(name) + '"';
}

// "[B, T=128, 3]": the axes of a field in the schema.
std::string axes_text(const std::vector<Axis>& axes) {
  std::string text = "[";
  for (const Axis& axis : axes) {
    text += text.size() > 1 ? ", " : "";
    text += axis.name.empty() && axis.size < 0 ? "any" : axis.name;
    if (axis.size >= 0) {
      text += (axis.name.empty() ? "" : "=") + std::to_string(axis.size);
    }
  }
  return text + "]";
}

bool fits_into_memory(uint32_t dtype, at::IntArrayRef shape) {
  int64_t bytes = static_cast<int64_t>(dtype_size(dtype));
  return std::all_of(shape.begin(), shape.end(), [&](int64_t size) {
    return !__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  });
}

}  // namespace

// ---- functions for the dataset ----

BatchBuilder* BatchBuilder::of(tenon_batch_writer* writer) {
  if (writer == nullptr || writer->impl == nullptr) {
    throw Error("data.bad_batch", "the batch writer is null");
  }
  return static_cast<BatchBuilder*>(writer->impl);
}

template <class Body>
tenon_status* BatchBuilder::checked(tenon_batch_writer* writer, Body&& body) noexcept {
  return torch_guard(nullptr, "", [&] { body(*of(writer)); });
}

BatchBuilder::BatchBuilder(const DataSource& source, int64_t samples)
    : source_(source),
      schema_(*source.info().schema),
      asked_(samples),
      writer_{},
      batch_(empty_batch(source.info().schema)) {
  writer_.struct_size = sizeof(writer_);
  writer_.impl = this;
  writer_.add = [](tenon_batch_writer* writer,
                   uint32_t field,
                   uint32_t ndim,
                   const int64_t* shape,
                   void** out_data) {
    return checked(writer, [&](BatchBuilder& builder) {
      if (out_data == nullptr) {
        builder.fail("out_data is null");
      }
      *out_data = builder.add(field, ndim, shape);
    });
  };
  writer_.add_tensor = [](tenon_batch_writer* writer, uint32_t field, const tenon_tensor* tensor) {
    return checked(writer, [&](BatchBuilder& builder) {
      if (tensor == nullptr) {
        builder.fail(formatted("the tensor for field number {} is null", field));
      }
      builder.add_tensor(field, tensor_of(tensor));
    });
  };
  writer_.set_counts = [](tenon_batch_writer* writer, int64_t samples, int64_t tokens) {
    return checked(writer, [&](BatchBuilder& builder) { builder.set_counts(samples, tokens); });
  };
  writer_.set_position = [](tenon_batch_writer* writer, const void* data, size_t size) {
    return checked(writer, [&](BatchBuilder& builder) { builder.set_position(data, size); });
  };
  writer_.set_lengths = [](tenon_batch_writer* writer, const int64_t* lengths, size_t n) {
    return checked(writer, [&](BatchBuilder& builder) { builder.set_lengths(lengths, n); });
  };
}

void* BatchBuilder::add(uint32_t field, uint32_t ndim, const int64_t* shape) {
  const FieldInfo& info = begin_field(field);
  if (shape == nullptr && ndim != 0) {
    fail("the shape of field " + in_quotes(info.name) + " is null");
  }
  const at::IntArrayRef sizes(shape, ndim);
  check_shape(field, sizes);
  at::Tensor tensor = empty_host_tensor(info.dtype, sizes);
  void* const data = tensor.mutable_data_ptr();
  batch_.fields[field] = std::move(tensor);
  return data;
}

void BatchBuilder::add_tensor(uint32_t field, const at::Tensor& tensor) {
  const FieldInfo& info = begin_field(field);
  if (!tensor.is_cpu()) {
    fail("field " + in_quotes(info.name) + " is on " + tensor.device().str() +
         ", expected the CPU");
  }
  const std::optional<uint32_t> dtype = dtype_of(tensor.scalar_type());
  if (dtype != info.dtype) {
    fail("field " + in_quotes(info.name) + " is " +
         (dtype ? dtype_name(*dtype) : std::string(c10::toString(tensor.scalar_type()))) +
         ", expected " + dtype_name(info.dtype));
  }
  check_shape(field, tensor.sizes());
  batch_.fields[field] = tensor.detach().contiguous();
}

void BatchBuilder::set_counts(int64_t samples, int64_t tokens) {
  if (has_counts_) {
    fail("the counts are set twice");
  }
  if (samples < 0 || tokens < 0) {
    fail(formatted(
        "the counts are {} samples and {} tokens, expected non-negative numbers", samples, tokens));
  }
  const bool is_exact = source_.info().style == DatasetStyle::kMap;
  if (samples > asked_ || (is_exact && samples != asked_)) {
    fail(formatted(
        "the batch has {} samples, expected {}{}", samples, is_exact ? "" : "at most ", asked_));
  }
  has_counts_ = true;
  batch_.samples = samples;
  batch_.tokens = tokens;
}

void BatchBuilder::set_position(const void* data, size_t size) {
  if (source_.info().style != DatasetStyle::kStream) {
    fail("the batch has a position, which only stream-style datasets support");
  }
  if (data == nullptr) {
    fail("the position is null");
  }
  if (size > kMaxStateBytes) {
    fail(formatted("the position has {} bytes, expected at most {}", size, kMaxStateBytes));
  }
  if (position_) {
    fail("the position is set twice");
  }
  position_.emplace(static_cast<const char*>(data), size);
}

// The axis "T" and the number of samples may be set later, so finish() compares them again.
void BatchBuilder::set_lengths(const int64_t* lengths, size_t n) {
  if (lengths_) {
    fail("the lengths are set twice");
  }
  if (lengths == nullptr && n > 0) {
    fail("the lengths are null");
  }
  const bool is_exact = source_.info().style == DatasetStyle::kMap;
  const auto asked = static_cast<size_t>(asked_);
  if (n > asked || (is_exact && n != asked)) {
    fail(formatted("{} lengths are set, expected {}{}, one per sample",
                   n,
                   is_exact ? "" : "at most ",
                   asked_));
  }
  lengths_.emplace(lengths, lengths + n);
  check_lengths();
}

// ---- checks ----

void BatchBuilder::fail(const std::string& problem) {
  if (first_problem_.empty()) {
    first_problem_ = problem;
  }
  throw Error("data.bad_batch", problem);
}

const FieldInfo& BatchBuilder::begin_field(uint32_t field) {
  if (field >= schema_.size()) {
    fail(formatted("no field has the number {}: the schema has {} fields, counted from 0",
                   field,
                   schema_.size()));
  }
  if (batch_.fields[field].defined()) {
    fail("field " + in_quotes(schema_[field].name) + " is written twice");
  }
  return schema_[field];
}

void BatchBuilder::check_shape(uint32_t field, at::IntArrayRef shape) {
  const FieldInfo& info = schema_[field];
  const auto fail_shape = [&](const std::string& why) {
    fail("field " + in_quotes(info.name) + " has shape " + shape_text(shape) + ", expected " +
         axes_text(info.axes) + why);
  };
  if (shape.size() != info.axes.size()) {
    fail_shape("");
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    const Axis& axis = info.axes[i];
    if (shape[i] < 0 || (axis.size >= 0 && shape[i] != axis.size)) {
      fail_shape("");
    }
    if (axis.name.empty()) {
      continue;
    }
    if (axis.name == "B" && source_.info().style == DatasetStyle::kMap && shape[i] != asked_) {
      fail_shape(formatted(" where B is {}, the number of samples", asked_));
    }
    const auto known = std::find_if(axis_sizes_.begin(), axis_sizes_.end(), [&](const auto& seen) {
      return seen.name == axis.name;
    });
    if (known == axis_sizes_.end()) {
      axis_sizes_.push_back({.name = axis.name, .size = shape[i], .field = field});
    } else if (known->size != shape[i]) {
      fail_shape(formatted(" where {} is {}, as in field {}",
                           axis.name,
                           known->size,
                           in_quotes(schema_[known->field].name)));
    }
  }
  if (!fits_into_memory(info.dtype, shape)) {
    fail("field " + in_quotes(info.name) + " has shape " + shape_text(shape) +
         ", which exceeds any memory");
  }
}

Batch BatchBuilder::finish() {
  const auto fail_here = [&](const std::string& problem) {
    throw Error("data.bad_batch", source_.name() + ": " + problem);
  };
  if (!first_problem_.empty()) {
    fail_here(first_problem_);
  }
  const bool is_without_grad =
      std::none_of(batch_.fields.begin(), batch_.fields.end(), [](const at::Tensor& tensor) {
        return tensor.defined();
      });
  if (!has_counts_ && !(is_without_grad && source_.info().style == DatasetStyle::kStream)) {
    fail_here("the read did not set the batch's counts, expected one call of set_counts");
  }
  if (batch_.samples == 0 && source_.info().style == DatasetStyle::kStream) {
    return empty_batch(source_.info().schema);
  }
  for (size_t i = 0; i < schema_.size(); ++i) {
    if (!batch_.fields[i].defined()) {
      fail_here("field " + in_quotes(schema_[i].name) +
                " is not written, expected each field once");
    }
  }
  for (const AxisSize& axis : axis_sizes_) {
    if (axis.name == "B" && axis.size != batch_.samples) {
      fail_here(formatted("axis B of field {} is {}, expected {}, the number of samples",
                          in_quotes(schema_[axis.field].name),
                          axis.size,
                          batch_.samples));
    }
  }
  finish_lengths();
  return std::move(batch_);
}

std::optional<int64_t> BatchBuilder::size_of_axis(std::string_view name) const {
  const auto axis = std::ranges::find(axis_sizes_, name, &AxisSize::name);
  return axis != axis_sizes_.end() ? std::optional(axis->size) : std::nullopt;
}

// Compares the lengths with the axis "T", if its size is known.
void BatchBuilder::check_lengths() {
  const std::optional<int64_t> positions = size_of_axis("T");
  for (size_t i = 0; i < lengths_->size(); ++i) {
    const int64_t length = (*lengths_)[i];
    if (length < 0 || (positions && length > *positions)) {
      fail(formatted("the length of sample {} of the batch is {}, expected {}",
                     i,
                     length,
                     positions ? formatted("0 to {}, the size of axis T", *positions)
                               : std::string("a non-negative number")));
    }
  }
}

// Without set_lengths, all entries are valid, if the dataset counts them as tokens.
void BatchBuilder::finish_lengths() {
  const auto fail_here = [&](const std::string& problem) {
    throw Error("data.bad_batch", source_.name() + ": " + problem);
  };
  const std::optional<int64_t> positions = size_of_axis("T");
  if (!lengths_) {
    if (positions && (batch_.tokens == 0 || batch_.tokens == batch_.samples * *positions)) {
      lengths_.emplace(static_cast<size_t>(batch_.samples), *positions);
      add_lengths();
    }
    return;
  }
  if (!positions) {
    fail_here("lengths are set, but no field has the axis T, along which they count");
  }
  if (static_cast<int64_t>(lengths_->size()) != batch_.samples) {
    fail_here(formatted(
        "{} lengths are set, expected {}, one per sample", lengths_->size(), batch_.samples));
  }
  try {
    check_lengths();
  } catch (const Error& error) {
    fail_here(error.message());
  }
  const int64_t tokens = std::accumulate(lengths_->begin(), lengths_->end(), int64_t{0});
  if (tokens != batch_.tokens) {
    fail_here(formatted(
        "the lengths add up to {} tokens, but set_counts reported {}", tokens, batch_.tokens));
  }
  add_lengths();
}

void BatchBuilder::add_lengths() {
  batch_.lengths = empty_host_tensor(TENON_I64, {batch_.samples});
  std::ranges::copy(*lengths_, batch_.lengths.mutable_data_ptr<int64_t>());
  for (const int64_t length : *lengths_) {
    batch_.sequences.push_back(
        {.row = static_cast<int64_t>(batch_.sequences.size()), .length = length});
  }
}

Batch empty_batch(const BatchSchema& schema) {
  Batch batch;
  batch.schema = schema;
  batch.fields.resize(schema->size());
  return batch;
}

}  // namespace tenon
