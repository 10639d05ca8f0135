"""Each data set: classes, sizes, normalisation, where it comes from and its hashes."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class DataSet:
    """One data set. Hashes are sha256, of a split's N×3×H×W uint8 bytes, of its uint8 labels, or of a file to fetch."""

    name: str
    title: str
    classes: int
    sizes: dict[str, int] = field(hash=False)  # pictures in "train" and "test"
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    pixels: dict[str, str] = field(default_factory=dict, hash=False)
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    url: str = ""
    files: dict[str, str] = field(default_factory=dict, hash=False)  # name in the source: its hash, "" if none is known


_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_FASTAI = "https://s3.amazonaws.com/fast-ai-imageclas"
_V1 = {"imagenette": {"train": 12894, "test": 500}, "imagewoof": {"train": 12454, "test": 500}}


def _official(family: str, side: int | None, sha256: str = "") -> DataSet:
    """The first version of fastai's sets, on which the paper trained; fastai publishes no hash of these archives.

    In the archives of 160 and 320 px that is the shorter side; without a side the pictures are as ImageNet has them.
    """
    archive = f"{family}-{side}.tgz" if side else f"{family}.tgz"
    title = f"{family.capitalize()} v1, {f'{side} px' if side else 'full size'}"
    return DataSet(
        f"{family}-{side or 'full'}",
        title,
        10,
        _V1[family],
        *_IMAGENET,
        url=f"{_FASTAI}/{archive}",
        files={archive: sha256},
    )


DATASETS: dict[str, DataSet] = {
    d.name: d
    for d in (
        # What installs with the dependencies, for `smoke`: scikit-learn's 8×8 digits, enlarged to 32 px.
        DataSet("digits", "Digits", 10, {"train": 1438, "test": 359}, (0.3127,) * 3, (0.3565,) * 3),
        DataSet(
            "cifar10",
            "CIFAR-10",
            10,
            {"train": 50000, "test": 10000},
            (0.4914, 0.4822, 0.4465),
            (0.2470, 0.2435, 0.2616),
            {
                "train": "9d5c2eddadb0deff02c14c350c0385aab7b1d5ff1edfeb4997c8dc8644960111",
                "test": "177777c33ba79825320efa646ad04a94bdc3c80e4ebe3bd21724f8cdfd4b9d56",
            },
            {
                "train": "2b7cd2f24487317614016b72ffd53071c3062f592f0eb300c18a770d41ae1253",
                "test": "cec8a24a1e92aa2ecaa0bbd3dbfa86bf6cd8759fbd209a832824c8cf0afca9d5",
            },
        ),
        DataSet(
            "cifar100",
            "CIFAR-100",
            100,
            {"train": 50000, "test": 10000},
            (0.5071, 0.4865, 0.4409),
            (0.2673, 0.2564, 0.2762),
            {
                "train": "de64658905c6b161606e3649ddafce7cf86c7634a0cf9116d518e64ef46a33c5",
                "test": "83c56492b2c11211ad1bb2dbd4f2eef4170a0441e41a41f3039c3144b1f5a511",
            },
            {
                "train": "9f11b9f97aad759ba6df0a33e3218b01d8deaf4ed3a14aa1185d69b9ad7ebcb3",
                "test": "4dad7d09c7c97d33f6cb928d705cf4196221316fd6e31bdd978a08ed9103ee0b",
            },
        ),
        _official("imagenette", None),
        _official("imagewoof", None),
        _official("imagenette", 160),
        _official("imagenette", 320, "0e3ac85d7f3fd0a63d5e27d85c68511be9ac4dae260345b6f7434a0d4fa24b3f"),
        _official("imagewoof", 160),
        _official("imagewoof", 320),
        # Small copies of the second version (another split than the paper's), made for the `cpu` size.
        DataSet(
            "imagenette2-96",
            "Imagenette v2, 96 px copy",
            10,
            {"train": 9469, "test": 3925},
            *_IMAGENET,
            files={
                "train.zip": "403a1f8ab116e5a4c529f06d938469cf1eee8d63b40ad4187faf8e3935cfe8d9",
                "val.zip": "b8ee041d3c3c30f700a67ce53f2b5d5ce398a53841834984cfe68152f308a190",
            },
        ),
        DataSet(
            "imagewoof2-128",
            "Imagewoof v2, 128 px copy",
            10,
            {"train": 9025, "test": 3929},
            *_IMAGENET,
            files={
                "train.zip": "a3485613fd11537e877b3e23a68ade9bc4905b601667a66ee33cb98e190337f8",
                "val.zip": "0c9a4c64b957292f1b9e00309c0e72e090f96ad6617cea030aeacc2628b32a59",
            },
        ),
    )
}
