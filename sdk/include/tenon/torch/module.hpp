// SPDX-License-Identifier: Apache-2.0
//
// Models built from torch::nn::Module, with one module per block:
//
//     void describe(tenon::ModuleGraph& g) override {
//       const auto x = g.input("x", {"B", 64}, TENON_CLASS_COMPUTE);
//       g.module("body", {x}, {g.value("logits", {"B", 10})},
//                [] { return torch::nn::Linear(64, 10); },
//                [](torch::nn::Linear& m, const at::Tensor& x) { return m->forward(x); });
//     }
//
// Parameters are the module's own leaves, named BLOCK.NAME, in memory that the host owns. Buffers
// of the module (running statistics, tables) are saved, and change as in plain training. Modules
// are built twice: once during `describe`, one at a time, to read names and shapes, and once for
// the run. The first build takes no memory for large parameters (deferred_init.hpp), unless the
// module names their device or reads their values.
//
// Modules that share parameters between blocks (a tied head) are not supported; use TorchModel for
// those.
#ifndef TENON_TORCH_MODULE_HPP
#define TENON_TORCH_MODULE_HPP

#include <tenon/cpp/namespace.hpp>
#include <tenon/torch/deferred_init.hpp>
#include <tenon/torch/model.hpp>

#include <ATen/Context.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

TENON_NAMESPACE_BEGIN

/* A module and the function that runs it. */
class LiveModule {
 public:
  virtual ~LiveModule() = default;
  /* Returns the module, which lives as long as this object.
   *
   * Errors   none
   * Threads  [step] */
  virtual torch::nn::Module& module() = 0;
  /* Runs the forward of the block.
   *
   * Errors   TENON_INVALID if the number of inputs does not match the function; exceptions of the
   *          function
   * Threads  [step] */
  virtual std::vector<at::Tensor> run(const BlockCall& call) = 0;
};

/* A LiveModule for a holder (torch::nn::Linear) or a std::shared_ptr to a module. */
template <class Holder, class Forward>
class LiveModuleOf final : public LiveModule {
 public:
  LiveModuleOf(Holder holder, Forward forward)
      : holder_(std::move(holder)), forward_(std::move(forward)) {}
  torch::nn::Module& module() override { return *holder_; }
  std::vector<at::Tensor> run(const BlockCall& call) override {
    // Up to three inputs are passed as separate arguments; with more, `forward` takes a BlockCall.
    if constexpr (std::is_invocable_v<Forward&, Holder&, const BlockCall&>) {
      return pack(forward_(holder_, call));
    } else if constexpr (std::is_invocable_v<Forward&, Holder&, const at::Tensor&>) {
      check_inputs(call, 1);
      return pack(forward_(holder_, call.input(0)));
    } else if constexpr (std::is_invocable_v<Forward&,
                                             Holder&,
                                             const at::Tensor&,
                                             const at::Tensor&>) {
      check_inputs(call, 2);
      return pack(forward_(holder_, call.input(0), call.input(1)));
    } else {
      check_inputs(call, 3);
      return pack(forward_(holder_, call.input(0), call.input(1), call.input(2)));
    }
  }

 private:
  static void check_inputs(const BlockCall& call, size_t n) {
    TENON_CHECK(call.num_inputs() == n,
                "the block has ",
                call.num_inputs(),
                " inputs, but its function takes ",
                n);
  }
  static std::vector<at::Tensor> pack(at::Tensor output) { return {std::move(output)}; }
  static std::vector<at::Tensor> pack(std::vector<at::Tensor> outputs) { return outputs; }

  Holder holder_;
  Forward forward_;
};

/* A Graph whose blocks are modules. Errors, threads and ownership are those of Graph. */
class ModuleGraph {
 public:
  using Factory = std::function<std::unique_ptr<LiveModule>()>;
  struct Block {
    BlockSpec spec;
    Factory factory;
  };

  explicit ModuleGraph(Graph& graph) : graph_(&graph) {}

  /* As in Graph. */
  ValueId input(const std::string& name,
                Axes axes,
                uint32_t dtype,
                const std::string& field = {},
                const Split& split = {}) {
    return graph_->input(name, std::move(axes), dtype, field, split);
  }
  ValueId value(const std::string& name,
                Axes axes,
                uint32_t dtype = TENON_CLASS_COMPUTE,
                const Split& split = {}) {
    return graph_->value(name, std::move(axes), dtype, split);
  }
  Graph& graph() { return *graph_; }

