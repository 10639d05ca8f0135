"""Every batched operation is held against torchvision's, picture by picture."""

import pytest
import torch
from torchvision.transforms import InterpolationMode, RandomResizedCrop, autoaugment
from torchvision.transforms import functional as F

from lae_core.training import augment, data
from lae_core.training.autoaugment import DRAWS, AutoAugment

SIDE = 32


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    """Noise, smooth pictures, and hard cases: flat, black, white, two values, one odd pixel."""
    noise = torch.randint(0, 256, (24, 3, SIDE, SIDE), generator=generator(), dtype=torch.uint8)
    coarse = torch.rand(24, 3, 5, 5, generator=generator(1)) * 255
    smooth = torch.nn.functional.interpolate(coarse, (SIDE, SIDE), mode="bicubic").clamp(0, 255).to(torch.uint8)
    hard = torch.zeros(6, 3, SIDE, SIDE, dtype=torch.uint8)
    hard[1], hard[2], hard[3] = 255, 77, (noise[0] > 128).to(torch.uint8) * 200
    hard[4, :, 3, 4] = 9
    hard[5] = smooth[0] // 8 + 100
    return torch.cat([noise, smooth, hard])


POLICY = autoaugment.AutoAugment(autoaugment.AutoAugmentPolicy.CIFAR10)
STEPS = sorted({(op, level) for policy in POLICY.policies for op, _, level in policy}, key=str)


def torchvision_magnitude(op: str, level: int | None, positive: bool) -> float:
    magnitudes, signed = POLICY._augmentation_space(10, (SIDE, SIDE))[op]
    value = float(magnitudes[level].item()) if level is not None else 0.0
    return -value if signed and not positive else value


@pytest.fixture(scope="module")
def ours() -> AutoAugment:
    return AutoAugment(SIDE)


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize(("op", "level"), STEPS)
def test_each_operation_of_the_policy_equals_torchvisions(images, ours, op, level, positive):
    amount = torchvision_magnitude(op, level, positive)
    places = [(p, s) for p, policy in enumerate(POLICY.policies) for s in (0, 1) if policy[s][::2] == (op, level)]
    got = images.clone()
    ours.act(got, ours.action[places[0]][int(positive)].repeat(len(images)))
    for i, image in enumerate(images):
        want = autoaugment._apply_op(image, op, amount, InterpolationMode.NEAREST, None)
        assert torch.equal(got[i], want), f"picture {i}"


@pytest.mark.parametrize(("op", "level"), [step for step in STEPS if step[0][:5] in ("Shear", "Trans", "Rotat")])
def test_what_is_moved_in_from_outside_can_be_grey_as_torchvision_fills(images, op, level):
    grey = AutoAugment(SIDE, fill=128)
    place = next((p, s) for p, policy in enumerate(POLICY.policies) for s in (0, 1) if policy[s][::2] == (op, level))
    got = images.clone()
    grey.act(got, grey.action[place][1].repeat(len(images)))
    amount = torchvision_magnitude(op, level, True)
    want = [autoaugment._apply_op(image, op, amount, InterpolationMode.NEAREST, [128.0] * 3) for image in images]
    assert torch.equal(got, torch.stack(want))
    assert not torch.equal(got, images)


def test_every_operation_does_something(images, ours):
    for action, name in enumerate(ours.names):
        got = images.clone()
        ours.act(got, torch.full((len(images),), action))
        at_level_0 = ours.factors[action] == 1 and name in ("Brightness", "Color", "Contrast", "Sharpness")
        assert torch.equal(got, images) == at_level_0, name


def test_the_whole_policy_equals_torchvisions_steps(images, ours):
    uniforms = torch.rand(len(images) * 8, DRAWS, generator=generator(2), dtype=torch.float64)
    batch = images.repeat(8, 1, 1, 1)
    got = ours(batch, uniforms)
    for image, result, u in zip(batch, got, uniforms.tolist(), strict=True):
        for step, (op, chance, level) in enumerate(POLICY.policies[int(u[0] * 25)]):
            if u[1 + step] <= chance:
                amount = torchvision_magnitude(op, level, u[3 + step] < 0.5)
                image = autoaugment._apply_op(image, op, amount, InterpolationMode.NEAREST, None)
        assert torch.equal(result, image)


