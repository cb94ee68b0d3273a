# SPDX-License-Identifier: Apache-2.0
"""Compiles a torch.nn.Module ahead of time, for the model plugin `aot` (experimental).

    import torch, tenon_aot

    module = MyModule()                       # with its initial values, in train mode
    tenon_aot.export(module, {"x": torch.randn(8, 64)}, "my_module", axes={"x": {0: "B"}})

writes the folder my_module: a forward and a backward as shared libraries, model.json and
weights.safetensors. A recipe trains it without Python:

    "model": {"type": "aot", "options": {"path": "my_module"}}

The folder has native code. Treat it as you treat a plugin. Needs torch 2.11 and g++.
"""
import contextlib
import ctypes
import json
import pathlib
import shutil
import struct
import subprocess
import tempfile

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_export_joint_simple
from torch._inductor import config as inductor_config
from torch._inductor import cpp_builder, cpu_vec_isa
from torch._inductor.compile_fx import partition_fn
from torch._inductor.decomposition import select_decomp_table
from torch.utils import _pytree as pytree

FORMAT = "tenon.aot/1"
TORCH = "2.11"

# Instruction sets to compile for: g++'s -march, the vector width of the generated loops, and the
# names in /proc/cpuinfo that a machine must have.
AVX2 = ["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"]
AVX512 = [*AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]
ISAS = {
    "sse": ("x86-64-v2", 1, ["sse4_1", "sse4_2", "ssse3", "popcnt"]),
    "avx2": ("x86-64-v3", 256, AVX2),
    "avx512": ("x86-64-v4", 512, AVX512),
}
DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
          torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
          torch.uint8: "U8", torch.bool: "BOOL"}


class ExportError(Exception):
    """The module cannot be exported; the message says why."""


def export(module, inputs, folder, *, axes=None, outputs=None, isa="avx2", verify=True):
    """Compiles `module` and writes `folder`, which must not exist.

    inputs: example tensors by name of the argument of forward. A recipe's dataset needs a field of
    the same name, or the option `inputs` of the plugin maps them.
    axes: {input: {axis: name}}, the axes whose size may change, such as {"x": {0: "B"}}. Other
    axes keep the size of the example. The example's sizes of these axes must be 2 or more.
    outputs: names of the outputs, in order. Default: "logits" if there is one output, otherwise
    "output_0", "output_1", ...
    isa: sse, avx2 or avx512, the instruction set that machines need.
    verify: run the compiled pair, and compare outputs and gradients with PyTorch's.
    """
    check_request(module, inputs, folder, isa)
    inputs = {name: value.contiguous() for name, value in inputs.items()}
    # Random numbers of libtorch's generator, which the host seeds, instead of Inductor's own.
    with inductor_config.patch({"fallback_random": True}):
        write_export(module, inputs, pathlib.Path(folder), axes or {}, outputs, isa, verify)


def write_export(module, inputs, target, axes, outputs, isa, verify):
    traced = Traced(module, inputs, axes)
    names = output_names(outputs, len(traced.outputs))
    pair = split_joint(traced)
    for name, size in traced.symbols.items():
        if not isinstance(size, torch.SymInt) or size.node.expr.is_number:
            raise ExportError(f"the module works for one size of axis {name} only ({size}); leave "
                              "it out of `axes`, or change the module")
    graphs = {"forward": pair.forward, "backward": pair.backward}
    evaluate = evaluation_of(module, inputs, axes, traced)
    if evaluate is not None:
        graphs["evaluate"] = evaluate
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as made:
        made = pathlib.Path(made)
        for name, graph in graphs.items():
            compile_graph(graph.module, made / f"{name}.so", isa)
        (made / "model.json").write_text(manifest(traced, names, graphs, isa))
        write_weights(made / "weights.safetensors", {**traced.parameters, **traced.buffers})
        if verify:
            with torch.random.fork_rng(devices=[]):
                verify_pair(traced, pair, made)
        result = made / "result"
        result.mkdir()
        for path in [*(f"{name}.so" for name in graphs), "model.json", "weights.safetensors"]:
            shutil.move(made / path, result / path)
        result.rename(target)


