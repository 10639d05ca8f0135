"""AutoAugment's CIFAR-10 policy for a whole batch at once, equal to torchvision's own operations bit for bit.

The policy knows few distinct actions. What an action does to places (shear, translate, rotate) or to single values
(brightness, posterize, solarize, invert) is learnt once from torchvision, as a table of source positions or of 256
values, by applying its operation to a picture that holds its own positions or values; after that an action is a lookup.
torchvision's own AutoAugment takes one picture at a time and is many times slower (`lae bench training`), so this is ours.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torchvision.transforms import AutoAugment as TorchvisionAutoAugment
from torchvision.transforms import AutoAugmentPolicy, InterpolationMode
from torchvision.transforms.autoaugment import _apply_op  # torchvision has no public name for a single operation
from torchvision.transforms.functional import rgb_to_grayscale

from lae_core.training.transfer import send

# Uniform numbers that one picture's augmentation consumes: policy, two chances, two signs.
DRAWS = 5

_GEOMETRIC = ("ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate")
_POINTWISE = ("Brightness", "Posterize", "Solarize", "Invert")


def _source_positions(operation: str, amount: float, side: int) -> Tensor:
    """(side²,): from which flat position each pixel comes, 0 where it comes from outside, positions counted from 1."""
    places = torch.arange(1, side * side + 1, dtype=torch.float32).view(1, side, side)
    return _apply_op(places, operation, amount, InterpolationMode.NEAREST, None).long().view(-1)


def _value_table(operation: str, amount: float) -> Tensor:
    """(256,) uint8: what a pointwise operation makes of each value."""
    values = torch.arange(256, dtype=torch.uint8).view(1, 16, 16)
    return _apply_op(values, operation, amount, InterpolationMode.NEAREST, None).view(-1)


class AutoAugment:
    """The CIFAR-10 policy for square uint8 pictures of one side: `augment(images, uniforms)`, a pure function.

    What shear, translation and rotation move in from outside has the grey value `fill`.
    images: (B, 3, side, side) uint8; uniforms: (B, 5) in [0, 1), on the CPU, where the work is planned.
    """

    def __init__(self, side: int, device: torch.device | str = "cpu", fill: int = 0) -> None:
        self.side, self.device, self.fill = side, torch.device(device), fill
        theirs = TorchvisionAutoAugment(AutoAugmentPolicy.CIFAR10)
        policies, levels = theirs.policies, theirs._augmentation_space(10, (side, side))
        self.chances = torch.tensor([[step[1] for step in policy] for policy in policies], dtype=torch.float64)
        actions: dict[tuple[str, float], int] = {}
        self.action = torch.empty(len(policies), 2, 2, dtype=torch.long)  # policy, step, sign → action
        for p, policy in enumerate(policies):
            for step, (operation, _, level) in enumerate(policy):
                amounts, signed = levels[operation]
                for sign in (0, 1):
                    amount = 0.0 if level is None else float(amounts[level])
                    wanted = (operation, -amount if signed and not sign else amount)
                    self.action[p, step, sign] = actions.setdefault(wanted, len(actions))
        self.names = [operation for operation, _ in actions]
        self.factors = torch.tensor([1.0 + amount for _, amount in actions], dtype=torch.float64, device=self.device)
        nowhere = torch.zeros(side * side, dtype=torch.long)
        self.positions = torch.stack(
            [_source_positions(o, a, side) if o in _GEOMETRIC else nowhere for o, a in actions]
        ).to(self.device)
        same = torch.arange(256, dtype=torch.uint8)
        self.values = torch.stack([_value_table(o, a) if o in _POINTWISE else same for o, a in actions]).to(self.device)
        kinds = {"Color": 1, "Sharpness": 2, "Contrast": 4, "AutoContrast": 5, "Equalize": 6}
        self.kind = torch.tensor([0 if n in _GEOMETRIC else 3 if n in _POINTWISE else kinds[n] for n in self.names])

    def __call__(self, images: Tensor, uniforms: Tensor) -> Tensor:
        policy = (uniforms[:, 0] * len(self.chances)).long()
        images = images.clone()
        for step in (0, 1):
            chosen = self.action[policy, step, (uniforms[:, 3 + step] < 0.5).long()]
            acts = uniforms[:, 1 + step] <= self.chances[policy, step]
            self.act(images, torch.where(acts, chosen, -1))
        return images

    def act(self, images: Tensor, actions: Tensor) -> None:
        """Apply to each picture its action (−1 for none), in place."""
        kinds = torch.where(actions >= 0, self.kind[actions], -1)
        for kind, apply in enumerate((self._geometry, self._colour, self._sharpness)):
            rows = (kinds == kind).nonzero().squeeze(1)
            if len(rows):
                here = send(rows, self.device)
                images[here] = apply(images[here], send(actions[rows], self.device))
        rows = (kinds >= 3).nonzero().squeeze(1)
        if len(rows):
            here = send(rows, self.device)
            images[here] = self._tone(images[here], send(actions[rows], self.device), kinds[rows])

    def _geometry(self, images: Tensor, actions: Tensor) -> Tensor:
        source = torch.nn.functional.pad(images.flatten(2), (1, 0), value=self.fill)  # position 0 is the outside
        return source.gather(2, self.positions[actions][:, None].expand(-1, 3, -1)).view(images.shape)

    def _colour(self, images: Tensor, actions: Tensor) -> Tensor:
        return self._blend(images, rgb_to_grayscale(images), actions)

    def _sharpness(self, images: Tensor, actions: Tensor) -> Tensor:
        x = images.short()
        rows = x[:, :, :-2] + x[:, :, 1:-1] + x[:, :, 2:]
        total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:] + 4 * x[:, :, 1:-1, 1:-1]
        blurred = images.clone()
        blurred[:, :, 1:-1, 1:-1] = (total.float() / 13).round().to(torch.uint8)  # never a tie: 13 is odd
        return self._blend(images, blurred, actions)

    def _blend(self, images: Tensor, others: Tensor, actions: Tensor) -> Tensor:
        """factor · images + (1 − factor) · others, cut to 0…255 and truncated, in float32 as torchvision does it."""
        factor = self.factors[actions].view(-1, 1, 1, 1)
        mixed = factor.float() * images + (1.0 - factor).float() * others
        return mixed.clamp_(0, 255).to(torch.uint8)

    def _tone(self, images: Tensor, actions: Tensor, kinds: Tensor) -> Tensor:
        """Everything that maps a channel's values one by one: a table of 256 for each picture and channel."""
        tables = self.values[actions][:, None].repeat(1, 3, 1)
        for kind, make in ((4, self._contrast_table), (5, _autocontrast_table), (6, _equalize_table)):
            rows = (kinds == kind).nonzero().squeeze(1)
            if len(rows):
                here = send(rows, self.device)
                tables[here] = make(images[here], actions[here])
        return tables.gather(2, images.flatten(2).long()).view(images.shape)

    def _contrast_table(self, images: Tensor, actions: Tensor) -> Tensor:
        mean = rgb_to_grayscale(images).float().mean((1, 2, 3), keepdim=True)
        ramp = torch.arange(256, dtype=torch.uint8, device=images.device).view(1, 1, 1, 256)
        return self._blend(ramp, mean, actions).view(-1, 1, 256).expand(-1, 3, -1)


