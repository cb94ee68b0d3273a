// SPDX-License-Identifier: Apache-2.0
//
// Models: the base class of all of them, and `Graph`, in which a model declares values, parameters,
// buffers and blocks. Models on libtorch derive from TorchModel or ModuleModel (tenon/torch/); a
// model without libtorch derives from Model. <tenon/model.h> defines the contract.
#ifndef TENON_CPP_MODEL_HPP
#define TENON_CPP_MODEL_HPP

#include <tenon/cpp/component.hpp>
#include <tenon/cpp/exec.hpp>
#include <tenon/cpp/namespace.hpp>
#include <tenon/cpp/ports.hpp>
#include <tenon/cpp/tensor.hpp>
#include <tenon/draft/context.h>
#include <tenon/draft/tensor.h>
#include <tenon/model.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* Indices that a Graph returns, with one type each so that they are not confused. */
struct ValueId {
  uint32_t index = TENON_NO_INDEX;
};
struct ParameterId {
  uint32_t index = TENON_NO_INDEX;
};
struct BufferId {
  uint32_t index = TENON_NO_INDEX;
};

/* Initialization of a parameter; the host draws the values. */
struct Init {
  uint32_t kind = TENON_INIT_ZEROS;
  double a = 0.0;
  double b = 0.0;
  static Init zeros() { return {TENON_INIT_ZEROS, 0, 0}; }
  static Init ones() { return {TENON_INIT_ONES, 0, 0}; }
  static Init constant(double value) { return {TENON_INIT_CONSTANT, value, 0}; }
  static Init normal(double mean, double deviation) { return {TENON_INIT_NORMAL, mean, deviation}; }
  /* Uniform in [low, high). */
  static Init uniform(double low, double high) { return {TENON_INIT_UNIFORM, low, high}; }
  /* Normal, truncated at two standard deviations. */
  static Init trunc_normal(double mean, double deviation) {
    return {TENON_INIT_TRUNC_NORMAL, mean, deviation};
  }
  /* The value that `on_materialize` returns. */
  static Init module() { return {TENON_INIT_MODULE, 0, 0}; }
};

/* Declares how tensor ranks may divide a parameter or a value along `axis`; see tenon_split and
 * draft/tensor.h. Without parts, each rank has all of it. Blocks without TENON_BLOCK_DIVISIBLE get
 * all of it too.
 *
 *     {0, {512, 128, 128}, {8, 2, 2}}    fused query, key and value of 8, 2 and 2 heads of 64 */
struct Split {
  uint32_t axis = 0;               /* of the shape */
  std::vector<int64_t> parts = {}; /* sizes, which add up to the size of the axis */
  std::vector<int64_t> units = {}; /* number of equal units of each part; divides its size */
};

/* A Split in the form of the ABI. It borrows the Split. */
class SplitView {
 public:
  /* Takes the split of the parameter or value `name`, for error messages.
   *
   * Errors   TENON_INVALID if there are not as many units as parts */
  SplitView(const std::string& name, const Split& split)
      : raw_{sizeof(tenon_split),
             split.axis,
             0,
             split.parts.data(),
             split.units.data(),
             split.parts.size()} {
    TENON_CHECK(split.parts.size() == split.units.size(),
                "the split of ",
                name,
                " has ",
                split.parts.size(),
                " parts and ",
                split.units.size(),
                " units (expected one number of units per part)");
  }
  /* Null if there is no part; valid as long as this object. */
  const tenon_split* get() const { return raw_.num_parts == 0 ? nullptr : &raw_; }

 private:
  tenon_split raw_;
};

/* Declares a block, see `Graph::add_block`. Lists are in the order in which `forward` receives
 * them. */
struct BlockSpec {
  std::string name; /* unique in the model */
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<ParameterId> parameters;
  std::vector<BufferId> buffers;
  uint32_t flags = 0;    /* TENON_BLOCK_* */
  std::string unit = {}; /* unit of consecutive blocks; empty: the block's own name */
};

/* Describes a lookup in a table; see "Tables" in model.h. */
struct Lookup {
  std::string table = {};               /* name in recipes; empty: the name of the id column */
  uint32_t pooling = TENON_POOL_NONE;   /* TENON_POOL_* */
  uint32_t length = 0;                  /* rows per sample for TENON_POOL_FIRST_N; otherwise 0 */
  Init init = Init::zeros();            /* initial value of new rows; not module() */
  uint32_t dtype = TENON_CLASS_COMPUTE; /* of the value; a floating-point dtype or class */
};

