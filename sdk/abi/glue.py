#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tables that follow from the headers: names of events for the wrapper and the host, and for the host thread
roles, ids of services, checked tables and services (--check-plugins), and services that fail (--check-plugin).

    python3 sdk/abi/glue.py            write the files
    python3 sdk/abi/glue.py --check    fail if a file differs

Declarations and roles come from abi.json. The headers' comments state what a struct is ("Interface TENON_LOSS_ID"),
the lengths of arrays ("[num_inputs]"), and what is reserved. What neither states is in the tables below, each entry
with its reason. A function that needs checks and fits no rule is an error that names it.
"""
import argparse
import json
import re
import sys
import textwrap

import describe_abi
import rust_declarations

ROOT = describe_abi.ABI.parents[1]
WIDTH = 100

# ---- what the headers do not state ----

# Functions of which the host has a version written by hand.
BY_HAND = {
    ("tenon_feature", "run"): "columns are nested in arrays of calls",
    ("tenon_hook", "on_event"): "the run of an event has its functions in another struct",
    ("tenon_op_api", "call"): "tensors are in tagged values, and the name is that of the operator",
    ("tenon_parallel_api", "run"): "the body runs on other threads, in the frame of the call",
    ("tenon_tensor_api", "release"): "it returns no status, and reports more than an invalid handle",
}

# Extensions whose tables the host checks. It asks each instance for its table, and calls the others unchecked.
CHECKED_EXTENSIONS = ("tenon_stateful",)

# Kinds of components with an extension that the comment of the extension does not name.
KIND_OF_EXTENSION = {"tenon_sample_places": "dataset"}

# Lengths of arrays, by struct and field or by struct and the text between [ and ].
LENGTHS = {
    ("tenon_backward_args", "grad_parameters_own"): "num_parameters",  # it shares the comment of grad_inputs_own
    ("tenon_evaluation_values_args", "n"): "num_pieces",  # "pieces as in tenon_update_args"
}

# How failing services replace functions that return no status, or that count what they return.
FAULTY_BY_HAND = {
    ("tenon_memory_api", "allocate"): "allocate_counted",
    ("tenon_memory_api", "release"): "release_counted",
    ("tenon_status_api", "release"): "release_status",
}
NEVER_FAILS = {("tenon_status_api", "make"): "a plugin makes statuses to report the failure of another call"}

# The objects that the check of failing services passes to components.
FAULTY_OBJECTS = ("tenon_model_builder", "tenon_state_writer")


# ---- the ABI ----


def short(name):
    """The name in those of functions: "loss" for tenon_loss, "op" for tenon_op_api."""
    return name.removeprefix("tenon_").removesuffix("_api")


def pointee(kind):
    """The struct that a pointer points to: "tenon_x" for "const tenon_x*"; "" for other types."""
    found = re.fullmatch(r"(?:const )?(tenon_\w+)\*", kind)
    return found.group(1) if found else ""


def split_parameter(text):
    """A parameter's type and name."""
    function = re.fullmatch(r".*\(\*(\w+)\)\(.*\)", text)
    return (text, function.group(1)) if function else re.fullmatch(r"(.*?)(\w+)", text).groups()


def type_of(field):
    """The type of a field that is no function; of a union, those of its members."""
    kinds = [member["type"] for member in field.get("members", [field])]
    return " | ".join(kind.removeprefix("struct ").replace("const struct ", "const ") for kind in kinds)


class Function:
    def __init__(self, table, field):
        self.table, self.name = table, field["name"]
        self.result, self.threads = field["function"]["returns"], field["function"]["threads"]
        texts = [text for text in field["function"]["parameters"] if text != "void"]
        self.texts = [text.removeprefix("struct ") for text in texts]
        self.parameters = [(kind.strip(), name) for kind, name in map(split_parameter, self.texts)]

    @property
    def key(self):
        return self.table.name, self.name

    @property
    def names(self):
        return [name for _, name in self.parameters]

    @property
    def checked_name(self):
        return f"checked_{short(self.table.name)}_{self.name}"

    @property
    def returns_status(self):
        return self.result == "tenon_status*"

    @property
    def has_exec(self):
        return any(kind == "const tenon_exec*" for kind, _ in self.parameters)


