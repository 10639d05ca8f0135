"""Pictures for the network: random views to train on, fixed views to validate on, all in batches on the device.

Every random view is a pure function of the pictures and of one row of uniform numbers per picture, so a run can be
repeated, resumed, or divided among processes without its views changing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from lae_core.training import autoaugment
from lae_core.training.data import Pictures
from lae_core.training.transfer import send

ATTEMPTS = 10  # at a resize-crop of the wanted area and ratio that fits
RATIO = (3 / 4, 4 / 3)
VIEWS = ("zoom", "crop-zero", "crop-noise")


def crop_flip(images: Tensor, uniforms: Tensor, pad: int = 4, pad_mode: str = "zero") -> Tensor:
    """Crop (B, 3, H, W) at random from its padded self, and mirror every other one; uniforms: (B, 3).

    The padding is black, or with `pad_mode` "reflect" the picture's own mirror image at its edges.
    """
    batch, _, height, width = images.shape
    device = images.device
    top, left = send((uniforms[:, :2] * (2 * pad + 1)).long() - pad, device).unbind(1)
    mirrored = send(uniforms[:, 2] < 0.5, device)[:, None]
    x = torch.arange(width, device=device).expand(batch, -1)
    x = torch.where(mirrored, width - 1 - x, x) + left[:, None]
    y = torch.arange(height, device=device) + top[:, None]
    if pad_mode == "reflect":
        x, y = ((n - 1) - ((n - 1) - i.abs()).abs() for i, n in ((x, width), (y, height)))
    inside = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None, :]
    place = torch.where(inside, y[:, :, None] * width + x[:, None, :] + 1, 0)  # place 0 is the padding
    source = torch.nn.functional.pad(images.flatten(2), (1, 0))
    return source.gather(2, place.view(batch, 1, -1).expand(-1, 3, -1)).view(images.shape)


def crop_boxes(shapes: Tensor, uniforms: Tensor, smallest: float) -> Tensor:
    """(B, 4) top, left, height, width of random crops of `smallest`…1 of the area, ratio ¾…4⁄3; uniforms: (B, 22).

    The first of ten attempts that fits is taken; if none does, the largest centred crop within the ratios.
    """
    height, width = shapes[:, :1].double(), shapes[:, 1:].double()
    area = height * width * (smallest + (1 - smallest) * uniforms[:, :ATTEMPTS])
    low, high = math.log(RATIO[0]), math.log(RATIO[1])
    ratio = torch.exp(low + (high - low) * uniforms[:, ATTEMPTS : 2 * ATTEMPTS])
    w, h = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.int().argmax(1, keepdim=True)
    w, h = w.gather(1, first), h.gather(1, first)
    centred_w = torch.minimum(width, (height * RATIO[1]).round())
    centred_h = torch.minimum(height, (width / RATIO[0]).round())
    found = fits.any(1, keepdim=True)
    w, h = torch.where(found, w, centred_w), torch.where(found, h, centred_h)
    top = torch.where(found, (uniforms[:, -2:-1] * (height - h + 1)).floor(), ((height - h) / 2).floor())
    left = torch.where(found, (uniforms[:, -1:] * (width - w + 1)).floor(), ((width - w) / 2).floor())
    return torch.cat([top, left, h, w], 1).long()


def _resampling(lengths: Tensor, longest: int, size: int) -> Tensor:
    """(B, size, longest): each row averages the inputs under a triangle: torch's antialiased bilinear resize."""
    scale = (lengths / size).view(-1, 1, 1).float()
    centre = scale * (torch.arange(size, device=lengths.device).view(1, -1, 1) + 0.5)
    place = torch.arange(longest, device=lengths.device).view(1, 1, -1) + 0.5
    weight = (1 - (place - centre).abs() / scale.clamp(min=1)).clamp(min=0)
    weight = torch.where(place < lengths.view(-1, 1, 1), weight, 0)
    return weight / weight.sum(2, keepdim=True)


def resize_boxes(pictures: Pictures, index: Tensor, boxes: Tensor, size: int, mirrored: Tensor | None = None) -> Tensor:
    """(B, 3, size, size) float, 0…255: the boxes of the pictures, resized with antialiasing.

    Bilinear resizing is separable, so a batch of differently shaped boxes is two batched matrix products.
    """
    device = pictures.pixels.device
    tallest, widest = int(boxes[:, 2].max()), int(boxes[:, 3].max())
    canvas = torch.zeros(len(index), 3, tallest, widest, dtype=torch.float32, device=device)
    for row, (i, (top, left, h, w)) in enumerate(zip(index.tolist(), boxes.tolist(), strict=True)):
        canvas[row, :, :h, :w] = pictures.one(i)[:, top : top + h, left : left + w]
    down = _resampling(send(boxes[:, 2], device), tallest, size)
    across = _resampling(send(boxes[:, 3], device), widest, size)
    if mirrored is not None:
        across = torch.where(send(mirrored, device).view(-1, 1, 1), across.flip(1), across)
    # (B, 3·H, W) @ (B, W, size), then (B, 1, size, H) @ (B, 3, H, size)
    narrow = torch.bmm(canvas.flatten(1, 2), across.transpose(1, 2)).view(len(index), 3, tallest, size)
    return torch.matmul(down[:, None], narrow)