  /* Declares how tensor-parallel ranks may divide parameter `name`, a leaf BLOCK.NAME. Call it
   * before `module` of that block:
   *
   *     g.split("body.weight", {0, {512, 128, 128}, {8, 2, 2}});
   *
   * Errors   TENON_INVALID for a name that already has a split; at the end of `describe`, for a
   *          name that is a parameter of no block */
  void split(const std::string& name, Split split) {
    const bool is_new = splits_.emplace(name, std::move(split)).second;
    TENON_CHECK(is_new, "parameter ", name, " has two splits");
  }

  /* Declares a block. `factory` builds its module, with initial values from torch's default
   * generator. `forward` takes the module and one at::Tensor per input (up to three), or the module
   * and a `const BlockCall&`. It returns an at::Tensor or a std::vector of them. `flags` is
   * TENON_BLOCK_*. */
  template <class Build, class Forward>
  void module(const std::string& name,
              std::vector<ValueId> inputs,
              std::vector<ValueId> outputs,
              Build factory,
              Forward forward,
              uint32_t flags = 0) {
    using Holder = std::invoke_result_t<Build&>;
    blocks_.push_back(
        {{name, std::move(inputs), std::move(outputs), {}, {}, flags | TENON_BLOCK_MATERIALIZED},
         [factory, forward]() mutable -> std::unique_ptr<LiveModule> {
           return std::make_unique<LiveModuleOf<Holder, Forward>>(factory(), forward);
         }});
  }

 private:
  friend class ModuleModel;
  Graph* graph_;
  std::vector<Block> blocks_;
  std::map<std::string, Split> splits_;  // not yet passed on
};

/* A model of modules. */
class ModuleModel : public Model {
 public:
  /* Declares the model.
   *
   * Errors   those of the graph, passed on
   * Threads  [main], once, before any other call */
  virtual void describe(ModuleGraph& graph) = 0;

  /* Returns the TENON_PARAM_* flags of a parameter. By default, parameters with at most one axis
   * (biases, norms) have no weight decay, and parameters that require no gradient are frozen.
   *
   * Errors   any exception ends the run before the first step
   * Threads  [main], during `describe` */
  virtual uint32_t parameter_flags(const std::string& /*name*/, const at::Tensor& parameter) const {
    return (parameter.dim() <= 1 ? uint32_t{TENON_PARAM_NO_DECAY} : 0) |
           (parameter.requires_grad() ? 0 : uint32_t{TENON_PARAM_FROZEN});
  }

  /* Returns true for a buffer whose increments are summed over the microbatches and ranks of a
   * step, such as a count of samples. A forward reads its value before the step. Other buffers are
   * those of rank 0.
   *
   * Errors   any exception ends the run before the first step
   * Threads  [main], during `describe` */
  virtual bool is_summed(const std::string& /*name*/, const at::Tensor& /*buffer*/) const {
    return false;
  }

  void on_describe(Graph& graph) final {
    call_torch([&] {
      ModuleGraph modules(graph);
      describe(modules);
      for (ModuleGraph::Block& block : modules.blocks_) {
        add_block(graph, std::move(block), modules.splits_);
      }
      TENON_CHECK(modules.splits_.empty(),
                  "a split names ",
                  modules.splits_.begin()->first,
                  ", which is a parameter of no block");
    });
  }

  const void* extension(const char* id) override {
    return sums_.is_empty() ? nullptr : StepSumsCalls<ModuleModel>::find(id);
  }
  const StepSumsInfo& step_sums() const { return sums_; }

  void on_materialize(const Exec& exec, const tenon_materialize_args& args) final {
    call_torch([&] {
      Block& b = at_index(args.block);
      b.live = b.factory();
      b.buffers = buffers_of(b.live->module());
      const Leaves leaves = leaves_of(b.live->module());
      TENON_CHECK(leaves.size() == args.num_leaves,
                  "block ",
                  b.name,
                  " has ",
                  leaves.size(),
                  " parameters (expected ",
                  args.num_leaves,
                  ", as described)");
      for (size_t i = 0; i < leaves.size(); ++i) {
        args.leaves_own[i] = wrap(exec.host(), leaves[i].second);
      }
    });
  }

  void on_forward(const Exec& exec, tenon_forward_args& args) final {
    call_torch([&] {
      Block& b = at_index(args.block);
      if (!b.live) {
        // The host does not materialize a block without parameters.
        b.live = b.factory();
        b.buffers = buffers_of(b.live->module());
      }
      torch::nn::Module& module = b.live->module();
      if (module.is_training() != exec.is_train()) {
        module.train(exec.is_train());
      }
      const BlockCall call(exec, args);
      put_buffers(b, call);
      hand_over(exec, args, b.live->run(call));
      // Some kernels (batch_norm) write to buffers without increasing their version, so all buffers
      // are returned.
      for (size_t i = 0; i < b.buffers.size() && exec.is_train(); ++i) {
        call.set_next_buffer(i, b.buffers[i].second.detach());
      }
    });
  }