def test_the_policy_leaves_its_input_alone_and_depends_on_nothing_but_its_arguments(images, ours):
    before, uniforms = images.clone(), torch.rand(len(images), DRAWS, generator=generator(3), dtype=torch.float64)
    first = ours(images, uniforms)
    assert torch.equal(images, before)
    assert torch.equal(ours(images[5:9], uniforms[5:9]), first[5:9])  # so a batch may be divided among processes


def test_crop_and_flip_equal_torchvisions(images):
    uniforms = torch.rand(len(images), 3, generator=generator(4), dtype=torch.float64)
    got = augment.crop_flip(images, uniforms)
    for image, result, (u, v, w) in zip(images, got, uniforms.tolist(), strict=True):
        want = F.crop(F.pad(image, [4]), int(u * 9), int(v * 9), SIDE, SIDE)
        assert torch.equal(result, F.hflip(want) if w < 0.5 else want)


@pytest.fixture(scope="module")
def pictures() -> data.Pictures:
    """Pictures of many shapes, some so long that few crops of ratio ¾…4⁄3 fit."""
    shapes = torch.tensor([[40, 60], [60, 40], [50, 50], [33, 47], [20, 200], [200, 20], [90, 31]])
    pixels = torch.randint(0, 256, (int(3 * shapes.prod(1).sum()),), generator=generator(5), dtype=torch.uint8)
    return data.Pictures(pixels, shapes, torch.arange(7))


@pytest.mark.parametrize("size", [16, 37, 64])
def test_resized_boxes_equal_torchvisions(pictures, size):
    index = torch.arange(7).repeat(6)
    uniforms = torch.rand(len(index), 23, generator=generator(6), dtype=torch.float64)
    boxes = augment.crop_boxes(pictures.shapes[index], uniforms[:, 1:], 0.35)
    mirrored = uniforms[:, 0] < 0.5
    got = augment.resize_boxes(pictures, index, boxes, size, mirrored)
    for row, i in enumerate(index.tolist()):
        want = F.resized_crop(pictures.one(i).float(), *boxes[row].tolist(), [size, size], antialias=True)
        torch.testing.assert_close(got[row], F.hflip(want) if mirrored[row] else want, rtol=0, atol=2e-3)


def test_crop_boxes_follow_torchvisions_rule(pictures, monkeypatch):
    """The same uniform numbers through torchvision's own code give the same boxes, the fallback among them."""
    index = torch.arange(7).repeat(20)
    uniforms = torch.rand(len(index), 22, generator=generator(7), dtype=torch.float64)
    boxes = augment.crop_boxes(pictures.shapes[index], uniforms, 0.35)
    exhausted = 0
    for row, i in enumerate(index.tolist()):
        # torchvision draws area and ratio of each attempt in turn, then the corner
        areas, ratios, corner = uniforms[row, :10].tolist(), uniforms[row, 10:20].tolist(), uniforms[row, 20:].tolist()
        stream = [value for pair in zip(areas, ratios, strict=True) for value in pair]

        class Draws:
            def uniform_(self, low, high, stream=stream):
                return torch.tensor([low + (high - low) * stream.pop(0)], dtype=torch.float64)

        def randint(low, high, size, corner=corner):
            return torch.tensor([int(corner.pop(0) * high)])

        with monkeypatch.context() as patch:
            patch.setattr(torch, "empty", lambda *_, draws=Draws: draws())
            patch.setattr(torch, "randint", randint)
            want = RandomResizedCrop.get_params(pictures.one(i), [0.35, 1.0], [3 / 4, 4 / 3])
        exhausted += len(corner) == 2
        assert tuple(boxes[row].tolist()) == want
    assert exhausted > 0


def test_whole_and_centre_views(pictures):
    squares = data.load("digits", "test")
    assert torch.equal(augment.whole(squares, torch.tensor([3, 1]), 32), squares.uniform[[3, 1]])
    index = torch.tensor([0, 4, 2])
    for view, boxes in (
        (augment.whole, [(0, 0, 40, 60), (0, 0, 20, 200), (0, 0, 50, 50)]),
        (augment.centre, [(2, 12, 35, 35), (1, 91, 18, 18), (3, 3, 44, 44)]),
    ):
        got = view(pictures, index, 24)
        assert got.dtype == torch.uint8
        for row, (i, box) in enumerate(zip(index.tolist(), boxes, strict=True)):
            want = F.resized_crop(pictures.one(i).float(), *box, [24, 24], antialias=True)
            assert (got[row].float() - want).abs().max() <= 0.501