class Struct:
    def __init__(self, struct, comments, is_reserved):
        self.name, self.header = struct["name"], struct["header"]
        self.fields = struct["fields"]
        self.comments = {f["name"]: comments.get(f"{self.name}.{f['name']}", "") for f in self.fields}
        self.comment = comments.get(self.name, "")
        self.is_reserved = is_reserved or "Reserved: ignored by this host" in self.comment
        role = re.match(r"/\* (Interface|Extension|Service) (TENON_\w+_ID)(?: of an? (\w+))?", self.comment)
        self.role, self.id, self.of_kind = role.groups() if role else (None, None, None)
        self.functions = [Function(self, f) for f in self.fields if "function" in f]
        self.types = {f["name"]: type_of(f) for f in self.fields if "type" in f and not self.is_ignored(f["name"])}

    def is_ignored(self, field):
        return "Reserved: ignored by this host" in self.comments[field]

    @property
    def is_object(self):
        """The host lends it for a call, during which its functions may be called."""
        return "impl" in self.types and any(function.threads == ["call"] for function in self.functions)


class Abi:
    def __init__(self):
        abi = json.loads(describe_abi.FILE.read_text())
        comments = rust_declarations.comments_of_headers()
        reserved = {str(header.relative_to(describe_abi.INCLUDE)) for header in describe_abi.headers()
                    if "*\n * Reserved: ignored by this host" in header.read_text().split("*/")[0]}
        self.constants = abi["constants"]
        self.structs = {s["name"]: Struct(s, comments, s["header"] in reserved) for s in abi["structs"]}

    def with_role(self, *roles):
        return [s for s in self.structs.values() if s.role in roles and not s.is_reserved]

    def kind_of(self, table):
        """The kind whose components have a table; "" if all may have it."""
        if table.role == "Interface":
            return self.constants[table.id].split(".")[1].split("/")[0]
        return table.of_kind or KIND_OF_EXTENSION.get(table.name, "")

    def passes_tensors(self, kind):
        """True if a type is, or leads to, a tensor, a lent object or the run of a hook."""
        if "tenon_tensor*" in kind or kind == "tenon_run*":
            return True
        struct = self.structs.get(pointee(kind))
        if struct is None or struct.name == "tenon_exec":
            return False
        return struct.is_object or any(self.passes_tensors(of) for of in struct.types.values())


# ---- text ----


def head(what, *groups):
    """The start of a file of the host. `groups` are the names of its includes."""
    lines = ["// SPDX-License-Identifier: Apache-2.0", "//"]
    lines += textwrap.wrap(f"{what} Generated by sdk/abi/glue.py from the headers of the SDK. Do not edit.",
                           WIDTH, initial_indent="// ", subsequent_indent="// ", break_on_hyphens=False)
    lines.append("// clang-format off")
    for group in groups:
        lines += [*(f'#include "{name}"' if name.startswith("host/") else f"#include <{name}>"
                    for name in sorted(set(group))), ""]
    return [*lines, "namespace tenon {"]


def folded(begin, parts, end, width=WIDTH):
    """A call on one line, or with a line for each part."""
    line = f"{begin}{', '.join(parts)}{end}"
    if len(line) <= width:
        return [line]
    return [begin, *(f"    {part}," for part in parts[:-1]), f"    {parts[-1]}{end}"]


def statement(begin, parts, end=");"):
    return folded(begin, parts, end, WIDTH - 4)  # at most 4 spaces before it


def definition(function, body):
    """The function that replaces one of a table."""
    return ["", *folded(f"{function.result} {function.checked_name}(", function.texts, ") {"),
            *(f"  {line}" for line in body), "}"]


def replacement(functions):
    """Sets functions of `to`, a copy of a table, to the checked ones, if the copy has them."""
    return [f"      set_if(to.{function.name}, {function.checked_name});" for function in functions]


# ---- roles and ids ----


