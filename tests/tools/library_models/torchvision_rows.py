"""Models of torchvision. Those of more than 25 million weights have fewer blocks on a CPU."""

from row import Row, Size, images

# Name, what makes it, pixels; what makes it for a GPU (None: the same), batch and pixels there (None: not measured there).
_MODELS = [
    ("resnet18", "resnet18()", 64, None, (16, 224)),
    ("resnet50", "resnet50()", 64, None, (8, 224)),
    ("wide_resnet", "ResNet(models.resnet.Bottleneck, [1, 1, 1, 1], width_per_group=128)", 64, None, None),
    ("resnext50", "resnext50_32x4d()", 64, None, (8, 224)),
    ("densenet121", "densenet121()", 64, None, (8, 224)),
    ("squeezenet", "squeezenet1_1()", 64, None, None),
    ("mobilenet_v2", "mobilenet_v2()", 64, None, (16, 224)),
    ("mobilenet_v3", "mobilenet_v3_small()", 64, None, (32, 224)),
    ("mnasnet", "mnasnet0_5()", 64, None, None),
    ("shufflenet", "shufflenet_v2_x0_5()", 64, None, None),
    ("efficientnet_b0", "efficientnet_b0()", 64, None, (16, 224)),
    ("regnet", "regnet_y_400mf()", 64, None, (16, 224)),
    ("googlenet", "googlenet(aux_logits=False, init_weights=False)", 64, None, None),
    ("inception", "inception_v3(aux_logits=False, init_weights=False)", 96, None, None),
    (
        "convnext",
        "ConvNeXt([models.convnext.CNBlockConfig(48, 96, 2), models.convnext.CNBlockConfig(96, None, 2)])",
        64,
        "convnext_tiny()",
        (8, 224),
    ),
    (
        "swin",
        "SwinTransformer(patch_size=[4, 4], embed_dim=48, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4])",
        64,
        "swin_t()",
        (8, 224),
    ),
    (
        "vit",
        "VisionTransformer(image_size=64, patch_size=16, num_layers=2, num_heads=4, hidden_dim=192, mlp_dim=768)",
        64,
        "vit_b_16()",
        (8, 224),
    ),
    (
        "maxvit",
        "MaxVit(input_size=(64, 64), stem_channels=16, partition_size=2, block_channels=[16, 32], block_layers=[1, 1], "
        "head_dim=8, stochastic_depth_prob=0.1)",
        64,
        None,
        None,
    ),
    ("lraspp", "segmentation.lraspp_mobilenet_v3_large(weights=None, weights_backbone=None)", 64, None, None),
    ("deeplab", "segmentation.deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None)", 64, None, None),
]


def _made(call: str) -> str:
    return "torchvision.models." + call.replace("models.", "torchvision.models.")


ROWS = [
    Row(
        f"torchvision_{name}",
        "torchvision",
        Size(_made(call), images(2, pixels)),
        Size(_made(gpu_call or call), images(*gpu)) if gpu else None,
    )
    for name, call, pixels, gpu_call, gpu in _MODELS
]