def check_request(module, inputs, folder, isa):
    if not torch.__version__.startswith(TORCH + "."):
        raise ExportError(f"torch {torch.__version__} is installed (expected {TORCH}.x); run pip "
                          f"install torch=={TORCH}.0")
    if isa not in ISAS:
        raise ExportError(f"isa is {isa!r} (expected one of {', '.join(ISAS)})")
    if pathlib.Path(folder).exists():
        raise ExportError(f"{folder} exists; remove it or choose another folder")
    for name, value in [*inputs.items(), *module.named_parameters(), *module.named_buffers()]:
        if not isinstance(value, torch.Tensor):
            raise ExportError(f"input {name} is {type(value).__name__} (expected a tensor); put "
                              "other arguments into a wrapper module")
        if value.device.type != "cpu":
            raise ExportError(f"{name} is on {value.device} (expected cpu); call module.cpu()")
        if value.dtype not in DTYPES:
            raise ExportError(f"{name} is {value.dtype} (expected one of "
                              f"{', '.join(str(dtype) for dtype in DTYPES)})")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ExportError("the module has no parameter that requires a gradient")


def output_names(names, count):
    names = names or (["logits"] if count == 1 else [f"output_{i}" for i in range(count)])
    if len(names) != count or len(set(names)) != count:
        raise ExportError(f"outputs has the names {', '.join(names)} (expected {count} different "
                          "names)")
    return names


class Traced:
    """A module as torch.export sees it, as a function of parameters, buffers and inputs."""

    def __init__(self, module, inputs, axes):
        self.inputs = inputs
        self.axes = {name: {axis: str(text) for axis, text in axes.get(name, {}).items()}
                     for name in inputs}
        unknown = set(axes) - set(inputs)
        if unknown:
            raise ExportError(f"axes names {', '.join(sorted(unknown))}, which are not inputs")
        dims = {text: torch.export.Dim(text) for of in self.axes.values() for text in of.values()}
        shapes = {name: {axis: dims[text] for axis, text in of.items()}
                  for name, of in self.axes.items()}
        program = torch.export.export(module, (), dict(inputs), dynamic_shapes=shapes)
        self.graph_module = program.module(check_guards=False)
        self.parameters = dict(self.graph_module.named_parameters())
        self.buffers = dict(self.graph_module.named_buffers())
        self.saved_buffers = set(module.state_dict())
        functional = program.run_decompositions({}).graph_signature
        self.updated = sorted(set(functional.buffers_to_mutate.values()),
                              key=list(self.buffers).index)
        self.code = str(program.graph)
        self.symbols = {}  # of a named axis, by name
        fakes = {node.name: node.meta["val"] for node in program.graph.nodes
                 if node.op == "placeholder"}
        user = [fakes[name] for name in program.graph_signature.user_inputs]
        for (name, of), fake in zip(self.axes.items(), user):
            for axis, text in of.items():
                self.symbols[text] = fake.shape[axis]
        mode = next(iter(fakes.values())).fake_mode
        # Without this dispatcher, composite operators fix sizes that may vary.
        with mode, enable_python_dispatcher():
            held = [mode.from_tensor(value.detach().contiguous(), static_shapes=True)
                    .requires_grad_(value.requires_grad) for value in
                    [*self.parameters.values(), *self.buffers.values()]]
            self.outputs = pytree.tree_leaves(self.run(*held, *user)[0])
        self.fakes = [*held, *user]

    def run(self, *flat):
        """Returns outputs and updated buffers."""
        starts = [len(self.parameters), len(self.parameters) + len(self.buffers)]
        held = dict(zip(self.parameters, flat))
        # Clones: the module writes into them.
        buffers = {name: value.clone() if name in self.updated else value
                   for name, value in zip(self.buffers, flat[starts[0]:])}
        out = torch.func.functional_call(self.graph_module, {**held, **buffers}, (),
                                         dict(zip(self.inputs, flat[starts[1]:])))
        return pytree.tree_leaves(out), [buffers[name] for name in self.updated]

    def __call__(self, *flat):
        outputs, buffers = self.run(*flat)
        return (*outputs, *buffers)

    def label(self, index):
        """What input `index` of the function is, as text of the manifest."""
        for kind, count in [("parameter", len(self.parameters)), ("buffer", len(self.buffers))]:
            if index < count:
                return f"{kind} {index}"
            index -= count
        return f"input {index}"

    def result_label(self, index):
        if index < len(self.outputs):
            return f"output {index}"
        return f"buffer {list(self.buffers).index(self.updated[index - len(self.outputs)])}"


