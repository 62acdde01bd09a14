"""The models that the compiler is judged by: each with random weights from a seed, and inputs for it.

    build/env/bin/python tests/models/zoo.py NAME FILE.pt2     exports one
"""

import dataclasses
import pathlib
import sys
from collections.abc import Callable

import torch
from torch import nn


@dataclasses.dataclass
class Model:
    module: nn.Module
    args: tuple = ()
    kwargs: dict = dataclasses.field(default_factory=dict)
    strict: bool = False

    def export(self):
        with torch.no_grad():
            exported = torch.export.export(self.module, self.args, kwargs=self.kwargs, strict=self.strict)
            return exported.run_decompositions({})

    def run(self):
        """The outputs of PyTorch, as a flat list of tensors."""
        with torch.no_grad():
            result = self.module(*self.args, **self.kwargs)
        return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]

    def inputs(self):
        leaves = torch.utils._pytree.tree_leaves((self.args, self.kwargs))
        return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def mlp():
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 10)]
    return Model(nn.Sequential(*layers).eval(), (torch.randn(8, 64),))


class LeNetModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(),
                                      nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))

    def forward(self, image):
        return torch.log_softmax(self.classifier(self.features(image).flatten(1)), 1)


def lenet():
    return Model(LeNetModule().eval(), (torch.randn(1, 1, 28, 28),))


class AlexNetModule(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2))
        self.pool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(nn.Dropout(), nn.Linear(256 * 36, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(),
                                        nn.Linear(4096, 1000))

    def forward(self, image):
        return self.classifier(self.pool(self.features(image)).flatten(1))


def alexnet():
    return Model(AlexNetModule().eval(), (torch.randn(1, 3, 224, 224),))


def with_batch_statistics(module, size):
    """Batch norms with the statistics of batches of noise: they take away what the channels of a random network have in common, so that
    every layer amplifies the differences, rounding errors among them. PyTorch's own bf16 run shows by how much."""
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.momentum = None   # the mean over the batches
            part.reset_running_stats()
    with torch.no_grad():
        for _ in range(8):
            module.train()(pixel_values=torch.randn(8, 3, size, size))
    return module.eval()


def resnet18(size=64, statistics=False):
    from transformers import ResNetConfig, ResNetModel
    config = ResNetConfig(layer_type="basic", embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2])
    module = ResNetModel(config).eval()
    return Model(with_batch_statistics(module, size) if statistics else module, (), {"pixel_values": torch.randn(1, 3, size, size)})