def test_the_share_that_is_validated_on_is_an_argument(pictures):
    """At 128 px the cited code cuts the middle out of pictures of 160: four fifths."""
    index = torch.tensor([2])  # 50×50
    got = augment.centre(pictures, index, 24, 0.8)
    want = F.resized_crop(pictures.one(2).float(), 5, 5, 40, 40, [24, 24], antialias=True)
    assert (got[0].float() - want).abs().max() <= 0.501


def test_cutout_covers_a_square_of_mean_colour_and_nothing_else():
    images = torch.full((4, 3, 32, 32), 200, dtype=torch.uint8)
    corners = torch.tensor([[0.0, 0.0], [0.5, 0.5], [0.999, 0.0], [0.5, 0.999]], dtype=torch.float64)
    mean = (0.4914, 0.4822, 0.4465)
    got = augment.cutout(images, corners, 16, mean)
    covered = (got != 200).all(1)
    assert covered.sum((1, 2)).tolist() == [8 * 8, 16 * 16, 9 * 8, 16 * 9]
    assert covered[0, :8, :8].all() and covered[1, 8:24, 8:24].all()
    zero = augment.normalise(got, mean, (0.25, 0.25, 0.25)).permute(0, 2, 3, 1)[covered]
    assert zero.abs().max() <= 0.5 / 255 / 0.25
    assert (images == 200).all()
    assert torch.equal(augment.cutout(images, corners, 0, mean), images)


def test_cutout_takes_two_more_draws():
    digits = data.load("digits", "train")
    draws, view = augment.training_view("flip-crop", digits, 32)
    more, covered = augment.with_cutout(draws, view, 8, (0.5, 0.5, 0.5))
    uniforms = torch.rand(5, more, generator=generator(4), dtype=torch.float64)
    plain, got = view(torch.arange(5), uniforms[:, :-2]), covered(torch.arange(5), uniforms)
    assert more == draws + 2 and torch.equal(got, augment.cutout(plain, uniforms[:, -2:], 8, (0.5, 0.5, 0.5)))


def test_normalise_equals_torchvisions(images):
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    got = augment.normalise(images, mean, std)
    torch.testing.assert_close(got, F.normalize(images.float() / 255, list(mean), list(std)), rtol=1e-5, atol=1e-5)
    assert got.is_contiguous(memory_format=torch.channels_last)


def test_crop_or_pad():
    x = torch.randn(2, 3, 10, 10, generator=generator(8))
    assert torch.equal(augment.crop_or_pad(x, 6), x[..., 2:8, 2:8])
    assert torch.equal(augment.crop_or_pad(x, 10), x)
    zeros = augment.crop_or_pad(x, 15)
    noise = augment.crop_or_pad(x, 15, generator(9))
    for padded in (zeros, noise):
        assert torch.equal(padded[..., 2:12, 2:12], x)
    border = torch.ones(15, 15, dtype=torch.bool)
    border[2:12, 2:12] = False
    assert (zeros[..., border] == 0).all()
    values = augment.crop_or_pad(torch.zeros(20, 3, 10, 10), 50, generator(9))[..., 30:, 30:]
    assert abs(values.mean()) < 0.03 and abs(values.std() - 1) < 0.03


@pytest.mark.parametrize("kind", ["none", "flip-crop", "autoaugment", "resize-crop"])
def test_trainers_are_pure_functions_of_pictures_and_draws(kind):
    digits = data.load("digits", "train")
    number, view = augment.training_view(kind, digits, 32)
    index = torch.arange(40)
    uniforms = torch.rand(40, number, generator=generator(10), dtype=torch.float64)
    first = view(index, uniforms)
    assert first.shape == (40, 3, 32, 32)
    torch.testing.assert_close(view(index[10:20], uniforms[10:20]).float(), first[10:20].float(), rtol=0, atol=1e-3)
    same = torch.equal(first.float(), digits.uniform[:40].float())
    assert same == (kind == "none")
