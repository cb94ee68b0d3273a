#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the site without a warning of Doxygen, breathe or Sphinx. It has each struct and function of sdk/abi/abi.json
with its thread roles, the classes of the C++ headers, and an index for search.

    site_test.py FOLDER
"""
import html
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    out = pathlib.Path(sys.argv[1])
    run = subprocess.run([sys.executable, "-B", ROOT / "packaging/site/build_site.py", "--plain", "--out", out],
                         capture_output=True, text=True)
    if run.returncode != 0:
        print(run.stdout + run.stderr)
        sys.exit(run.returncode)
    pages = {file.stem: html.unescape(file.read_text()) for file in (out / "html/api").glob("*.html")}
    everything = "".join(pages.values())
    abi = json.loads((ROOT / "sdk/abi/abi.json").read_text())
    num_functions = 0
    for struct in abi["structs"]:
        assert f'id="c.{struct["name"]}"' in everything, f"{struct['name']} is on no page of the reference"
        for field in struct["fields"]:
            name = f'{struct["name"]}.{field["name"]}'
            is_in_union = field.get("type") == "union"
            assert is_in_union or f'id="c.{name}"' in everything, f"{name} is on no page of the reference"
            num_functions += "function" in field
    for name, value in abi["constants"].items():
        found = re.search(rf'id="c\.(?:@\d+\.)?{name}"', everything)
        assert found, f"{name} = {value} is on no page of the reference"
    text = re.sub(r"<[^>]+>", "", pages["loss"])
    assert re.search(r"Counts the items of one microbatch\.\s*Errors:?\s*TENON_INVALID if shapes do not match\s*Threads:?"
                     r"\s*\[step\]", text), "loss.html does not show the tags of tenon_loss.count as fields"
    text = re.sub(r"<[^>]+>", "", pages["plugin"])
    assert re.search(r"tenon_host \*host¶?\s*lives as long as the process", text), \
        "plugin.html does not show the comment behind tenon_entry_args.host"
    assert "TENON_SEAL(tenon_loss" not in everything, "a seal is on a page"
    for name in ("tenon::Loss", "tenon::TorchModel", "tenon::SparseOptimizer"):
        assert f'id="{name}"' in everything, f"{name} is on no page of the reference"
    index = (out / "html/searchindex.js").read_text()
    assert "tenon_loss_info" in index, "the index for search lacks tenon_loss_info"
    print(f"{len(pages)} pages of the reference have {len(abi['structs'])} structs and {num_functions} functions")


if __name__ == "__main__":
    main()
