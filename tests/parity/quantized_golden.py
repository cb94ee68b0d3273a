# SPDX-License-Identifier: Apache-2.0
"""Makes quantized_golden.safetensors: matrices that bitsandbytes quantizes on a CPU, their codes and scales, and what it makes of
them again.

    python tests/parity/quantized_golden.py          (torch 2.11.0, bitsandbytes 0.50.2, safetensors)

NF4 in blocks of 64 without nested quantization ("nf4/..."), and int8 by row ("int8/..."). The first block is zero, the values of
the second are the midpoints of NF4's levels.
"""

import pathlib

import bitsandbytes.functional as bnb
import torch
from safetensors.torch import save_file


def main():
    torch.manual_seed(23)
    weight = torch.randn(24, 40) * torch.logspace(-4, 1, 24)[:, None]
    weight.view(-1)[:64] = 0
    levels = bnb.get_4bit_type("nf4", device="cpu")
    middle = (levels[1:] + levels[:-1]) / 2
    weight.view(-1)[64:128] = torch.cat([levels, middle, middle.nextafter(torch.tensor(1.0)), torch.ones(18)])
    codes, state = bnb.quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=False)
    tensors = {"weight": weight, "nf4/codes": codes.view(-1), "nf4/scales": state.absmax.clone(),
               "nf4/weight": bnb.dequantize_4bit(codes, state).clone()}
    rows, absmax, _ = bnb.int8_vectorwise_quant(weight)
    tensors |= {"int8/codes": rows, "int8/scales": absmax / 127,
                "int8/weight": bnb.int8_vectorwise_dequant(rows, absmax)}
    path = pathlib.Path(__file__).with_suffix(".safetensors")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    print(f"{path.name}: {path.stat().st_size} bytes; levels {levels.tolist()}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