class Graph:
    """A graph to compile, and what its inputs and outputs are."""

    def __init__(self, module, inputs, outputs):
        self.module, self.inputs, self.outputs = module, inputs, outputs


class Pair:
    def __init__(self, forward, backward):
        self.forward, self.backward = forward, backward


def placeholders(graph_module):
    return [node for node in graph_module.graph.nodes if node.op == "placeholder"]


def results(graph_module):
    return list(graph_module.graph.output_node().args[0])


def split_joint(traced):
    """Traces forward and backward together, and cuts them where torch.compile would."""
    # Views are computed again, so that no saved tensor is memory of a parameter.
    with functorch_config.patch(recompute_views=True):
        joint = aot_export_joint_simple(traced, tuple(traced.fakes), trace_joint=True,
                                        decompositions=select_decomp_table())
        count = len(traced.outputs) + len(traced.updated)
        examples = [node.meta["val"] for node in placeholders(joint)]
        tangents = [node.name for node in placeholders(joint)][len(traced.fakes):]
        forward, backward = partition_fn(joint, examples, num_fwd_outputs=count)
    labels = {node.name: traced.label(i) for i, node in enumerate(placeholders(forward))}
    differentiable = [i for i, value in enumerate(traced.outputs) if value.requires_grad]
    for i, name in zip(differentiable, tangents):
        labels[name] = f"gradient {i}"
    name_results(forward, traced, count, labels)
    recompute_sizes(backward)
    gradients = []
    for i, node in enumerate(results(backward)):
        gradients.append(traced.label(i) if node is not None else None)
    keep_results(backward, [i for i, name in enumerate(gradients) if name is not None])
    drop_unused(forward)
    drop_unused(backward)
    return Pair(
        Graph(forward, [labels[node.name] for node in placeholders(forward)],
              forward.meta["labels"]),
        Graph(backward, [labels[node.name] for node in placeholders(backward)],
              [name for name in gradients if name is not None]))


def name_results(forward, traced, count, labels):
    """Labels what the forward returns, and removes what is returned twice or was passed in."""
    kept, names, saved = [], [], 0
    for i, node in enumerate(results(forward)):
        if i < count:
            kept.append(i)
            names.append(traced.result_label(i))
            labels.setdefault(node.name, names[-1])
        elif isinstance(node.meta["val"], torch.Tensor) and node.name not in labels:
            kept.append(i)
            names.append(f"saved {saved}")
            labels[node.name] = names[-1]
            saved += 1
    keep_results(forward, kept)
    forward.meta["labels"] = names


def keep_results(graph_module, kept):
    node = graph_module.graph.output_node()
    node.args = (tuple(node.args[0][i] for i in kept),)
    graph_module.recompile()


def drop_unused(graph_module):
    """Removes inputs without users, and what leads to no result."""
    graph_module.graph.eliminate_dead_code()
    for node in placeholders(graph_module):
        if not node.users:
            graph_module.graph.erase_node(node)
    graph_module.recompile()


def recompute_sizes(backward):
    """Replaces sizes that the forward would hand over by sizes of the backward's own inputs."""
    graph = backward.graph
    tensors = [node for node in placeholders(backward)
               if isinstance(node.meta["val"], torch.Tensor)]
    last = placeholders(backward)[-1]
    for node in placeholders(backward):
        if isinstance(node.meta["val"], torch.Tensor):
            continue
        expression = node.meta["val"].node.expr
        source = next(((tensor, axis) for tensor in tensors
                       for axis, size in enumerate(tensor.meta["val"].shape)
                       if isinstance(size, torch.SymInt) and size.node.expr == expression), None)
        if source is None:
            raise ExportError(f"the backward needs the size {expression}, which is the size of "
                              "none of its tensors; give fewer axes a name")
        with graph.inserting_after(last):
            size = graph.call_function(torch.ops.aten.sym_size.int, source)
            size.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(size)
        graph.erase_node(node)
    backward.recompile()