def _autocontrast_table(images: Tensor, actions: Tensor) -> Tensor:
    lowest = images.flatten(2).amin(2, keepdim=True).float()
    highest = images.flatten(2).amax(2, keepdim=True).float()
    flat = lowest == highest
    scale = torch.where(flat, 1.0, 255 / (highest - lowest))
    ramp = torch.arange(256, device=images.device, dtype=torch.float32)
    return ((ramp - torch.where(flat, 0.0, lowest)) * scale).clamp_(0, 255).to(torch.uint8)


def _equalize_table(images: Tensor, actions: Tensor) -> Tensor:
    channels = images.flatten(2).flatten(0, 1).long()  # (3B, positions)
    number = len(channels)
    base = 256 * torch.arange(number, device=images.device)[:, None]
    places = (channels + base).view(-1)
    if images.is_cuda:  # where bincount would wait for the device, to know how long its answer is
        counts = torch.zeros(256 * number, dtype=torch.long, device=images.device)
        counts.scatter_add_(0, places, torch.ones_like(places))
    else:
        counts = torch.bincount(places, minlength=256 * number)
    counts = counts.view(number, 256)
    brightest = counts.gather(1, channels.amax(1, keepdim=True))
    step = (channels.shape[1] - brightest) // 255
    before = counts.cumsum(1) - counts  # pixels darker than each value
    table = ((before + step // 2) // step.clamp(min=1)).clamp(0, 255)
    # torchvision shifts its table by one place, so value 0 always stays 0
    table[:, 0] = 0
    same = torch.arange(256, device=images.device).expand_as(table)
    return torch.where(step == 0, same, table).to(torch.uint8).view(-1, 3, 256)
