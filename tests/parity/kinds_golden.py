#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the models of tests/support/plugins/kinds.cpp in PyTorch, and writes their losses.

    python3 tests/parity/kinds_golden.py > tests/parity/kinds_golden.json

Each run takes 6 steps of 4 samples in fp64, with AdamW at a learning rate of 0.05 and no decay.
`loss` lists the loss of each step; other keys are results of an evaluation of all samples in eval
mode at the end.
"""
import json
import math

import torch
import torch.nn.functional as F
from torch import nn

STEPS, BATCH, SAMPLES = 6, 4, 24
torch.set_default_dtype(torch.float64)


def f32(values):
    return torch.tensor(values, dtype=torch.float64).float().double()


def samples(ids):
    at = [i + 1.0 for i in ids]
    nodes = [2 + i % 3 for i in ids]
    boxes = [1 + i % 2 for i in ids]
    return {
        "x": f32([[math.sin(0.1 * a * (d + 1)) for d in range(6)] for a in at]),
        "seq": f32([[[math.sin(0.07 * a * (t + 1) + d) for d in range(4)] for t in range(5)] for a in at]),
        "labels": torch.tensor([i % 3 for i in ids]),
        "y": f32([math.cos(0.3 * a) for a in at]),
        "targets": torch.tensor([[1 + i % 3, 1 + (i + 1) % 3] for i in ids]),
        "nodes": [f32([[math.sin(0.5 * a + 1.3 * i + d) for d in range(3)] for i in range(n)])
                  for a, n in zip(at, nodes)],
        "boxes": [f32([[i] + [0.5 + 0.25 * math.sin(0.4 * a + 2.0 * i + d) for d in range(4)] for i in range(n)])
                  for a, n in zip(at, boxes)],
    }


def set_by_formula(module):
    with torch.no_grad():
        for k, parameter in enumerate(module.parameters()):
            i = torch.arange(parameter.numel(), dtype=torch.float64)
            parameter.copy_((torch.sin(i * 0.7 + k) * 0.4).view_as(parameter))
    return module


def net(**layers):
    return set_by_formula(nn.ModuleDict(layers))


def train(model, loss_of, parameters=None):
    """loss_of(batch, step) returns the losses of the samples."""
    optimizer = torch.optim.AdamW(parameters or model.parameters(), lr=0.05, weight_decay=0.0)
    losses = []
    for step in range(1, STEPS + 1):
        batch = samples(range((step - 1) * BATCH, step * BATCH))
        loss = loss_of(batch, step).sum() / BATCH
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def norm_kind():
    m = net(first=nn.Linear(6, 8), norm=nn.BatchNorm1d(8), last=nn.Linear(8, 3))

    def loss(b, step=None):
        logits = m["last"](torch.tanh(m["norm"](m["first"](b["x"]))))
        return F.cross_entropy(logits, b["labels"], reduction="none")

    losses = train(m, loss)
    m.eval()
    return {"loss": losses, "eval/loss": loss(samples(range(SAMPLES))).mean().item()}


def scaled_kind():
    m = net(last=nn.Linear(6, 3))
    total, count = torch.zeros(6), 0

    def loss(b, step):
        nonlocal total, count
        x = b["x"] - total / max(count, 1)
        total, count = total + b["x"].sum(0), count + len(b["x"])
        return F.cross_entropy(m["last"](x), b["labels"], reduction="none")

    return {"loss": train(m, loss)}


def vae_kind():
    m = net(encoder=nn.Linear(6, 4), decoder=nn.Linear(2, 6))

    def loss(b, step):
        mean, logs = m["encoder"](b["x"]).chunk(2, 1)
        missed = (m["decoder"](mean) - b["x"]).square().sum(1)
        return missed - 0.5 * (1 + logs - mean.square() - logs.exp()).sum(1)

    return {"loss": train(m, loss)}


def gan_kind():
    m = net(generator=nn.Linear(2, 6), critic=nn.Linear(6, 1))

    def loss(b, step):
        fake = m["generator"](b["x"][:, :2])
        if step % 2 == 1:
            return (F.softplus(-m["critic"](b["x"])) + F.softplus(m["critic"](fake.detach()))).squeeze(1)
        judged = F.linear(fake, m["critic"].weight.detach(), m["critic"].bias.detach())
        return F.softplus(-judged).squeeze(1)

    return {"loss": train(m, loss)}


def sequence_kind():
    m = net(first=nn.Linear(4, 8), last=nn.Linear(8, 5))

    def loss(b, step):
        logs = F.log_softmax(m["last"](torch.tanh(m["first"](b["seq"]))), -1).transpose(0, 1)
        return F.ctc_loss(logs, b["targets"], [5] * BATCH, [2] * BATCH, reduction="none")

    return {"loss": train(m, loss)}


def molecule_kind():
    m = net(first=nn.Linear(1, 4), last=nn.Linear(4, 1))

    def loss(b, step):
        losses = []
        for r, y in zip(b["nodes"], b["y"]):
            r = r.clone().requires_grad_(True)
            i, j = torch.triu_indices(len(r), len(r), 1)
            square = (r[i] - r[j]).square().sum(1, keepdim=True)
            energy = m["last"](torch.tanh(m["first"](square))).sum()
            forces = -torch.autograd.grad(energy, r, create_graph=True)[0]
            losses.append((energy - y).square() + 0.1 * forces.square().sum())
        return torch.stack(losses)

    return {"loss": train(m, loss)}


def overlap(a, b):
    both = of_a = of_b = 1.0
    for d in (0, 1):
        begin = max(a[d] - a[d + 2] / 2, b[d] - b[d + 2] / 2)
        end = min(a[d] + a[d + 2] / 2, b[d] + b[d + 2] / 2)
        both *= max(0.0, end - begin)
        of_a *= a[d + 2]
        of_b *= b[d + 2]
    return both / (of_a + of_b - both)


def detector_kind():
    m = net(last=nn.Linear(6, 10))

    def predict(b):
        return torch.sigmoid(m["last"](b["x"])).view(-1, 2, 5)

    def loss(b, step):
        predicted = predict(b)
        losses = []
        for of_sample, boxes in zip(predicted, b["boxes"]):
            there = {int(box[0]): box[1:] for box in boxes}
            total = 0
            for c in (0, 1):
                total = total + (of_sample[c, 0] - float(c in there)).square()
                if c in there:
                    total = total + (of_sample[c, 1:] - there[c]).square().sum()
            losses.append(total)
        return torch.stack(losses)

    losses = train(m, loss)
    b = samples(range(SAMPLES))
    predicted = predict(b).tolist()
    precisions = []
    for c in (0, 1):
        found, num_boxes = [], 0
        for of_sample, boxes in zip(predicted, b["boxes"]):
            box = next((box[1:].tolist() for box in boxes if int(box[0]) == c), None)
            num_boxes += box is not None
            found.append((of_sample[c][0], box is not None and overlap(of_sample[c][1:], box) >= 0.5))
        hits, area = 0, 0.0
        for rank, (_, is_hit) in enumerate(sorted(found, key=lambda f: -f[0]), 1):
            hits += is_hit
            area += hits / rank if is_hit else 0.0
        precisions.append(area / num_boxes)
    return {"loss": losses, "eval/mean_average_precision": sum(precisions) / 2}


def policy_kind():
    m = net(body=nn.Linear(6, 8), policy=nn.Linear(8, 2), value=nn.Linear(8, 1))

    def loss(b, step):
        h = torch.tanh(m["body"](b["x"]))
        policy = torch.distributions.Categorical(logits=m["policy"](h))
        value = m["value"](h).squeeze(1)
        ratio = (policy.log_prob(b["labels"] % 2) - math.log(0.5)).exp()
        advantage = b["y"] - value.detach()
        gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        return -gain + 0.5 * (value - b["y"]).square() - 0.01 * policy.entropy()

    return {"loss": train(m, loss)}


def carried_kind():
    weights = [nn.Parameter(torch.full(shape, value)) for shape, value in (((4, 4), 0.2), ((4, 4), 0.1), ((4,), 0.3))]
    state = torch.zeros(4)

    def loss(b, step):
        nonlocal state
        h = state.expand(BATCH, 4)
        for t in range(5):
            h = torch.tanh(b["seq"][:, t] @ weights[0] + h @ weights[1])
        state = h.detach().mean(0)
        return (h @ weights[2] - b["y"]).square()

    return {"loss": train(None, loss, weights)}


KINDS = (norm_kind, scaled_kind, vae_kind, gan_kind, sequence_kind, molecule_kind, detector_kind, policy_kind,
         carried_kind)
print(json.dumps({kind.__name__: kind() for kind in KINDS}, indent=1))
