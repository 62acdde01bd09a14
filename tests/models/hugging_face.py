"""Small models of many architectures of Hugging Face's transformers, with random weights, and inputs for them.

    build/env/bin/python tests/models/hugging_face.py NAME FILE.pt2     exports one
"""

import sys
from collections.abc import Callable

import torch
import transformers
import zoo
from torch import nn

transformers.logging.set_verbosity_error()   # of token ids beyond a small vocabulary

WIDTH, LAYERS, HEADS, INNER, VOCABULARY, POSITIONS = 64, 2, 4, 128, 200, 64
# Most configurations call these sizes by the same names.
LAYERED = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": INNER}
ENCODER = LAYERED | {"vocab_size": VOCABULARY}
DECODER = ENCODER | {"num_key_value_heads": 2, "max_position_embeddings": POSITIONS}
PATCHES = LAYERED | {"image_size": 32, "patch_size": 8}
GPT = {"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS}
T5 = {"vocab_size": VOCABULARY, "d_model": WIDTH, "d_kv": 16, "d_ff": INNER, "num_layers": LAYERS, "num_heads": HEADS}
BART = {"vocab_size": VOCABULARY, "d_model": WIDTH, "encoder_layers": LAYERS, "decoder_layers": LAYERS, "encoder_attention_heads": HEADS,
        "decoder_attention_heads": HEADS, "encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER}
WHISPER = BART | {"num_mel_bins": 16, "max_source_positions": 50, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
UNCACHED = {"use_cache": False}


def tokens(count=16, name="input_ids"):
    return {name: torch.randint(VOCABULARY, (1, count))}


def image(size=32):
    return {"pixel_values": torch.randn(1, 3, size, size)}


def both(count=16):
    return tokens(count) | tokens(count // 2, "decoder_input_ids") | UNCACHED


def make(family, inputs, kind="Model", **sizes):
    config = getattr(transformers, f"{family}Config")(**sizes)
    return zoo.Model(getattr(transformers, f"{family}{kind}")(config).eval(), (), inputs)


def decoder(family, **sizes):
    return make(family, tokens() | UNCACHED, **sizes)


def whisper_encoder():
    module = transformers.WhisperModel(transformers.WhisperConfig(**WHISPER)).encoder.eval()
    return zoo.Model(module, (), {"input_features": torch.randn(1, 16, 100)})


def convolutional(family, size, **sizes):
    """Batch norms that know what they read, as trained ones do: convolutions of noise alone give results of 1e-32 or 0."""
    model = make(family, image(size), **sizes)
    for part in model.module.modules():
        if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
            part.momentum = 1.0
    with torch.no_grad():
        model.module.train()(torch.randn(8, 3, size, size))
    model.module.eval()
    return model


def llava():
    """The first tokens stand for the places of the image."""
    vision, words = transformers.CLIPVisionConfig(**PATCHES), transformers.LlamaConfig(**DECODER)
    module = transformers.LlavaForConditionalGeneration(transformers.LlavaConfig(vision_config=vision, text_config=words, image_token_index=5)).eval()
    return zoo.Model(module, (), {"input_ids": torch.cat([torch.full((1, 16), 5), torch.randint(10, VOCABULARY, (1, 8))], 1)} | image() | UNCACHED)


def detr():
    """On the last map of a small convolutional network."""
    backbone = transformers.ResNetConfig(layer_type="basic", embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], out_features=["stage2"])
    sizes = BART | {"num_queries": 8, "use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None, "backbone_config": backbone}
    del sizes["vocab_size"]
    return make("Detr", image(64), **sizes)


ARCHITECTURES: dict[str, Callable[[], zoo.Model]] = {
    # Text encoders
    "bert": lambda: make("Bert", tokens(), **ENCODER),
    "roberta": lambda: make("Roberta", tokens(), **ENCODER),
    "albert": lambda: make("Albert", tokens(), **ENCODER, embedding_size=32),
    "electra": lambda: make("Electra", tokens(), **ENCODER, embedding_size=32),
    "distilbert": lambda: make("DistilBert", tokens(), vocab_size=VOCABULARY, dim=WIDTH, n_layers=LAYERS, n_heads=HEADS, hidden_dim=INNER),
    "mobilebert": lambda: make("MobileBert", tokens(), vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, embedding_size=32, intra_bottleneck_size=32, intermediate_size=64),
    "deberta": lambda: make("DebertaV2", tokens(), **ENCODER, relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "mpnet": lambda: make("MPNet", tokens(), **ENCODER),
    "squeezebert": lambda: make("SqueezeBert", tokens(), **ENCODER, embedding_size=WIDTH),
    "modernbert": lambda: make("ModernBert", tokens(), **ENCODER, pad_token_id=0, global_attn_every_n_layers=2, local_attention=8),
    "roformer": lambda: make("RoFormer", tokens(), **ENCODER, embedding_size=WIDTH),
    "convbert": lambda: make("ConvBert", tokens(), **ENCODER, embedding_size=WIDTH, head_ratio=2),
    "fnet": lambda: make("FNet", tokens(), vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, intermediate_size=INNER),
    "xlnet": lambda: make("XLNet", tokens(), vocab_size=VOCABULARY, d_model=WIDTH, n_layer=LAYERS, n_head=HEADS, d_inner=INNER),
    # Text decoders
    "gpt2": lambda: decoder("GPT2", **GPT, n_positions=POSITIONS),
    "gpt_neo": lambda: decoder("GPTNeo", vocab_size=VOCABULARY, hidden_size=WIDTH, num_layers=LAYERS, num_heads=HEADS, attention_types=[[["global", "local"], 1]], window_size=8,
                               max_position_embeddings=POSITIONS),
    "gpt_neox": lambda: decoder("GPTNeoX", **ENCODER),
    "opt": lambda: decoder("OPT", vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, ffn_dim=INNER, word_embed_proj_dim=WIDTH,
                           max_position_embeddings=POSITIONS),
    "bloom": lambda: decoder("Bloom", vocab_size=VOCABULARY, hidden_size=WIDTH, n_layer=LAYERS, n_head=HEADS),
    "llama": lambda: decoder("Llama", **DECODER),
    "mistral": lambda: decoder("Mistral", **DECODER, sliding_window=8),
    "qwen2": lambda: decoder("Qwen2", **DECODER),
    "qwen3": lambda: decoder("Qwen3", **DECODER, head_dim=16),
    "gemma": lambda: decoder("Gemma", **DECODER, head_dim=16),
    "gemma2": lambda: decoder("Gemma2", **DECODER, head_dim=16),
    "phi": lambda: decoder("Phi", **DECODER),
    "falcon": lambda: decoder("Falcon", vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS),
    "olmo": lambda: decoder("Olmo", **DECODER),
    "granite": lambda: decoder("Granite", **DECODER),
    "mixtral": lambda: decoder("Mixtral", **DECODER, num_local_experts=4, num_experts_per_tok=2),
    "qwen2_moe": lambda: decoder("Qwen2Moe", **DECODER, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, shared_expert_intermediate_size=64),
    "olmoe": lambda: decoder("Olmoe", **DECODER, num_experts=4, num_experts_per_tok=2),
    "deepseek_v3": lambda: decoder("DeepseekV3", **DECODER | {"num_key_value_heads": HEADS}, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=32,
                                   first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16),
    "gpt_oss": lambda: decoder("GptOss", **DECODER, num_local_experts=4, num_experts_per_tok=2, head_dim=16),
    "gptj": lambda: decoder("GPTJ", **GPT, rotary_dim=8, n_positions=POSITIONS),
    "gemma3": lambda: decoder("Gemma3Text", **DECODER, head_dim=16),
    "cohere": lambda: decoder("Cohere", **DECODER),
    "stablelm": lambda: decoder("StableLm", **DECODER),
    "starcoder2": lambda: decoder("Starcoder2", **DECODER),
    "mamba": lambda: decoder("Mamba", vocab_size=VOCABULARY, hidden_size=WIDTH, state_size=8, num_hidden_layers=LAYERS),
    "phi3": lambda: decoder("Phi3", **DECODER, pad_token_id=0),
    "olmo2": lambda: decoder("Olmo2", **DECODER),
    "qwen3_moe": lambda: decoder("Qwen3Moe", **DECODER, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, head_dim=16),
    "deepseek_v2": lambda: decoder("DeepseekV2", **DECODER | {"num_key_value_heads": HEADS}, n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=32,
                                   first_k_dense_replace=1, q_lora_rank=32, kv_lora_rank=16, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16),
    "llama4": lambda: decoder("Llama4Text", **DECODER, head_dim=16, num_local_experts=2, intermediate_size_mlp=INNER, attention_chunk_size=8, pad_token_id=0),
    "mpt": lambda: decoder("Mpt", vocab_size=VOCABULARY, d_model=WIDTH, n_layers=LAYERS, n_heads=HEADS, max_seq_len=POSITIONS),
    "codegen": lambda: decoder("CodeGen", **GPT, rotary_dim=8, n_positions=POSITIONS, n_ctx=POSITIONS),
    "glm": lambda: decoder("Glm", **DECODER, head_dim=16, pad_token_id=0),
    "mamba2": lambda: decoder("Mamba2", vocab_size=VOCABULARY, hidden_size=WIDTH, state_size=8, num_hidden_layers=LAYERS, num_heads=8, head_dim=16, n_groups=2, chunk_size=8),
    "recurrent_gemma": lambda: decoder("RecurrentGemma", **ENCODER | {"num_hidden_layers": 3}, lru_width=WIDTH, attention_window_size=8),
    # Encoders with decoders, and speech
    "pegasus": lambda: make("Pegasus", both(), **BART, max_position_embeddings=POSITIONS),
    "t5_encoder": lambda: make("T5", tokens(), "EncoderModel", **T5),
    "t5": lambda: make("T5", both(), **T5),
    "bart": lambda: make("Bart", both(), **BART, max_position_embeddings=POSITIONS),
    "marian": lambda: make("Marian", both(), **BART, max_position_embeddings=POSITIONS, pad_token_id=0, decoder_start_token_id=0),
    "mt5": lambda: make("MT5", both(), **T5),
    "speech_to_text": lambda: make("Speech2Text", {"input_features": torch.randn(1, 32, 16)} | tokens(8, "decoder_input_ids") | UNCACHED, **BART, input_feat_per_channel=16, conv_channels=32,
                                   max_source_positions=50, max_target_positions=POSITIONS),
    "whisper_encoder": whisper_encoder,
    "whisper": lambda: make("Whisper", {"input_features": torch.randn(1, 16, 100)} | tokens(8, "decoder_input_ids") | UNCACHED, **WHISPER),
    "wav2vec2": lambda: make("Wav2Vec2", {"input_values": torch.randn(1, 800)}, **LAYERED, conv_dim=(32, 32, 32), conv_stride=(5, 2, 2), conv_kernel=(10, 3, 3),
                             num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, num_feat_extract_layers=3),
    # Vision transformers
    "vit": lambda: make("ViT", image(), **PATCHES),
    "deit": lambda: make("DeiT", image(), **PATCHES),
    "dinov2": lambda: make("Dinov2", image(), hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, image_size=32, patch_size=8),
    "yolos": lambda: make("Yolos", image(), **LAYERED, image_size=[32, 32], patch_size=8, num_detection_tokens=4),
    "videomae": lambda: make("VideoMAE", {"pixel_values": torch.randn(1, 4, 3, 32, 32)}, **PATCHES, num_frames=4, tubelet_size=2),
    "timesformer": lambda: make("Timesformer", {"pixel_values": torch.randn(1, 4, 3, 32, 32)}, **PATCHES, num_frames=4),
    "siglip": lambda: make("SiglipVision", image(), **PATCHES),
    "beit": lambda: make("Beit", image(), **PATCHES),
    "dpt": lambda: make("DPT", image(), "ForDepthEstimation", **PATCHES, backbone_out_indices=[0, 1], neck_hidden_sizes=[16, 32], reassemble_factors=[4, 2], fusion_hidden_size=32, is_hybrid=False),
    "sam_vision": lambda: make("SamVision", image(64), **LAYERED, output_channels=32, image_size=64, patch_size=8, window_size=4, global_attn_indexes=[1], mlp_dim=INNER),
    "detr": detr,
    "swin": lambda: make("Swin", image(), image_size=32, patch_size=2, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "swinv2": lambda: make("Swinv2", image(), image_size=32, patch_size=2, embed_dim=32, depths=[2, 2], num_heads=[2, 4], window_size=4),
    "clipseg": lambda: make("CLIPSeg", tokens() | image(), "ForImageSegmentation", text_config=ENCODER | {"max_position_embeddings": 32}, vision_config=PATCHES, projection_dim=64, reduce_dim=16,
                            extract_layers=[0, 1], decoder_num_attention_heads=4, decoder_intermediate_size=64),
    "owlvit": lambda: make("OwlViT", tokens() | image(), text_config=ENCODER | {"max_position_embeddings": 32}, vision_config=PATCHES, projection_dim=32),
    "llava": llava,
    "segformer": lambda: make("Segformer", image(64), hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 4, 4], decoder_hidden_size=32),
    "poolformer": lambda: make("PoolFormer", image(64), hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1]),
    "levit": lambda: convolutional("Levit", 64, image_size=64, hidden_sizes=[16, 32, 48], num_attention_heads=[2, 2, 4], depths=[1, 1, 1], key_dim=[8, 8, 8], patch_size=16),
    "mobilevit": lambda: convolutional("MobileViT", 64, image_size=64, hidden_sizes=[32, 48, 64], neck_hidden_sizes=[8, 16, 24, 32, 48, 64, 64]),
    "mobilevitv2": lambda: convolutional("MobileViTV2", 64, image_size=64, width_multiplier=0.25),
    "clip": lambda: make("CLIP", tokens() | image(), text_config=ENCODER | {"max_position_embeddings": 32}, vision_config=PATCHES, projection_dim=32),
    # Convolutional networks
    "convnext": lambda: make("ConvNext", image(64), hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 2, 1], image_size=64),
    "convnextv2": lambda: make("ConvNextV2", image(64), hidden_sizes=[16, 32, 64, 64], depths=[1, 1, 2, 1], image_size=64),
    "focalnet": lambda: make("FocalNet", image(), image_size=32, patch_size=2, embed_dim=32, depths=[2, 2], hidden_sizes=[32, 64], focal_levels=[2, 2], focal_windows=[3, 3]),
    "resnet": lambda: make("ResNet", image(), layer_type="basic", embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1]),
    "regnet": lambda: make("RegNet", image(), embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], groups_width=8),
    "bit": lambda: make("Bit", image(), embedding_size=16, hidden_sizes=[32, 64], depths=[1, 1], num_groups=4),
    "mobilenetv1": lambda: convolutional("MobileNetV1", 64, image_size=64, depth_multiplier=0.25),
    "efficientnet": lambda: convolutional("EfficientNet", 64, image_size=64, width_coefficient=0.25, depth_coefficient=0.3, hidden_dim=320),
}


def build(name, seed=0):
    torch.manual_seed(seed)
    return ARCHITECTURES[name]()


if __name__ == "__main__":
    zoo.export_named(sys.argv, ARCHITECTURES, build)