def function_roles(abi):
    tables = [abi.structs["tenon_component"], *abi.with_role("Interface", "Extension")]
    lines = head("The thread role of each function of a component.", ["host/plugin/checked/function_roles.hpp"],
                 ["array"])
    lines += ["namespace {", "", "constexpr auto kFunctionRoles = std::to_array<FunctionRole>({"]
    roles = {}
    for table in sorted(tables, key=lambda table: (abi.kind_of(table) != "", table.name != "tenon_component")):
        for function in table.functions:
            role, kind = function.threads[0], abi.kind_of(table)
            if roles.setdefault((kind, function.name), role) != role:
                sys.exit(f"glue.py: {kind} has two functions {function.name} with other roles")
            more = ", true" if function.has_exec else ""
            lines.append(f'    {{"{table.name}", "{kind}", "{function.name}", Role::k{role.title()}{more}}},')
    return [*lines, "});", "", "}  // namespace", "",
            "std::span<const FunctionRole> all_function_roles() noexcept {", "  return kFunctionRoles;", "}"]


def service_ids(abi):
    services = abi.with_role("Service")
    lines = head("The ids of the services of the host.", ["host/plugin/service_ids.hpp"],
                 [service.header for service in services], ["array"])
    return [*lines, "namespace {", "", "constexpr auto kServiceIds = std::to_array<std::string_view>({",
            *(f"    {service.id}," for service in services), "});", "", "}  // namespace", "",
            "std::span<const std::string_view> all_service_ids() noexcept {", "  return kServiceIds;", "}"]


def event_names(abi):
    names = [name for name in abi.constants if name.startswith("TENON_EVENT_")]
    return [
        "// SPDX-License-Identifier: Apache-2.0", "//",
        "// Names of events. Generated by sdk/abi/glue.py from <tenon/hook.h>. Do not edit.",
        "#ifndef TENON_CPP_EVENT_NAMES_HPP", "#define TENON_CPP_EVENT_NAMES_HPP", "",
        "#include <tenon/cpp/namespace.hpp>", "#include <tenon/hook.h>", "", "#include <cstdint>", "",
        "TENON_NAMESPACE_BEGIN", "",
        '/* Returns the name of an event, for example "before_step"; null for an unknown number.', " *",
        " * Threads  any", " * Owner    the name lives as long as the process", " * Since    0.5 */",
        "constexpr const char* find_event_name(uint32_t event) noexcept {", "  switch (event) {",
        *(f'    case {name}:\n      return "{name.removeprefix("TENON_EVENT_").lower()}";' for name in names),
        "    default:", "      return nullptr;", "  }", "}", "", "TENON_NAMESPACE_END", "", "#endif"]


# ---- checked tables ----


def length_of(struct, field):
    """The length of an array of tensors: the name of a count, or a product of two."""
    found = re.match(r"/\* \[(\w+(?: \* \w+)*)\]", struct.comments[field])
    default = f"num_{field.removesuffix('_own')}"
    text = LENGTHS.get((struct.name, field)) or (found.group(1) if found else default)
    factors = [LENGTHS.get((struct.name, factor), factor) for factor in text.split(" * ")]
    stated = re.search(r"\bn = (num_\w+)", struct.comment)  # "n = num_pieces pieces of parameters"
    return [stated.group(1) if stated and factor == "n" else factor for factor in factors]


def info_of(table):
    """The struct that `describe` of a table fills; "" if it has none."""
    kinds = [pointee(kind) for f in table.functions if f.name == "describe" for kind, name in f.parameters
             if name == "out"]
    return kinds[0] if kinds else ""