def mobilenetv2(statistics=False):
    """The convolutions as torchvision makes them: with those of transformers (0.02 times noise) the outputs are 1e-21."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification
    module = MobileNetV2ForImageClassification(MobileNetV2Config(image_size=96, num_labels=1000)).eval()
    for part in module.modules():
        if isinstance(part, nn.Conv2d):
            nn.init.kaiming_normal_(part.weight, mode="fan_out")
    return Model(with_batch_statistics(module, 96) if statistics else module, (), {"pixel_values": torch.randn(1, 3, 96, 96)})


class ViTMicroModule(nn.Module):
    """Two pre-norm layers, d = 64, on a sequence of 32 patches."""

    def __init__(self, width=64, heads=2, layers=2, patch=48, tokens=32):
        super().__init__()
        self.heads = heads
        self.embed = nn.Linear(patch, width)
        self.position = nn.Parameter(torch.randn(1, tokens, width) * 0.02)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm1": nn.LayerNorm(width), "qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width), "norm2": nn.LayerNorm(width),
            "up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)}) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 10)

    def forward(self, patches):
        x = self.embed(patches) + self.position
        batch, tokens, width = x.shape
        for layer in self.layers:
            q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2) for t in layer["qkv"](layer["norm1"](x)).split(width, -1))
            a = nn.functional.scaled_dot_product_attention(q, k, v)
            x = x + layer["out"](a.transpose(1, 2).reshape(batch, tokens, width))
            x = x + layer["down"](nn.functional.gelu(layer["up"](layer["norm2"](x))))
        return self.head(self.norm(x).mean(1))


def vit_micro():
    return Model(ViTMicroModule().eval(), (torch.randn(1, 32, 48),))


def vit_base_2():
    from transformers import ViTConfig, ViTModel
    return Model(ViTModel(ViTConfig(num_hidden_layers=2)).eval(), (), {"pixel_values": torch.randn(1, 3, 224, 224)})


def text(batch, tokens, vocabulary):
    return {"input_ids": torch.randint(vocabulary, (batch, tokens)), "attention_mask": torch.ones(batch, tokens, dtype=torch.int64)}


def bert(layers=2, tokens=128):
    from transformers import BertConfig, BertModel
    return Model(BertModel(BertConfig(num_hidden_layers=layers)).eval(), (), text(1, tokens, 30522))


def distilbert():
    from transformers import DistilBertConfig, DistilBertModel
    return Model(DistilBertModel(DistilBertConfig(n_layers=2)).eval(), (), text(1, 64, 30522))


def gpt2():
    from transformers import GPT2Config, GPT2Model
    return Model(GPT2Model(GPT2Config(n_layer=2, use_cache=False)).eval(), (), text(1, 64, 50257))


def llama():
    from transformers import LlamaConfig, LlamaModel
    config = LlamaConfig(vocab_size=1000, hidden_size=256, intermediate_size=688, num_hidden_layers=2, num_attention_heads=8,
                         num_key_value_heads=2, use_cache=False)
    return Model(LlamaModel(config).eval(), (), text(1, 32, 1000))


class CachedAttention(nn.Module):
    """One decoding step: a token against a static cache, which is a buffer that keeps its value between calls."""

    def __init__(self, width=64, heads=4, length=32):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.register_buffer("keys", torch.zeros(1, heads, length, width // heads))
        self.register_buffer("values", torch.zeros(1, heads, length, width // heads))

    def forward(self, x, position):
        q, k, v = (t.view(1, 1, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        mask = (torch.arange(self.keys.shape[2]) <= position)[None, None, None, :]
        a = nn.functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        return self.out(a.transpose(1, 2).reshape(1, 1, -1))


def decode_step():
    return Model(CachedAttention().eval(), (torch.randn(1, 1, 64), torch.tensor([0])))


MODELS: dict[str, Callable[[], Model]] = {
    "mlp": mlp, "lenet": lenet, "vit_micro": vit_micro, "decode_step": decode_step, "llama_2": llama, "mobilenetv2": mobilenetv2,
    "resnet18_64": resnet18, "resnet18_224": lambda: resnet18(224), "distilbert_2": distilbert, "gpt2_2": gpt2, "bert_2": bert,
    "vit_base_2": vit_base_2, "alexnet": alexnet, "bert_12": lambda: bert(12),
    "resnet18_64_statistics": lambda: resnet18(64, True), "mobilenetv2_statistics": lambda: mobilenetv2(True),
}


# By the time that they take, the longest first.
LARGEST = ["resnet18_224", "bert_12", "mobilenetv2", "mobilenetv2_statistics", "alexnet", "vit_base_2", "resnet18_64", "resnet18_64_statistics", "bert_2", "gpt2_2",
           "distilbert_2", "llama_2", "lenet", "vit_micro", "decode_step", "mlp"]


def make(name, seed=0):
    torch.manual_seed(seed)
    return MODELS[name]()


def export_named(arguments, known, build):
    """The command line of such a module: SCRIPT NAME FILE.pt2."""
    if len(arguments) != 3 or arguments[1] not in known:
        sys.exit(f"usage: {pathlib.Path(arguments[0]).name} NAME FILE.pt2, with a NAME of {', '.join(known)}")
    torch.export.save(build(arguments[1]).export(), arguments[2])


if __name__ == "__main__":
    export_named(sys.argv, MODELS, make)