def evaluation_of(module, inputs, axes, traced):
    """The forward in eval mode; None if it is the same as in training."""
    was_training = module.training
    module.eval()
    try:
        evaluated = Traced(module, inputs, axes)
    finally:
        module.train(was_training)
    if evaluated.code == traced.code:
        return None
    fakes = [fake.detach() for fake in evaluated.fakes]
    graph_module = aot_export_joint_simple(evaluated, tuple(fakes), trace_joint=False,
                                           decompositions=select_decomp_table())
    labels = {node.name: evaluated.label(i) for i, node in enumerate(placeholders(graph_module))}
    keep_results(graph_module, range(len(evaluated.outputs)))
    drop_unused(graph_module)
    return Graph(graph_module, [labels[node.name] for node in placeholders(graph_module)],
                 [f"output {i}" for i in range(len(evaluated.outputs))])


@contextlib.contextmanager
def compiler_flags(isa, folder):
    """Compiles for `isa` instead of this machine, and keeps paths of this machine out of the file.

    Only what libtorch calls is exported, as from a plugin.
    """
    original = cpp_builder._get_optimization_cflags
    exports = pathlib.Path(folder) / "exports.map"
    exports.write_text("{ global: AOTInductor*; local: *; };\n")

    def flags(*args, **kwargs):
        cflags, ldflags = original(*args, **kwargs)
        cflags = [flag for flag in cflags if not flag.startswith("march=")]
        root = pathlib.Path(torch.__file__).parent.parent
        cflags += [f"march={ISAS[isa][0]}", f"ffile-prefix-map={root}=python",
                   f"ffile-prefix-map={tempfile.gettempdir()}=tmp", "fno-gnu-unique",
                   "fvisibility=hidden", "fvisibility-inlines-hidden", "ffunction-sections",
                   "fdata-sections"]
        return cflags, [*ldflags, "Wl,--gc-sections", "Wl,-s", f"Wl,--version-script={exports}"]

    cpp_builder._get_optimization_cflags = flags
    try:
        yield
    finally:
        cpp_builder._get_optimization_cflags = original


def compile_graph(graph_module, target, isa):
    # Found before the options below, which would spoil the test programs of this function.
    if isa != "sse" and not any(found.bit_width() == ISAS[isa][1]
                                for found in cpu_vec_isa.valid_vec_isa_list()):
        raise ExportError(f"this machine or its compiler lacks {isa}; choose another isa")
    examples = tuple(node.meta["val"] for node in placeholders(graph_module))
    with tempfile.TemporaryDirectory(prefix="tenon-aot-") as folder, \
            compiler_flags(isa, folder):
        built = torch._inductor.aot_compile(graph_module, examples, options={
            "aot_inductor.link_libtorch": False,  # the host has it
            "aot_inductor.output_path": folder,
            "aot_inductor.compile_wrapper_opt_level": "Os",
            "aot_inductor.precompile_headers": False,
            "cpp.dynamic_threads": True,
            "cpp.simdlen": ISAS[isa][1],
        })
        shutil.move(built, target)
    target.chmod(0o644)


def manifest(traced, names, graphs, isa):
    def axes_of(value):
        text = {symbol.node.expr: name for name, symbol in traced.symbols.items()}
        return [size if isinstance(size, int) else text.get(size.node.expr, "")
                for size in value.shape]

    def tensor(name, value):
        return {"name": name, "dtype": DTYPES[value.dtype], "axes": axes_of(value)}

    users = traced.fakes[len(traced.parameters) + len(traced.buffers):]
    document = {
        "format": FORMAT, "torch": torch.__version__.split("+")[0], "device": "cpu",
        "machine": "x86_64", "cpu_flags": ISAS[isa][2],
        "inputs": [tensor(name, fake) for name, fake in zip(traced.inputs, users)],
        "outputs": [tensor(name, fake) for name, fake in zip(names, traced.outputs)],
        "parameters": [{**tensor(name, value), "trained": value.requires_grad}
                       for name, value in traced.parameters.items()],
        "buffers": [{**tensor(name, value), "saved": name in traced.saved_buffers}
                    for name, value in traced.buffers.items()],
        "graphs": {name: {"file": f"{name}.so", "inputs": graph.inputs, "outputs": graph.outputs}
                   for name, graph in graphs.items()},
    }
    lines = json.dumps(document, indent=1)
    return lines + "\n"


