"""Small models of the usual families, with random weights."""

import torch
import torch.nn.functional as F
from torch import nn

from case import Case


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 24), nn.Linear(24, 20), nn.Linear(20, 10)

    def forward(self, image):
        x = F.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = F.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        return F.log_softmax(self.fc3(torch.relu(self.fc2(x))), dim=1)


class Block(nn.Module):
    """Convolutions with batch norm and a residual, as in ResNet."""

    def __init__(self):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv, self.norm = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        for norm in (self.stem_norm, self.norm):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, image):
        x = torch.relu(self.stem_norm(self.stem(image)))
        x = torch.relu(self.norm(self.conv(x)) + x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class VitMicro(nn.Module):
    """Two layers of width 64 over 32 tokens."""

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

        def forward(self, x):
            b, t, w = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
            x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, w))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    def __init__(self, width=64, tokens=32):
        super().__init__()
        self.position = nn.Parameter(torch.randn(1, tokens, width) * 0.1)
        self.layers = nn.Sequential(*(self.Layer(width, 4) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, patches):
        return self.head(self.norm(self.layers(patches + self.position)).mean(1))


class Tied(nn.Module):
    """An embedding whose weight is the head's, a transposed parameter, slices of one buffer."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 6), nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.mix = nn.Parameter(torch.randn(6, 6).t())
        table = torch.randn(18)
        self.register_buffer("scale", table[2:8])
        self.register_buffer("shift", table[8:14], persistent=False)

    def forward(self, tokens):
        return {"logits": self.head(self.embedding(tokens) @ self.mix * self.scale + self.shift)}


class Cache(nn.Module):
    """One step of attention over a cache that it keeps."""

    def __init__(self, width=8, length=6):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.register_buffer("keys", torch.zeros(1, length, width))
        self.register_buffer("values", torch.zeros(1, length, width))

    def forward(self, token, position):
        self.keys.index_copy_(1, position, self.key(token))
        self.values.index_copy_(1, position, self.value(token))
        mask = torch.arange(self.keys.size(1)) <= position
        return F.scaled_dot_product_attention(self.query(token), self.keys, self.values, attn_mask=mask[None])


def transformer(name, **settings):
    import transformers

    small = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=40,
                 max_position_embeddings=32, use_cache=False)
    if name == "bert":
        return transformers.BertModel(transformers.BertConfig(**small | settings))
    if name == "distilbert":
        return transformers.DistilBertModel(transformers.DistilBertConfig(
            vocab_size=40, max_position_embeddings=32, n_layers=2, n_heads=2, dim=16, hidden_dim=32, **settings))
    if name == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=2, use_cache=False, **settings))
    if name == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**small | dict(num_attention_heads=4, num_key_value_heads=2) | settings))
    return transformers.ViTModel(transformers.ViTConfig(
        hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=4))


def text(batch=2, tokens=6):
    return (), {"input_ids": torch.randint(1, 40, (batch, tokens)), "attention_mask": torch.ones(batch, tokens, dtype=torch.int64)}


def cases():
    def mlp():
        return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 16), nn.Tanh(),
                             nn.Dropout(), nn.Linear(16, 4))

    images = lambda *sizes: (lambda: ((torch.randn(sizes),), {}))
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=32)
    any_text = {"input_ids": {0: batch, 1: length}, "attention_mask": {0: batch, 1: length}}
    found = [
        Case("mlp", mlp, images(3, 12)),
        Case("mlp_plain", mlp, images(3, 12), dialect="plain"),
        Case("mlp_core", mlp, images(3, 12), dialect="core"),
        Case("lenet", LeNet, images(2, 1, 28, 28)),
        Case("lenet_dynamic", LeNet, images(2, 1, 28, 28), ({0: batch},), run=images(3, 1, 28, 28)),
        Case("residual", Block, images(1, 3, 12, 12)),
        Case("residual_core", Block, images(1, 3, 12, 12), dialect="core"),
        Case("vit_micro", VitMicro, images(1, 32, 64)),
        Case("tied", Tied, lambda: ((torch.tensor([[1, 2, 10]]),), {})),
        Case("cache", Cache, lambda: ((torch.randn(1, 1, 8), torch.tensor([2])), {})),
        Case("vit", lambda: transformer("vit"), images(1, 3, 16, 16)),
        Case("gpt2_no_mask", lambda: transformer("gpt2"), lambda: ((), {"input_ids": torch.randint(1, 40, (2, 6))})),
    ]
    for name in ("bert", "distilbert", "gpt2", "llama"):
        found.append(Case(name, lambda name=name: transformer(name), text))
        found.append(Case(f"{name}_dynamic", lambda name=name: transformer(name), text, any_text, run=lambda: text(3, 9)))
        found.append(Case(f"{name}_eager", lambda name=name: transformer(name, attn_implementation="eager"), text))
    found.append(Case("bert_core", lambda: transformer("bert"), text, dialect="core"))
    found.append(Case("llama_core", lambda: transformer("llama"), text, dialect="core"))
    return found
