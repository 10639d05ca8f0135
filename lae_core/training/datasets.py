"""What is known beforehand of each data set: classes, sizes, normalisation and the hashes of its pixels."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataSet:
    """One data set. `pixels` holds, where one copy is canonical, the sha256 of each split's N×C×H×W uint8 bytes."""

    name: str
    title: str
    classes: int
    side: int  # pixels at which the images are kept; 0 where they keep their own shape
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    pixels: dict[str, str] = field(default_factory=dict, hash=False)


_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))

DATASETS: dict[str, DataSet] = {
    d.name: d
    for d in (
        # scikit-learn's 8×8 digits, enlarged to 32 px: what installs with the dependencies, for `smoke`.
        DataSet("digits", "Digits", 10, 32, (0.3053,) * 3, (0.3516,) * 3),
        DataSet(
            "cifar10",
            "CIFAR-10",
            10,
            32,
            (0.4914, 0.4822, 0.4465),
            (0.2470, 0.2435, 0.2616),
            {
                "train": "9d5c2edd",
                "test": "177777c3",
            },
        ),
        DataSet(
            "cifar100",
            "CIFAR-100",
            100,
            32,
            (0.5071, 0.4865, 0.4409),
            (0.2673, 0.2564, 0.2762),
            {
                "train": "de64658905c6b161606e3649ddafce7cf86c7634a0cf9116d518e64ef46a33c5",
                "test": "83c56492b2c11211ad1bb2dbd4f2eef4170a0441e41a41f3039c3144b1f5a511",
            },
        ),
        DataSet("imagenette", "Imagenette", 10, 0, *_IMAGENET),
        DataSet("imagewoof", "Imagewoof", 10, 0, *_IMAGENET),
    )
}