class CheckedTables:
    """Writes the functions that lend tensors and objects to a component, and take its results."""

    def __init__(self, abi):
        self.abi = abi
        self.objects = {}  # that functions below lend, with their texts
        self.counts = {}  # of what `describe` returned, by table

    def what(self, struct):
        words = struct.name.removeprefix("tenon_").split("_")
        return f"arguments of {' '.join(words[:-1])}" if words[-1] == "args" else " ".join(words)

    def length(self, table, struct, field, source):
        factors = []
        for factor in length_of(struct, field):
            if factor in struct.types:
                factors.append(f"{source}{factor}")
            elif factor in self.abi.structs[info_of(table)].types:
                self.counts.setdefault(table.name, set()).add(factor)
                factors.append(f'count_of(self, "{factor}")')
            else:
                sys.exit(f"glue.py: {struct.name}.{field} has an unknown length {factor}; state [num_x] in its comment")
        return " * ".join(factors)

    def lent_fields(self, table, struct, source, target):
        """Statements that replace borrowed tensors and objects of a struct by lent ones."""
        for name, kind in struct.types.items():
            to = f"{target}{name} = "
            if kind in ("const tenon_tensor*", "tenon_tensor*") and not name.endswith("_own"):
                yield f'{to}current_frame().lend({source}{name}, "{name}");'
            elif kind in ("const tenon_tensor* const*", "tenon_tensor* const*"):
                length = self.length(table, struct, name, source)
                yield from statement(f"{to}current_frame().lend_all(", [f"{source}{name}", length, f'"{name}"'])
            elif self.is_object(kind):
                yield f"{to}{self.lend(table, kind)}({source}{name});"
            elif not kind.startswith("tenon_tensor*") and self.abi.passes_tensors(kind):
                sys.exit(f"glue.py: {struct.name}.{name} passes tensors in a form that glue.py cannot check; "
                         "write the function by hand and list it in BY_HAND")

    def taken_fields(self, table, struct, lent):
        """Statements that check results and pass them on."""
        for name, kind in struct.types.items():
            if kind == "tenon_tensor*" and name.endswith("_own"):
                yield f'take_result({lent}{name}, "{name}");'
            elif kind == "tenon_tensor**":
                yield f'take_results(args->{name}, {self.length(table, struct, name, "args->")}, "{name}");'
            if name.startswith("out_") and (name.endswith("_own") or not kind.endswith("*")):
                yield f"args->{name} = {lent}{name};"

    def is_object(self, kind):
        return pointee(kind) in self.abi.structs and self.abi.structs[pointee(kind)].is_object

    def lend(self, table, kind):
        """The name of the function that lends an object."""
        struct = self.abi.structs[pointee(kind)]
        name = f"lend_{short(struct.name)}"
        if struct.name not in self.objects:
            body = [f"TENON_CHECK_FUNCTION({struct.name}, to, {function.name});" for function in struct.functions]
            body += self.lent_fields(table, struct, "to.", "to.")
            begin = f"  return lend_object(real, \"{self.what(struct)}\", []({struct.name}& to) {{"
            self.objects[struct.name] = ["", f"{struct.name}* {name}({struct.name}* real) {{", begin,
                                         *(f"    {line}" for line in body), "  });", "}"]
        return name

    def call(self, begin, function, arguments):
        return statement(f"{begin}registered<{function.table.name}>(self).{function.name}(", arguments)

    def body(self, function):
        """The statements of the function that replaces one of a table."""
        kind, name = function.parameters[-1]
        struct = self.abi.structs.get(pointee(kind))
        passing = [name for kind, name in function.parameters if self.abi.passes_tensors(kind)]
        if not passing:
            return self.call("return ", function, function.names)
        is_known = struct is not None and (name == "args" or struct.is_object)
        if not is_known or passing != [name] or not function.returns_status:
            sys.exit(f"glue.py: {function.table.name}.{function.name} passes tensors in a form that glue.py cannot "
                     "check; write the function by hand and list it in BY_HAND")
        rest = function.names[:-1]
        if struct.is_object:
            lend = f"{self.lend(function.table, kind)}({name})"
            after = list(self.taken_fields(function.table, struct, "lent->"))
            if not after:
                return self.call("return ", function, [*rest, lend])
            before, argument = [f"{struct.name}* const lent = {lend};"], "lent"
        else:
            before = list(self.lent_fields(function.table, struct, "args->", "lent."))
            after = list(self.taken_fields(function.table, struct, "lent."))
            results = [line for line in after if line.startswith("args->")]
            if results and kind.startswith("const"):
                sys.exit(f"glue.py: the results of {function.table.name}.{function.name} are in constant arguments")
            argument = "&lent" if before or results else "args"  # args: it has only arrays to fill
            before = [f"{struct.name} lent = *args;", *before] if argument == "&lent" else []
        if not after:
            return [*before, *self.call("return ", function, [*rest, argument])]
        call = self.call("tenon_status* const status = ", function, [*rest, argument])
        return [*before, *call, *after, "return status;"]

    def described(self, function):
        """The statements of `describe` of a table whose arrays have lengths of its result."""
        counts = sorted(self.counts[function.table.name])
        return [*self.call("tenon_status* const status = ", function, function.names),
                *(f'set_count(self, "{count}", status == nullptr ? out->{count} : 0);' for count in counts),
                "return status;"]

    def needs_checks(self, function):
        reserved = any(self.abi.structs[pointee(kind)].is_reserved for kind, _ in function.parameters
                       if pointee(kind) in self.abi.structs)
        reserved = reserved or function.table.is_ignored(function.name)
        return not reserved and any(self.abi.passes_tensors(kind) for kind, _ in function.parameters)

    def table(self, table):
        """The functions that replace those of a table, and their definitions."""
        replaced = [f for f in table.functions if self.needs_checks(f) or table.name in CHECKED_EXTENSIONS]
        bodies = {f: self.body(f) for f in replaced if f.key not in BY_HAND}
        if table.name in self.counts:
            describe = next(f for f in table.functions if f.name == "describe")
            replaced = [describe, *replaced]
            bodies = {describe: self.described(describe), **bodies}
        return replaced, [line for function, body in bodies.items() for line in definition(function, body)]

    def lines(self):
        tables = self.abi.with_role("Interface")
        extensions = [self.abi.structs[name] for name in CHECKED_EXTENSIONS]
        replaced, definitions = {}, []
        for table in [*tables, *extensions]:
            replaced[table.name], text = self.table(table)
            definitions += [f"\n// ---- {table.name} ----", *text] if text else []
        run = self.abi.structs["tenon_run_api"]
        used = [table for table in [*tables, *extensions] if replaced[table.name]]
        lines = head("The functions of components in the checking mode, except those that checked_tables.cpp has: they "
                     "lend tensors and objects, call the plugin's function, and check its results.",
                     ["host/plugin/checked/checked_functions.hpp"], [table.header for table in used],
                     ["host/plugin/checked/lent_objects.hpp", "host/plugin/loaded_plugin.hpp"], ["memory"])
        lines += ["namespace {", "", "// ---- objects ----"]
        lines += [line for text in self.objects.values() for line in text]
        lines += [*definitions, "", "}  // namespace", "", "std::shared_ptr<const void> table_with_checks("
                  "const LoadedComponent& component) {"]
        for table in tables:
            if replaced[table.name]:
                lines += [f'  if (component.kind == "{self.abi.kind_of(table)}") {{',
                          f"    return copied<{table.name}>(component.table, []({table.name}& to) {{",
                          *replacement(replaced[table.name]), "    });", "  }"]
        lines += ["  return {component.table, [](const void*) {}};", "}", ""]
        for table in extensions:
            lines += [f"const {table.name}& checked_{short(table.name)}_table() {{",
                      f"  static constexpr {table.name} kChecked = {{", f"      .struct_size = sizeof({table.name}),",
                      *(f"      .{f.name} = {f.checked_name}," for f in replaced[table.name]), "  };",
                      "  return kChecked;", "}", ""]
        lines += ["void check_functions(tenon_run_api& to) {",
                  *(f"  TENON_CHECK_FUNCTION(tenon_run_api, to, {function.name});" for function in run.functions), "}"]
        return lines