/* Declares a model to the host. The tags below hold for every function.
 *
 * Errors   TENON_INVALID for a duplicate name, an index out of range, or a block that reads a value
 *          of a later block; the message names block and value
 * Threads  [main], during `on_describe`
 * Owner    all arguments are copied */
class Graph {
 public:
  Graph(const Host& host, tenon_model_builder* builder) : host_(host), builder_(builder) {
    TENON_CHECK(builder != nullptr, "the builder is null");
  }

  /* Declares a value that is field `field` of the batch; by default, the field has the name of the
   * value. `dtype` is a dtype or a class; empty `axes` mean any shape. */
  ValueId input(const std::string& name,
                Axes axes,
                uint32_t dtype,
                const std::string& field = {},
                const Split& split = {}) {
    const std::string source = field.empty() ? name : field;
    return add_value(name, std::move(axes), dtype, TENON_SOURCE_BATCH, source.c_str(), split);
  }
  /* Declares a value that is field `field` of the batch, if the batch has such a field. Otherwise,
   * blocks receive null in its place. */
  ValueId optional_input(const std::string& name,
                         Axes axes,
                         uint32_t dtype,
                         const std::string& field = {}) {
    const std::string source = field.empty() ? name : field;
    return add_value(
        name, std::move(axes), dtype, TENON_SOURCE_BATCH, source.c_str(), {}, TENON_VALUE_OPTIONAL);
  }
  /* Declares a value that a block outputs. The size of an axis that is split must be known. */
  ValueId value(const std::string& name,
                Axes axes,
                uint32_t dtype = TENON_CLASS_COMPUTE,
                const Split& split = {}) {
    return add_value(name, std::move(axes), dtype, TENON_SOURCE_BLOCK, nullptr, split);
  }
  /* Declares a value of table rows for the ids in column `column` of the batch, or in value `ids`
   * of an earlier block. The last axis is the row size. */
  ValueId lookup(const std::string& name, Axes axes, const std::string& column, const Lookup& of) {
    tenon_value_spec spec{};
    spec.source = column.c_str();
    spec.ids = TENON_NO_INDEX;
    return add_lookup(name, std::move(axes), spec, of);
  }
  ValueId lookup(const std::string& name, Axes axes, ValueId ids, const Lookup& of) {
    tenon_value_spec spec{};
    spec.ids = ids.index;
    return add_lookup(name, std::move(axes), spec, of);
  }
  /* Refused by this host: declares value `source` of the previous microbatch, detached; zeros at
   * first. */
  ValueId carry(const std::string& name, Axes axes, uint32_t dtype, const std::string& source) {
    return add_value(name, std::move(axes), dtype, TENON_SOURCE_CARRY, source.c_str(), {});
  }

  /* Declares a parameter. `flags` is TENON_PARAM_*; `dtype` is a dtype that must be kept, or
   * TENON_CLASS_PARAM. */
  ParameterId parameter(const std::string& name,
                        const std::vector<int64_t>& shape,
                        Init init,
                        uint32_t flags = 0,
                        const Split& split = {},
                        uint32_t dtype = TENON_CLASS_PARAM) {
    const SplitView view(name, split);
    const tenon_parameter_spec spec{sizeof(tenon_parameter_spec),
                                    name.c_str(),
                                    shape.data(),
                                    shape.size(),
                                    dtype,
                                    flags,
                                    init.kind,
                                    0,
                                    init.a,
                                    init.b,
                                    nullptr,
                                    view.get()};
    return add_parameter(spec);
  }
  /* Declares another name for an earlier parameter. */
  ParameterId tied_parameter(const std::string& name, const std::string& tied_to) {
    tenon_parameter_spec spec{};
    spec.struct_size = sizeof(spec);
    spec.name = name.c_str();
    spec.dtype = TENON_CLASS_PARAM;
    spec.tied_to = tied_to.c_str();
    return add_parameter(spec);
  }

  /* Declares a buffer. `kind` is TENON_BUFFER_*; `on_fill_buffer` sets its initial value. */
  BufferId buffer(const std::string& name,
                  const std::vector<int64_t>& shape,
                  uint32_t dtype,
                  uint32_t kind) {
    const tenon_buffer_spec spec{
        sizeof(tenon_buffer_spec), name.c_str(), shape.data(), shape.size(), dtype, kind};
    BufferId out;
    host_.check(builder_->add_buffer(builder_, &spec, &out.index));
    return out;
  }

