#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The files of sdk/abi/glue.py follow from the headers. In a copy of the SDK, an event, a function of a loss and one of
a service are added: each file gains their lines and no other. Forms that the checks cannot cover are refused by name.

    glue_test.py COMPILER
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import abi_test

ROOT = pathlib.Path(__file__).resolve().parents[2]

SCORE_ARGS = """
/* Arguments of `score`. */
typedef struct tenon_loss_score_args {
  size_t struct_size;
  const tenon_tensor* const* inputs; /* [num_inputs] as for `compute` */
  size_t num_inputs;
  tenon_tensor** parts_own; /* [num_inputs] results */
  tenon_tensor* out_score_own;
} tenon_loss_score_args;
TENON_SEAL(tenon_loss_score_args, out_score_own);

/* Interface TENON_LOSS_ID. */"""

SCORE = """

  /* Scores a microbatch.
   *
   * Threads  [worker] */
  tenon_status* (*score)(void* self, const tenon_exec* exec, tenon_loss_score_args* args);"""

# The lines that a file gains.
OF_EVENT = ["    case TENON_EVENT_AFTER_PAUSE:", '      return "after_pause";']
OF_ROLE = ['    {"tenon_loss", "loss", "score", Role::kWorker, true},']
OF_LOSS = """
tenon_status* checked_loss_score(void* self, const tenon_exec* exec, tenon_loss_score_args* args) {
  tenon_loss_score_args lent = *args;
  lent.inputs = current_frame().lend_all(args->inputs, args->num_inputs, "inputs");
  tenon_status* const status = registered<tenon_loss>(self).score(self, exec, &lent);
  take_results(args->parts_own, args->num_inputs, "parts_own");
  take_result(lent.out_score_own, "out_score_own");
  args->out_score_own = lent.out_score_own;
  return status;
}
      set_if(to.score, checked_loss_score);""".split("\n")
OF_SERVICE = """
tenon_status* checked_tensor_copy(
    const tenon_host* host,
    const tenon_tensor* tensor,
    tenon_tensor** out_own) {
  if (!check_passed(tensor, "copy")) {
    return bad_call_status(host);
  }
  return record_made(
      real_service<tenon_tensor_api>->copy(host, tensor, out_own),
      out_own,
      "copy");
}
      set_if(to.copy, checked_tensor_copy);""".split("\n")
OF_FAULTS = ["    TENON_FAULTY(tenon_tensor_api, to, copy);"]
COPY = "  tenon_status* (*copy)(const tenon_host* host, const tenon_tensor* tensor, tenon_tensor** out_own);"

GAINED = {
    "host/plugin/checked/generated_function_roles.cpp": OF_ROLE,
    "host/plugin/checked/generated_tables.cpp": OF_LOSS,
    "host/plugin/checked/generated_services.cpp": OF_SERVICE,
    "host/plugin/generated_service_ids.cpp": [],
    "host/tools/check/generated_service_faults.cpp": OF_FAULTS,
    "sdk/include/tenon/cpp/event_names.hpp": OF_EVENT,
}


class Copy:
    """A copy of the SDK, and of what glue.py writes, whose headers a test changes."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)
        shutil.copytree(ROOT / "sdk", self.root / "sdk", ignore=shutil.ignore_patterns("templates", "cmake"))
        for path in GAINED:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, self.root / path)

    def change(self, header, change):
        file = self.root / "sdk/include/tenon" / header
        text = file.read_text()
        changed = change(text)
        assert changed != text, f"adapt this test to {header}"
        file.write_text(changed)

    def append(self, header, struct, declaration, name):
        """Adds a declaration at the end of a struct."""
        def change(text):
            end = abi_test.declarations(text, struct)[-1][1]
            text = text[:end] + "\n" + declaration + text[end:]
            return re.sub(rf"TENON_SEAL\({struct}, \w+\)", f"TENON_SEAL({struct}, {name})", text)
        self.change(header, change)

    def glue(self, *arguments):
        """Describes the headers, and runs glue.py. Returns its exit status and output."""
        (self.root / "sdk/abi/abi.json").unlink()
        programs = self.root / "sdk/abi"
        subprocess.run([sys.executable, "-B", programs / "describe_abi.py", "--compiler", sys.argv[1]], check=True)
        run = subprocess.run([sys.executable, "-B", programs / "glue.py", *arguments], capture_output=True, text=True)
        return run.returncode, run.stdout + run.stderr


def check_additions():
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(folder)
        assert copy.glue("--check") == (0, "")
        copy.change("hook.h", lambda text: text.replace("TENON_NUM_EVENTS = 28",
                                                        "TENON_EVENT_AFTER_PAUSE = 28,\n  TENON_NUM_EVENTS = 29"))
        copy.change("loss.h", lambda text: text.replace("\n/* Interface TENON_LOSS_ID. */", SCORE_ARGS))
        copy.append("loss.h", "tenon_loss", SCORE, "score")
        copy.append("tensor.h", "tenon_tensor_api", COPY, "copy")
        status, output = copy.glue("--check")
        assert status != 0 and all((path in output) == bool(lines) for path, lines in GAINED.items()), output
        assert copy.glue() == (0, "")
        for path, gained in GAINED.items():
            before, after = ((root / path).read_text().split("\n") for root in (ROOT, copy.root))
            for line in gained:
                assert line in after, f"{path} lacks {line}"
                after.remove(line)
            assert sorted(before) == sorted(after), f"{path} gained other lines"


def expect_refused(what, header, struct, declaration, name):
    with tempfile.TemporaryDirectory() as folder:
        copy = Copy(folder)
        copy.append(header, struct, declaration, name)
        status, output = copy.glue()
        assert status != 0 and what in output, f"{what}: {output}"


def main():
    check_additions()
    expect_refused("tenon_metric_reset_args.more has an unknown length", "metric.h", "tenon_metric_reset_args",
                   "  tenon_tensor* const* more;", "more")
    expect_refused("tenon_metric_reset_args.columns passes tensors in a form", "metric.h", "tenon_metric_reset_args",
                   "  const struct tenon_column* columns;", "columns")
    expect_refused("tenon_tensor_api.inspect returns no status", "tensor.h", "tenon_tensor_api",
                   "  void (*inspect)(const tenon_tensor* tensor);", "inspect")
    expect_refused("tenon_tensor_api.set takes tensors in a form", "tensor.h", "tenon_tensor_api",
                   "  tenon_status* (*set)(tenon_tensor* const* tensors, size_t n);", "set")
    expect_refused("tenon_loss.peek passes tensors in a form", "loss.h", "tenon_loss",
                   "  /* Threads  [step] */\n  tenon_status* (*peek)(void* self, const tenon_tensor* tensor);", "peek")
    print("additions appear in the files of glue.py; 5 forms that it cannot check are refused")


if __name__ == "__main__":
    main()