# ---- checked services ----


def is_limited(function):
    """True if a function may not be called in every thread role."""
    return bool(set(function.threads) & {"load", "main", "step", "worker"})


def checked_service(abi, function):
    """The statements of the function that replaces one of a service; [] if it needs no checks."""
    before, refusals = [], []
    arguments = list(function.names)
    made = [name for kind, name in function.parameters if kind == "tenon_tensor**" and name == "out_own"]
    if is_limited(function):
        service = f"{function.name} of {abi.constants[function.table.id]}"
        least = "kStepOrWorker" if "worker" in function.threads else "kStep"
        before.append(f'check_role(host, "{service}", ServiceRole::{least});')
    for i, (kind, name) in enumerate(function.parameters):
        if kind == "tenon_run*":
            before.append(f"const CheckedRun* const lent = lent_run({name});")
            refusals += ["lent == nullptr", f'!check_use(*lent, "{function.name}")']
            arguments[i] = "lent->real"
        elif kind == "const tenon_tensor*":
            refusals.append(f'!check_passed({name}, "{function.name}")')
        elif abi.passes_tensors(kind) and name not in made:
            sys.exit(f"glue.py: {function.table.name}.{function.name} takes tensors in a form that glue.py cannot "
                     "check; write the function by hand and list it in BY_HAND")
    if not before and not refusals and not made:
        return []
    if not function.returns_status:
        sys.exit(f"glue.py: {function.table.name}.{function.name} returns no status, and cannot be refused; write the "
                 "function by hand and list it in BY_HAND")
    call = [f"real_service<{function.table.name}>->{function.name}(", arguments, ")"]
    if made:
        call = ["record_made(", [call[0] + ", ".join(call[1]) + call[2], "out_own", f'"{function.name}"'], ")"]
    if refusals:
        status = f"bad_call_status({'host' if 'host' in function.names else 'nullptr'})"
        before += [f"if ({' || '.join(refusals)}) {{", f"  return {status};", "}"]
    return [*before, *statement(f"return {call[0]}", call[1], call[2] + ";")]