  /* Adds a block and returns its index, which `on_forward` receives. Add blocks in the order in
   * which they run. */
  uint32_t add_block(const BlockSpec& block) {
    const std::vector<uint32_t> inputs = indices(block.inputs);
    const std::vector<uint32_t> outputs = indices(block.outputs);
    const std::vector<uint32_t> parameters = indices(block.parameters);
    const std::vector<uint32_t> buffers = indices(block.buffers);
    const tenon_block_spec spec{sizeof(tenon_block_spec),
                                block.name.c_str(),
                                block.flags,
                                0,
                                inputs.data(),
                                inputs.size(),
                                outputs.data(),
                                outputs.size(),
                                parameters.data(),
                                parameters.size(),
                                buffers.data(),
                                buffers.size(),
                                block.unit.empty() ? nullptr : block.unit.c_str()};
    uint32_t out = 0;
    host_.check(builder_->add_block(builder_, &spec, &out));
    return out;
  }

  const Host& host() const { return host_; }

 private:
  ValueId add_value(const std::string& name,
                    Axes axes,
                    uint32_t dtype,
                    uint32_t source_kind,
                    const char* source,
                    const Split& split,
                    uint32_t flags = 0) {
    const SplitView view(name, split);
    tenon_value_spec spec{};
    spec.flags = flags;
    spec.dtype = dtype;
    spec.source_kind = source_kind;
    spec.source = source;
    spec.ids = TENON_NO_INDEX;
    spec.split = view.get();
    return add_value(name, std::move(axes), spec);
  }
  ValueId add_lookup(const std::string& name, Axes axes, tenon_value_spec spec, const Lookup& of) {
    spec.dtype = of.dtype;
    spec.source_kind = TENON_SOURCE_TABLE;
    spec.table = of.table.empty() ? nullptr : of.table.c_str();
    spec.pooling = of.pooling;
    spec.length = of.length;
    spec.init = of.init.kind;
    spec.init_a = of.init.a;
    spec.init_b = of.init.b;
    return add_value(name, std::move(axes), spec);
  }
  ValueId add_value(const std::string& name, Axes axes, tenon_value_spec spec) {
    const AxesStorage storage(std::move(axes));
    spec.struct_size = sizeof(spec);
    spec.name = name.c_str();
    spec.axes = storage.size() == 0 ? nullptr : storage.data();
    spec.num_axes = storage.size();
    ValueId out;
    host_.check(builder_->add_value(builder_, &spec, &out.index));
    return out;
  }
  ParameterId add_parameter(const tenon_parameter_spec& spec) {
    ParameterId out;
    host_.check(builder_->add_parameter(builder_, &spec, &out.index));
    return out;
  }
  template <class Id>
  static std::vector<uint32_t> indices(const std::vector<Id>& ids) {
    std::vector<uint32_t> out;
    out.reserve(ids.size());
    for (const Id& id : ids) {
      out.push_back(id.index);
    }
    return out;
  }

  Host host_;
  tenon_model_builder* builder_;
};

/* Base class of models, in terms of the ABI. TorchModel and ModuleModel add at::Tensor on top. */
class Model : public Component {
 public:
  using Kind = Model;
  static constexpr const char* kKind = "model";
  static constexpr const char* kInterfaceId = TENON_MODEL_ID;