def write_weights(path, tensors):
    header, end = {}, 0
    for name, value in tensors.items():
        size = value.numel() * value.element_size()
        header[name] = {"dtype": DTYPES[value.dtype], "shape": list(value.shape),
                        "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for value in tensors.values():
            flat = value.detach().contiguous().reshape(-1).view(torch.uint8)
            file.write(flat.numpy().tobytes())


def verify_pair(traced, pair, folder):
    """Compares the pair with PyTorch, for the sizes of the example and for larger named axes."""
    # The compiled files find libtorch in the process, as they do in the host.
    ctypes.CDLL(str(pathlib.Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"),
                mode=ctypes.RTLD_GLOBAL)
    forward = torch._C._aoti.AOTIModelContainerRunnerCpu(str(folder / "forward.so"), 1)
    backward = torch._C._aoti.AOTIModelContainerRunnerCpu(str(folder / "backward.so"), 1)
    for more in [0, 3] if traced.symbols else [0]:
        given = {}
        for name, value in traced.inputs.items():
            for axis in traced.axes[name]:
                value = torch.cat([value, value.narrow(axis, 0, 1).repeat_interleave(more, axis)],
                                  axis) if more else value
            given[name] = value
        held = {f"parameter {i}": value.detach().clone(memory_format=torch.contiguous_format)
                .requires_grad_(value.requires_grad)
                for i, value in enumerate(traced.parameters.values())}
        held |= {f"buffer {i}": value.clone() for i, value in enumerate(traced.buffers.values())}
        held |= {f"input {i}": value for i, value in enumerate(given.values())}
        torch.manual_seed(0)  # both draw the same numbers
        wanted = traced(*held.values())
        known = {name: value.detach() for name, value in held.items()}
        torch.manual_seed(0)
        found = forward.run([known[name] for name in pair.forward.inputs])
        made = dict(zip(pair.forward.outputs, found))
        for i, value in enumerate(wanted):
            check_close(traced.result_label(i), made[traced.result_label(i)], value, largest(value),
                        more)
        seeds = {f"gradient {i}": torch.cos(torch.arange(value.numel()).reshape(value.shape)
                                            .to(value.dtype))
                 for i, value in enumerate(wanted) if value.requires_grad}
        total = sum((wanted[int(name.split()[1])] * seed).sum() for name, seed in seeds.items())
        leaves = [held[name] for name in pair.backward.outputs]
        gradients = torch.autograd.grad(total, leaves, allow_unused=True)
        # Some gradients are zero except for rounding, such as that of a bias before a batch norm.
        scale = max(largest(gradient) for gradient in gradients if gradient is not None)
        known |= {name: value for name, value in made.items() if not name.startswith("buffer")}
        known |= seeds
        found = backward.run([known[name] for name in pair.backward.inputs])
        for name, value, gradient in zip(pair.backward.outputs, found, gradients):
            check_close(f"the gradient of {name}", value,
                        torch.zeros_like(value) if gradient is None else gradient, scale, more)


def largest(value):
    return value.detach().abs().max().item() if value.numel() else 0.0


def check_close(what, found, wanted, scale, more):
    tolerance = 1e-2 if found.dtype in (torch.float16, torch.bfloat16) else 1e-4
    if found.shape != wanted.shape or not torch.allclose(
            found.double(), wanted.detach().double(), rtol=tolerance, atol=tolerance * scale):
        raise ExportError(f"{what} of the compiled module differs from PyTorch's"
                          + (" with other sizes than the example's" if more else "")
                          + "; this module is not supported")
