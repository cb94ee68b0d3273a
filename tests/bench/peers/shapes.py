# SPDX-License-Identifier: Apache-2.0
"""The llamas of the benchmarks, for the host and for its peers: sizes, overrides of recipes/lm.json, and operations of a
step."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Shape:
    dim: int
    layers: int
    heads: int
    hidden: int
    seq: int
    batch: int
    kv_heads: int = 0  # 0: as many as heads
    vocab: int = 256

    @property
    def key_heads(self):
        return self.kv_heads or self.heads

    @property
    def tokens(self):
        """Tokens of a step."""
        return self.batch * self.seq

    @property
    def product_weights(self):
        """Parameters of all linear layers, with the head."""
        kv_width = self.dim // self.heads * self.key_heads
        layer = 2 * self.dim * self.dim + 2 * self.dim * kv_width + 3 * self.dim * self.hidden
        return self.layers * layer + self.dim * self.vocab

    @property
    def parameters(self):
        return self.product_weights + self.dim * self.vocab + (2 * self.layers + 1) * self.dim

    @property
    def operations(self):
        """Floating-point operations of a training step by the formula 6 P tokens + 6 L B T^2 D: two for each weight and
        token forward and four backward, and the two products of attention, half of which causality saves. Norms,
        activations and the optimizer do not count."""
        return 6 * self.product_weights * self.tokens + 6 * self.layers * self.batch * self.seq**2 * self.dim

    def overrides(self):
        """What turns the recipe lm.json into this model."""
        options = {"vocab_size": self.vocab, "hidden_size": self.dim, "intermediate_size": self.hidden,
                   "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
                   "num_key_value_heads": self.key_heads}
        return [f"model.options.{key}={value}" for key, value in options.items()] + [
            f"data.batch_size={self.batch}", f"data.train.options.sequence_length={self.seq}"]


SHAPES = {
    "small": Shape(dim=128, layers=4, heads=4, hidden=352, seq=128, batch=16),  # lm.json itself
    "large": Shape(dim=768, layers=12, heads=12, hidden=2048, seq=512, batch=1),
    "grouped": Shape(dim=768, layers=12, heads=8, kv_heads=2, hidden=2048, seq=2048, batch=1),
    # For quick runs.
    "tiny": Shape(dim=64, layers=2, heads=2, hidden=96, seq=32, batch=1),
    "tiny-grouped": Shape(dim=64, layers=2, heads=4, kv_heads=2, hidden=96, seq=64, batch=1),
}