def mirror_draw(kind: str) -> int:
    """Which of a picture's uniforms decides whether it is mirrored: it is below ½."""
    return 0 if kind == "resize-crop" else 2


def training_view(
    kind: str,
    pictures: Pictures,
    size: int,
    smallest: float = 0.35,
    pad: int = 4,
    pad_mode: str = "zero",
    fill: int = 0,
) -> tuple[int, Callable]:
    """How many uniforms one picture takes, and the function (index, uniforms) → (B, 3, size, size) in 0…255."""
    if kind == "resize-crop":

        def view(index: Tensor, uniforms: Tensor) -> Tensor:
            boxes = crop_boxes(pictures.shapes[index], uniforms[:, 1:], smallest)
            return resize_boxes(pictures, index, boxes, size, uniforms[:, 0] < 0.5)

        return 1 + 2 * ATTEMPTS + 2, view

    images = whole(pictures, torch.arange(len(pictures)), size)
    device = images.device
    if kind == "none":
        return 0, lambda index, uniforms: images[send(index, device)]
    if kind == "flip-crop":
        return 3, lambda index, uniforms: crop_flip(images[send(index, device)], uniforms, pad, pad_mode)
    policy = autoaugment.AutoAugment(size, device, fill)
    return 3 + autoaugment.DRAWS, lambda index, uniforms: policy(
        crop_flip(images[send(index, device)], uniforms[:, :3], pad, pad_mode), uniforms[:, 3:]
    )


def cutout(images: Tensor, uniforms: Tensor, side: int, mean: tuple[float, ...]) -> Tensor:
    """Cover a square of each (B, 3, H, W) with the mean colour, around a random pixel and cut at the edges.

    uniforms: (B, 2). To within rounding the square is 0 once the pictures are normalised.
    """
    height, width = images.shape[-2:]
    device = images.device
    corners = (uniforms * torch.tensor([height, width])).long() - side // 2
    top, left = send(corners, device)[:, :, None].unbind(1)
    y, x = torch.arange(height, device=device) - top, torch.arange(width, device=device) - left
    covered = ((y >= 0) & (y < side))[:, None, :, None] & ((x >= 0) & (x < side))[:, None, None, :]
    colour = (255 * send(torch.tensor(mean), device)).round().to(images.dtype).view(1, 3, 1, 1)
    return torch.where(covered, colour, images)


def with_cutout(draws: int, view: Callable, side: int, mean: tuple[float, ...]) -> tuple[int, Callable]:
    """What `training_view` gives, with `cutout` of its pictures; two more uniforms per picture."""
    return draws + 2, lambda index, uniforms: cutout(view(index, uniforms[:, :-2]), uniforms[:, -2:], side, mean)


def whole(pictures: Pictures, index: Tensor, size: int, chunk: int = 64) -> Tensor:
    """(N, 3, size, size) uint8: whole pictures, squeezed to a square where they are not one."""
    images = pictures.uniform
    if images is not None and images.shape[-2:] == (size, size):
        return images if len(index) == len(images) else images[send(index, images.device)]
    heights, widths = pictures.shapes[index].unbind(1)
    return _resize_in_chunks(pictures, index, torch.stack([heights * 0, widths * 0, heights, widths], 1), size, chunk)


def centre(pictures: Pictures, index: Tensor, size: int, share: float = 0.875, chunk: int = 64) -> Tensor:
    """(N, 3, size, size) uint8: the middle square of each picture, with that share of its shorter side."""
    shapes = pictures.shapes[index]
    side = (shapes.amin(1) * share).round().long()
    top, left = (shapes[:, 0] - side) // 2, (shapes[:, 1] - side) // 2
    return _resize_in_chunks(pictures, index, torch.stack([top, left, side, side], 1), size, chunk)


def _resize_in_chunks(pictures: Pictures, index: Tensor, boxes: Tensor, size: int, chunk: int) -> Tensor:
    parts = [
        resize_boxes(pictures, i, b, size).round_().clamp_(0, 255).to(torch.uint8)
        for i, b in zip(index.split(chunk), boxes.split(chunk), strict=True)
    ]
    return torch.cat(parts)


def normalise(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """(images / 255 − mean) / std, in float32 and channels-last, which convolutions read fastest."""
    scale = send(torch.tensor([1 / (255 * s) for s in std]), images.device).view(1, 3, 1, 1)
    shift = send(torch.tensor([m / s for m, s in zip(mean, std, strict=True)]), images.device).view(1, 3, 1, 1)
    return images.to(torch.float32, memory_format=torch.channels_last).mul_(scale).sub_(shift)


def crop_or_pad(images: Tensor, size: int, noise: torch.Generator | None = None) -> Tensor:
    """Normalised pictures cut to their middle, or surrounded by zeros or by standard normal noise where given."""
    have = images.shape[-1]
    if size <= have:
        start = (have - size) // 2
        return images[..., start : start + size, start : start + size]
    shape = (*images.shape[:2], size, size)
    canvas = torch.zeros(shape) if noise is None else torch.randn(shape, generator=noise)
    canvas = canvas.to(images.device, images.dtype)
    start = (size - have) // 2
    canvas[..., start : start + have, start : start + have] = images
    return canvas