  void on_fill_buffer(const Exec& /*exec*/, const tenon_fill_buffer_args& args) final {
    TENON_CHECK(args.buffer < buffers_.size() && buffers_[args.buffer].is_declared,
                "there is no buffer ",
                args.buffer);
    call_torch([&] {
      FirstBuffer& buffer = buffers_[args.buffer];
      if (!buffer.value.defined()) {
        build_buffers(buffer.block);
      }
      unwrap_mutable(args.tensor).copy_(buffer.value);
      if (buffer.is_deferred) {
        buffer.value.reset();
      }
    });
  }

 private:
  using Leaves = std::vector<std::pair<std::string, at::Tensor>>;

  struct Block {
    std::string name;
    ModuleGraph::Factory factory;
    std::unique_ptr<LiveModule> live;
    Leaves buffers;  // of `live`; the same tensors as the module's members
  };

  // Lists each tensor once; a module that registers a tensor twice has it under its first name.
  static Leaves leaves_of(const torch::nn::Module& module) {
    return distinct(module.named_parameters(/*recurse=*/true));
  }
  static Leaves buffers_of(const torch::nn::Module& module) {
    return distinct(module.named_buffers(/*recurse=*/true));
  }
  template <class Dict>
  static Leaves distinct(const Dict& dict) {
    Leaves out;
    for (const auto& item : dict) {
      bool seen = !item.value().defined();
      for (const auto& [name, tensor] : out) {
        seen = seen || tensor.is_same(item.value());
      }
      if (!seen) {
        out.emplace_back(item.key(), item.value());
      }
    }
    return out;
  }

  // The initial value of a buffer: that of the module that `describe` builds.
  struct FirstBuffer {
    bool is_declared = false;
    bool is_deferred = false;  // the module had no memory: it is built again for the value
    uint32_t block = 0;
    size_t place = 0;  // in the buffers of the block
    at::Tensor value;
  };

  // A module that is built to be read, and the flags of its parameters.
  struct Probe {
    std::unique_ptr<LiveModule> live;
    std::vector<uint32_t> flags;
  };

  // Restores torch's default generator at its end: describing a model must not change later random
  // numbers.
  class KeptGenerator {
   public:
    KeptGenerator() : state_(locked([](at::Generator& g) { return g.get_state(); })) {}
    KeptGenerator(const KeptGenerator&) = delete;
    KeptGenerator& operator=(const KeptGenerator&) = delete;
    ~KeptGenerator() { set(state_); }

    const at::Tensor& state() const { return state_; }
    static void set(const at::Tensor& state) {
      locked([&](at::Generator& g) {
        g.set_state(state);
        return state;
      });
    }

   private:
    template <class Body>
    static at::Tensor locked(Body body) {
      at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
      const std::lock_guard<std::mutex> lock(generator.mutex());
      return body(generator);
    }
    at::Tensor state_;
  };

  Probe probe(const ModuleGraph::Factory& factory, const std::string& prefix) const {
    const KeptGenerator kept;
    Probe out{factory(), {}};
    const std::set<const void*> wide = with_statistics(out.live->module());
    for (const auto& [name, tensor] : leaves_of(out.live->module())) {
      TENON_CHECK(tensor.is_floating_point() || !tensor.requires_grad(),
                  "parameter ",
                  prefix,
                  name,
                  " does not have a floating-point dtype");
      out.flags.push_back(
          parameter_flags(prefix + name, tensor) |
          (wide.count(tensor.unsafeGetTensorImpl()) != 0 ? uint32_t{TENON_PARAM_KEEP_FP32} : 0));
    }
    return out;
  }

  // Parameters of modules with running statistics. The statistics are fp32, and libtorch's batch
  // norm wants both in one dtype.
  static std::set<const void*> with_statistics(const torch::nn::Module& module) {
    std::set<const void*> found;
    const auto add = [&found](const torch::nn::Module& one) {
      const auto buffers = one.named_buffers(/*recurse=*/false);
      const at::Tensor* const mean = buffers.find("running_mean");
      if (mean != nullptr && mean->defined()) {
        for (const at::Tensor& parameter : one.parameters(/*recurse=*/false)) {
          found.insert(parameter.unsafeGetTensorImpl());
        }
      }
    };
    add(module);
    for (const auto& child : module.modules(/*include_self=*/false)) {
      add(*child);
    }
    return found;
  }

