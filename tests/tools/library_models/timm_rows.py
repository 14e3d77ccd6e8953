"""Models of timm: the smallest of each kind, with two blocks where they are all alike."""

from row import Row, Size, images

# Name, timm's name of a model or class, keywords and pixels; for a GPU: timm's name, batch and pixels (None: not measured there).
_MODELS = [
    ("levit", "levit_128s", "", 224, ("levit_256", 16, 224)),
    ("efficientvit", "efficientvit_b0", "", 64, ("efficientvit_b1", 16, 224)),
    ("beit", "beit_base_patch16_224", "img_size=64, depth=2, embed_dim=192, num_heads=3", 64, None),
    ("coatnet", "coatnet_nano_rw_224", "img_size=64, depths=(1, 1, 1, 1), embed_dim=(32, 64, 96, 128)", 64, None),
    ("convmixer", "models.convmixer.ConvMixer", "dim=128, depth=4, kernel_size=9, patch_size=7", 64, None),
    ("deit", "deit_tiny_patch16_224", "img_size=64, depth=2", 64, ("deit_small_patch16_224", 16, 224)),
    ("edgenext", "edgenext_xx_small", "", 64, ("edgenext_small", 16, 224)),
    ("ghostnet", "ghostnet_100", "", 64, None),
    ("hrnet", "hrnet_w18_small", "", 64, None),
    ("mixer", "models.mlp_mixer.MlpMixer", "img_size=64, num_blocks=2, embed_dim=192", 64, ("mixer_s32_224", 16, 224)),
    (
        "resmlp",
        "models.mlp_mixer.MlpMixer",
        "img_size=64, num_blocks=2, embed_dim=192, mlp_ratio=4, block_layer=timm.models.mlp_mixer.ResBlock, "
        "norm_layer=timm.models.mlp_mixer.Affine",
        64,
        None,
    ),
    ("poolformer", "poolformer_s12", "", 64, ("poolformer_s12", 16, 224)),
    ("pvt", "pvt_v2_b0", "", 64, None),
    ("mobilevit", "mobilevit_xxs", "", 64, ("mobilevit_s", 16, 256)),
    ("repvgg", "repvgg_a0", "", 64, None),
    ("xcit", "xcit_nano_12_p16_224", "depth=2", 64, None),
    ("convit", "convit_tiny", "img_size=64, depth=2", 64, None),
    ("eva02", "eva02_tiny_patch14_224", "img_size=56, depth=2", 56, ("eva02_tiny_patch14_224", 8, 224)),
    ("fastvit", "fastvit_t8", "", 64, None),
    ("crossvit", "crossvit_tiny_240", "img_size=120", 120, None),
]


def _made(name: str, keywords: str = "") -> str:
    if name.startswith("models."):
        return f"timm.{name}({keywords})"
    return f'timm.create_model("{name}"{", " + keywords if keywords else ""})'


ROWS = [
    Row(
        f"timm_{name}",
        "timm",
        Size(_made(model, keywords), images(2, pixels)),
        Size(_made(gpu[0]), images(*gpu[1:])) if gpu else None,
    )
    for name, model, keywords, pixels, gpu in _MODELS
]