def checked_services(abi):
    definitions, replaced = [], {}
    for service in abi.with_role("Service"):
        bodies = {f: checked_service(abi, f) for f in service.functions if f.key not in BY_HAND}
        replaced[service] = [f for f in service.functions if f.key in BY_HAND or bodies[f]]
        text = [line for function, body in bodies.items() if body for line in definition(function, body)]
        definitions += [f"\n// ---- {service.name} ----", *text] if text else []
    used = {service: functions for service, functions in replaced.items() if functions}
    lines = head("The services of the host in the checking mode, except functions that checked_services.cpp has: they "
                 "check roles and handles, call the host's function, and record the handles that it made.",
                 ["host/plugin/checked/checked_functions.hpp"], [service.header for service in used],
                 ["host/plugin/checked/lent_objects.hpp"])
    lines += ["namespace {", *definitions, "", "}  // namespace", "",
              "const void* service_with_checks(std::string_view id, const void* table) {"]
    for service, functions in used.items():
        lines += [f"  if (id == {service.id}) {{",
                  f"    return checked_copy<{service.name}>(table, []({service.name}& to) {{",
                  *replacement(functions), "    });", "  }"]
    return [*lines, "  return table;", "}"]


# ---- services that fail ----


def service_faults(abi):
    tables = {}
    for service in abi.with_role("Service"):
        lines = []
        for function in service.functions:
            if function.key in FAULTY_BY_HAND:
                lines.append(f"to.{function.name} = {FAULTY_BY_HAND[function.key]};")
            elif function.returns_status and function.key not in NEVER_FAILS:
                lines.append(f"TENON_FAULTY({service.name}, to, {function.name});")
        if lines:
            tables[service] = lines
    objects = [abi.structs[name] for name in FAULTY_OBJECTS]
    lines = head("Services and objects of the host whose functions fail on purpose.",
                 ["host/tools/check/faulty_functions.hpp"], [struct.header for struct in [*tables, *objects]])
    lines += ["", "const void* faulty_table(std::string_view id, const void* table) {"]
    for service, functions in tables.items():
        lines += [f"  if (id == {service.id}) {{", f"    auto& to = faulty_copy<{service.name}>(table);",
                  *(f"    {line}" for line in functions), "    return &to;", "  }"]
    lines += ["  return table;", "}"]
    for struct in objects:
        lines += ["", f"{struct.name} faulty_object(const {struct.name}& real) {{",
                  f"  {struct.name} to = real_table<{struct.name}> = real;",
                  *(f"  TENON_FAULTY({struct.name}, to, {function.name});" for function in struct.functions),
                  "  return to;", "}"]
    return lines


# ---- files ----


def files():
    """The text of each file, by its path from the root."""
    abi = Abi()
    host = {
        "host/plugin/checked/generated_function_roles.cpp": function_roles(abi),
        "host/plugin/checked/generated_tables.cpp": CheckedTables(abi).lines(),
        "host/plugin/checked/generated_services.cpp": checked_services(abi),
        "host/plugin/generated_service_ids.cpp": service_ids(abi),
        "host/tools/check/generated_service_faults.cpp": service_faults(abi),
    }
    texts = {path: [*lines, "", "}  // namespace tenon"] for path, lines in host.items()}
    texts["sdk/include/tenon/cpp/event_names.hpp"] = event_names(abi)
    return {ROOT / path: "\n".join(lines) + "\n" for path, lines in texts.items()}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--check", action="store_true")
    options = options.parse_args()
    texts = files()
    differ = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if options.check and differ:
        sys.exit("\n".join(f"{path.relative_to(ROOT)} does not follow from the headers; run ./dev docs"
                           for path in differ))
    for path in differ:
        path.write_text(texts[path])


if __name__ == "__main__":
    main()