  // Builds the module to read names and shapes, without memory for its large tensors if possible: a
  // module that reads their values fails, and is built with them.
  Probe probe_without_memory(const ModuleGraph::Factory& factory, const std::string& prefix) const {
    try {
      const DeferredInit deferred;
      return probe(factory, prefix);
    } catch (const std::exception&) {
      return probe(factory, prefix);
    }
  }

  // Takes the splits of the parameters out of `splits`.
  void add_block(Graph& graph, ModuleGraph::Block block, std::map<std::string, Split>& splits) {
    const std::string prefix = block.spec.name + ".";
    const Probe built = probe_without_memory(block.factory, prefix);
    Block live{block.spec.name, std::move(block.factory), nullptr, {}};
    size_t next = 0;
    for (const auto& [name, tensor] : leaves_of(built.live->module())) {
      const bool is_plain = tensor.dtype() == at::get_default_dtype();
      const auto split = splits.extract(prefix + name);
      block.spec.parameters.push_back(
          graph.parameter(prefix + name,
                          tensor.sizes().vec(),
                          Init::module(),
                          built.flags[next++],
                          split.empty() ? Split() : split.mapped(),
                          is_plain ? uint32_t{TENON_CLASS_PARAM} : dtype_of(tensor)));
    }
    for (const auto& [name, tensor] : buffers_of(built.live->module())) {
      block.spec.buffers.push_back(
          graph.buffer(prefix + name, tensor.sizes().vec(), dtype_of(tensor), TENON_BUFFER_STATE));
      if (is_summed(prefix + name, tensor)) {
        sums_.buffers.push_back(block.spec.buffers.back().index);
      }
    }
    if (block.spec.parameters.empty()) {
      block.spec.flags &= ~uint32_t{TENON_BLOCK_MATERIALIZED};
    }
    const uint32_t index = graph.add_block(block.spec);
    if (blocks_.size() <= index) {
      blocks_.resize(index + 1);
    }
    blocks_[index] = std::move(live);
    keep_buffers(index, built.live->module(), block.spec.buffers);
  }

  // A module without memory draws fewer random numbers, so that none of its values are final.
  void keep_buffers(uint32_t block, torch::nn::Module& module, const std::vector<BufferId>& ids) {
    const auto has_no_memory = [](const auto& leaf) { return leaf.second.is_meta(); };
    const Leaves leaves = leaves_of(module);
    const Leaves buffers = buffers_of(module);
    const bool is_deferred = std::any_of(leaves.begin(), leaves.end(), has_no_memory) ||
                             std::any_of(buffers.begin(), buffers.end(), has_no_memory);
    if (is_deferred && !described_with_.defined()) {
      described_with_ = KeptGenerator().state();
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers_.size() <= ids[i].index) {
        buffers_.resize(ids[i].index + 1);
      }
      const at::Tensor value = is_deferred ? at::Tensor() : buffers[i].second.detach().clone();
      buffers_[ids[i].index] = {true, is_deferred, block, i, value};
    }
  }

  // Sets the deferred buffers of a block, from the random numbers that `describe` had.
  void build_buffers(uint32_t block) {
    const KeptGenerator kept;
    KeptGenerator::set(described_with_);
    const std::unique_ptr<LiveModule> built = at_index(block).factory();
    const Leaves tensors = buffers_of(built->module());
    for (FirstBuffer& buffer : buffers_) {
      if (buffer.is_deferred && buffer.block == block) {
        TENON_CHECK(buffer.place < tensors.size(), "the module has fewer buffers than described");
        buffer.value = tensors[buffer.place].second.detach();
      }
    }
  }

  // Points the module's buffers at copies of the host's values, so that writes of the module reach
  // the host only through set_next_buffer.
  static void put_buffers(Block& b, const BlockCall& call) {
    for (size_t i = 0; i < b.buffers.size(); ++i) {
      const at::Tensor value = call.buffer(i).detach().clone();
      at::Tensor& own = b.buffers[i].second;
      if (value.is_meta() != own.is_meta()) {  // a plan runs the block without memory
        own.unsafeGetTensorImpl()->shallow_copy_from(value.getIntrusivePtr());
      } else {
        own.set_data(value);
      }
    }
  }

  Block& at_index(uint32_t index) {
    TENON_CHECK(index < blocks_.size() && blocks_[index].factory, "there is no block ", index);
    return blocks_[index];
  }

  std::vector<Block> blocks_;
  std::vector<FirstBuffer> buffers_;  // by index
  StepSumsInfo sums_;
  at::Tensor described_with_;  // torch's generator; undefined if nothing is deferred
};

TENON_NAMESPACE_END

#endif