  /* Declares values, parameters, buffers and blocks.
   *
   * Errors   those of the graph, passed on
   * Threads  [main], once, before any other call */
  virtual void on_describe(Graph& graph) = 0;
  /* Runs block args.block and stores new handles in args.outputs_own. It modifies neither inputs
   * nor parameters.
   *
   * Shapes   as declared; a block must accept every size of the axes left open
   * Errors   TENON_INVALID for shapes it cannot process
   * Threads  [step]
   * Owner    inputs are borrowed; the host releases the outputs */
  virtual void on_forward(const Exec& exec, tenon_forward_args& args) = 0;
  /* Computes the gradients of a TENON_BLOCK_HAND_WRITTEN block.
   *
   * Shapes   each gradient has the shape of its input or parameter
   * Errors   TENON_INVALID for shapes it cannot process; by default TENON_UNSUPPORTED
   * Threads  [step]
   * Owner    arguments are borrowed; the host releases the gradients */
  virtual void on_backward(const Exec& /*exec*/, const tenon_backward_args& args) {
    TENON_FAIL(
        TENON_UNSUPPORTED, "no_backward", "block ", args.block, " does not override on_backward");
  }
  /* Creates the leaves of a TENON_BLOCK_MATERIALIZED block with their initial values, in the order
   * of its parameters. Draw random numbers from torch's default generator.
   *
   * Shapes   args.leaves_own [num_leaves], each of the declared shape
   * Errors   any exception ends the run; by default TENON_UNSUPPORTED
   * Threads  [main], once per block
   * Owner    the host releases the handles; the instance keeps the tensors */
  virtual void on_materialize(const Exec& /*exec*/, const tenon_materialize_args& args) {
    TENON_FAIL(TENON_UNSUPPORTED, "no_materialize", "block ", args.block, " is not materialized");
  }
  /* Writes the initial value of buffer args.buffer into args.tensor.
   *
   * Shapes   args.tensor: the declared shape and dtype, contiguous, on the CPU, filled with zeros
   * Errors   any exception ends the run; by default TENON_UNSUPPORTED
   * Threads  [main], once per buffer
   * Owner    `args` is borrowed until return */
  virtual void on_fill_buffer(const Exec& /*exec*/, const tenon_fill_buffer_args& args) {
    TENON_FAIL(TENON_UNSUPPORTED, "no_buffer", "there is no buffer ", args.buffer);
  }
  /* Infers shapes and cost of a block without running it. Override it, publicly, if a block
   * accesses data pointers; otherwise the host runs the block on meta tensors. `exec` describes the
   * planned run; it has no stream and cannot compute.
   *
   * Errors   TENON_INVALID for shapes it cannot process; by default TENON_UNSUPPORTED
   * Threads  [any]
   * Owner    `args` is borrowed until return */
  virtual void on_infer(const Exec& /*exec*/, tenon_infer_args& args) {
    TENON_FAIL(TENON_UNSUPPORTED, "no_infer", "block ", args.block, " has no shape inference");
  }

  /* Returns the ABI table of class T. */
  template <class T>
  static const void* table() {
    constexpr bool kHasInfer = !std::is_same_v<decltype(&T::on_infer), decltype(&Model::on_infer)>;
    static const tenon_model calls{sizeof(tenon_model),
                                   call_describe,
                                   call_forward,
                                   call_backward,
                                   call_materialize,
                                   call_fill_buffer,
                                   kHasInfer ? call_infer : nullptr};
    return &calls;
  }

 private:
  static tenon_status* call_describe(void* self, tenon_model_builder* builder) noexcept {
    return call_on<Model>(self, [&](Model& model) {
      Graph graph(model.host(), builder);
      model.on_describe(graph);
    });
  }
  static tenon_status* call_forward(void* self,
                                    const tenon_exec* exec,
                                    tenon_forward_args* args) noexcept {
    return call_on<Model>(self, [&](Model& model) {
      TENON_CHECK(args != nullptr, "the arguments of forward are null");
      model.on_forward(Exec(model.host(), exec), *args);
    });
  }
  static tenon_status* call_backward(void* self,
                                     const tenon_exec* exec,
                                     const tenon_backward_args* args) noexcept {
    return call_on<Model>(self, [&](Model& model) {
      TENON_CHECK(args != nullptr, "the arguments of backward are null");
      model.on_backward(Exec(model.host(), exec), *args);
    });
  }
  static tenon_status* call_materialize(void* self,
                                        const tenon_exec* exec,
                                        const tenon_materialize_args* args) noexcept {
    return call_on<Model>(self, [&](Model& model) {
      TENON_CHECK(args != nullptr && (args->leaves_own != nullptr || args->num_leaves == 0),
                  "an argument of materialize is null");
      model.on_materialize(Exec(model.host(), exec), *args);
    });
  }
  static tenon_status* call_fill_buffer(void* self,
                                        const tenon_exec* exec,
                                        const tenon_fill_buffer_args* args) noexcept {
    return call_on<Model>(self, [&](Model& model) {
      TENON_CHECK(args != nullptr && args->tensor != nullptr, "an argument of fill_buffer is null");
      model.on_fill_buffer(Exec(model.host(), exec), *args);
    });
  }
  static tenon_status* call_infer(void* self,
                                  const tenon_exec* exec,
                                  tenon_infer_args* args) noexcept {
    return call_on<Model>(self, [&](Model& model) {
      TENON_CHECK(args != nullptr, "the arguments of infer are null");
      model.on_infer(Exec(model.host(), exec), *args);
    });
  }
};

TENON_NAMESPACE_END

#endif
