"""Swapping the global pool of other people's models, with random weights and small inputs."""

import copy
import functools
import itertools
import json
import math
import os
import pickle
import types
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
import timm
import torch
import torchvision
from torch import nn

from lae_core import logavgexp, swap_global_pool
from lae_core.pooling.modules import LAEPool

SPEC = "lae(t0=0.5, train=channel)"
COUNTS = Path(__file__).with_name("swapped.json")
# families that end without a mean or maximum over positions, and why
REFUSED = {
    "alexnet": "pools to a 6x6 grid",
    "vgg": "pools to a 7x7 grid",
    "vit": "reads a class token",
}
ONE_OF_EACH_WAY = ("resnet18", "squeezenet1_1", "densenet121", "mobilenet_v2", "shufflenet_v2_x0_5", "regnet_y_400mf")
TIMM_ONE_OF_EACH_WAY = (
    "resnet18",
    "convnext_atto",
    "mobilenetv3_small_050",
    "repvit_m0_9",
    "swin_tiny_patch4_window7_224",
)


def build(name: str) -> nn.Module:
    extra = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return torchvision.models.get_model(name, weights=None, num_classes=10, **extra)


def image_for(model: nn.Module, name: str) -> torch.Tensor:
    size = 299 if name == "inception_v3" else 224 if name.startswith(("maxvit", "swin")) else 64
    torch.manual_seed(1)
    return torch.randn(2, 3, size, size)


def the_pool(model: nn.Module) -> LAEPool:
    pools = [module for module in model.modules() if isinstance(module, LAEPool)]
    assert len(pools) == 1, f"{len(pools)} LAE pools after the swap"
    return pools[0]


def settle(model: nn.Module) -> None:
    """Random features die out in a deep network with untrained norms: give every BatchNorm the statistics of a batch."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.train()
            module.momentum = None
        elif isinstance(module, nn.Dropout):
            module.eval()
        elif isinstance(module, nn.Linear) and not module.weight.any():  # a classifier that starts at zero
            nn.init.normal_(module.weight)


def check_swap(model: nn.Module, image: torch.Tensor) -> None:
    """Shape kept, output changed, gradient reaches log t, and the state_dict makes the round trip."""
    fresh = swap_global_pool(copy.deepcopy(model), SPEC, check=False)
    model.eval()
    settle(model)
    with torch.no_grad():
        model(image)
        model.eval()
        before = model(image)
    assert swap_global_pool(model, SPEC) is model
    pool = the_pool(model)
    after = model(image)
    assert after.shape == before.shape
    assert not torch.equal(after, before), "the output did not change"
    after.square().sum().backward()
    assert pool.log_t.grad is not None and pool.log_t.grad.abs().sum() > 0, "no gradient at log t"
    with torch.no_grad():
        pool.log_t += 0.5
        fresh.eval().load_state_dict(model.state_dict())
        torch.testing.assert_close(fresh(image), model(image))


@pytest.mark.parametrize("name", ONE_OF_EACH_WAY)
def test_torchvision(name):
    model = build(name)
    check_swap(model, image_for(model, name))


@pytest.mark.parametrize("name", TIMM_ONE_OF_EACH_WAY)
def test_timm(name):
    model = timm.create_model(name, num_classes=10)
    check_swap(model, torch.randn(2, *model.pretrained_cfg["input_size"][:1], *timm_size(model)))


AVERAGED_TOKENS = {
    "vit_tiny_patch16_224": {"global_pool": "avg"},  # with a class token that stays out
    "mixer_s32_224": {},
    "eva02_tiny_patch14_224": {},
}


@pytest.mark.parametrize("name", AVERAGED_TOKENS)
def test_timm_models_that_average_tokens(name):
    model = timm.create_model(name, num_classes=10, **AVERAGED_TOKENS[name])
    check_swap(model, torch.randn(2, 3, 224, 224))
    log_t = the_pool(model).log_t
    model.reset_classifier(7)
    assert the_pool(model).log_t is log_t and model(torch.randn(1, 3, 224, 224)).shape == (1, 7)


def test_the_tokens_that_the_model_averaged_are_pooled():
    """Those after the class token, as the operator pools them."""
    model = timm.create_model("vit_tiny_patch16_224", num_classes=10, global_pool="avg").eval()
    image = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        tokens = model.forward_features(image)
        expected = model.head(model.fc_norm(logavgexp(tokens[:, 1:], 0.5, dim=1)))
        torch.testing.assert_close(swap_global_pool(model, "lae(t0=0.5)")(image), expected)


def timm_size(model: nn.Module) -> tuple[int, int]:
    config = model.pretrained_cfg
    if config.get("fixed_input_size"):
        return tuple(config["input_size"][1:])
    # these shrink 96 px to a single position, which every pool returns as it is
    strong = config["architecture"].startswith(("inception", "csatv2"))
    return (192, 192) if strong else (96, 96)


@pytest.mark.parametrize("name", ["vgg11", "alexnet", "vit_b_32"])
def test_a_model_without_a_global_pool_is_refused_and_left_alone(name):
    model = build(name)
    before = (repr(model), list(model.state_dict()), [m.training for m in model.modules()])
    with pytest.raises(ValueError, match="no global spatial pool"):
        swap_global_pool(model, SPEC)
    assert before == (repr(model), list(model.state_dict()), [m.training for m in model.modules()])


def test_a_bad_spec_is_refused_before_the_model_is_touched():
    model = build("resnet18")
    with pytest.raises(ValueError, match="there is no pool 'lea'"):
        swap_global_pool(model, "lea")
    assert isinstance(model.avgpool, nn.AdaptiveAvgPool2d)


class Own(nn.Module):
    """A small network of one's own: features, then what a subclass makes of them."""

    def __init__(self, features: int = 8, **parts: nn.Module):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8))
        self.fc = nn.Linear(features, 5)
        for name, part in parts.items():
            setattr(self, name, part)


class InAFunction(Own):
    def forward(self, x):
        return self.fc(self.features(x).mean((2, 3)))


class AfterARectifier(Own):
    def forward(self, x):
        z = nn.functional.relu(self.features(x), inplace=True)
        return self.fc(z.mean((2, 3)))


class InAModule(Own):
    def forward(self, x):
        return self.fc(self.pool(self.features(x)).flatten(1))


class NormalisedPool(nn.Module):
    def forward(self, z):
        return nn.functional.normalize(nn.functional.relu(z).mean((2, 3)))


class FeaturesBesideAModule(Own):
    def forward(self, x):
        z = self.features(x)
        return {"logits": self.fc(self.pool(z).flatten(1)), "features": z}


class Labels(InAFunction):
    def forward(self, x):
        return super().forward(x).argmax(1)


class InAnObject(InAFunction):
    def forward(self, x):
        return types.SimpleNamespace(logits=super().forward(x))


class UnderTwoNames(Own):
    def __init__(self):
        super().__init__(pool=nn.AdaptiveAvgPool2d(1))
        self.head = nn.Sequential(self.pool, nn.Flatten(), self.fc)

    def forward(self, x):
        return self.head(self.features(x))


class SharedRectifier(Own):
    def forward(self, x):
        z = self.relu(self.features(x))
        return self.fc(self.relu(self.second(z)).mean((2, 3)))


class MeanAndMax(Own):
    def forward(self, x):
        z = self.features(x)
        return self.fc(torch.cat([z.mean((2, 3)), z.amax((2, 3))], 1))


class MeanAndMaxModules(Own):
    def forward(self, x):
        z = self.features(x)
        return self.fc(torch.cat([self.mean(z), self.max(z)], 1).flatten(1))


class MeanAndDeviation(Own):
    def forward(self, x):
        z = self.features(x)
        return self.fc(torch.cat([z.mean((2, 3)), z.std((2, 3))], 1))


class PenaltyBeside(Own):
    def forward(self, x):
        z = self.features(x)
        return {"logits": self.fc(self.pool(z).flatten(1)), "penalty": z.abs().mean()}


class FeaturesBeside(Own):
    def forward(self, x):
        z = self.features(x)
        return self.fc(z.mean((2, 3))), z


class DropoutBefore(Own):
    def forward(self, x):
        z = nn.functional.dropout(self.features(x), 0.5, self.training)
        return self.fc(z.mean((2, 3)))


class SharedPool(Own):
    def forward(self, x):
        z = self.features(x)
        z = z * self.pool(z).sigmoid()
        return self.fc(self.pool(z).flatten(1))


class Sum(Own):
    def forward(self, x):
        return self.fc(self.features(x).sum((2, 3)))


class Flattened(Own):
    def forward(self, x):
        return self.fc(self.features(x).flatten(2).mean(-1))


class NotRegistered(Own):
    def __init__(self):
        super().__init__(pool=nn.AdaptiveAvgPool2d(1))
        self.steps = [self.features, self.pool, nn.Flatten(), self.fc]

    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return x


class PoolsAtWill(InAFunction):
    pools = True

    def forward(self, x):
        return super().forward(x) if self.pools else self.features(x)


class Tokens(Own):
    """Tokens of which some may stand in front and stay out of the mean."""

    prefix = 0

    def forward(self, x):
        tokens = self.features(x).flatten(2).transpose(1, 2)
        return self.fc(self.norm(tokens)[:, self.prefix :].mean(1))


class TokensAfterTheFirst(Tokens):
    prefix = 2


class ClassToken(Tokens):
    def forward(self, x):
        return self.fc(self.norm(self.features(x).flatten(2).transpose(1, 2))[:, 0])


class TokensAndClassToken(Tokens):
    def forward(self, x):
        tokens = self.norm(self.features(x).flatten(2).transpose(1, 2))
        return self.fc(tokens[:, 0] + tokens[:, 1:].mean(1))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 5)

    def forward(self, z):
        return self.fc(z.mean((2, 3)))


class NeverTheSame(InAModule):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x) + self.calls


def pooled_in(*layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: InAModule(pool=nn.Sequential(*layers))


SWAPPED = {
    "function": InAFunction,
    "function after a rectifier": AfterARectifier,
    "module": lambda: InAModule(pool=nn.AdaptiveAvgPool2d(1)),
    "rectifier in the container": pooled_in(nn.ReLU(), nn.AdaptiveAvgPool2d(1)),
    "norm in the container": pooled_in(nn.InstanceNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    "dropout in the container": pooled_in(nn.AdaptiveAvgPool2d(1), nn.Dropout(0.5)),
    "normalise in the module": lambda: InAModule(pool=NormalisedPool()),
    "features returned": lambda: FeaturesBesideAModule(pool=nn.AdaptiveAvgPool2d(1)),
    "penalty returned": lambda: PenaltyBeside(pool=nn.AdaptiveAvgPool2d(1)),
    "two names": UnderTwoNames,
    "tokens": lambda: Tokens(norm=nn.LayerNorm(8)),
    "tokens after the first": lambda: TokensAfterTheFirst(norm=nn.LayerNorm(8)),
    "function, wrapped": lambda: nn.Sequential(nn.BatchNorm2d(3), InAFunction()),
    "function in a head": lambda: nn.Sequential(nn.Conv2d(3, 8, 3), Head()),
    "swapped before": lambda: swap_global_pool(InAFunction(), "avg"),
}


def outputs(model: nn.Module, image: torch.Tensor) -> list[torch.Tensor]:
    """In both modes, each from the same state and random numbers."""
    found = []
    for training in (False, True):
        torch.manual_seed(3)
        given = copy.deepcopy(model).train(training)(image)
        found += given.values() if isinstance(given, dict) else [given]
    return found


@pytest.mark.parametrize("name", SWAPPED)
def test_own_network_computes_the_same_with_an_average(name):
    torch.manual_seed(2)
    model, image = SWAPPED[name](), torch.randn(4, 3, 24, 24)
    before = outputs(model, image)
    swapped = outputs(swap_global_pool(copy.deepcopy(model), "avg"), image)
    torch.testing.assert_close(swapped, before)
    other = outputs(swap_global_pool(model, "lae(t0=0.1, train=channel)"), image)
    assert not torch.allclose(other[0], before[0], rtol=1e-3), "the swap had no effect"


class FixedWindow(Own):
    """As many networks for CIFAR or MNIST are written: the window is as large as the map of one size of picture."""

    def __init__(self, size: int, module: bool):
        super().__init__(**({"pool": nn.AvgPool2d(size // 4)} if module else {}))
        self.features[0].stride = (4, 4)
        self.size, self.module = size // 4, module

    def forward(self, x):
        z = self.features(x).relu()
        return self.fc((self.pool(z) if self.module else nn.functional.avg_pool2d(z, self.size)).view(-1, 8))


@pytest.mark.parametrize("module", [True, False])
@pytest.mark.parametrize("size", [32, 28])
def test_a_window_as_large_as_the_map_is_a_global_pool(size, module):
    """At twice the size such a network runs as well: it takes each quarter for a picture of its own."""
    torch.manual_seed(2)
    model, image = FixedWindow(size, module), torch.randn(4, 3, size, size)
    before = outputs(model, image)
    torch.testing.assert_close(outputs(swap_global_pool(copy.deepcopy(model), "avg"), image), before)
    other = swap_global_pool(model, "lae(t0=0.1, train=channel)")
    expected = other.fc(logavgexp(other.features.eval()(image).relu(), 0.1, dim=(2, 3)))
    torch.testing.assert_close(outputs(other, image)[0], expected)


class AverageOnTheWay(nn.Module):
    """As VGG, with average pooling between its layers: at 32 pixels the last of them covers the whole map."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 8, 8, 8, 8, 8)
        self.features = nn.Sequential(
            *(
                nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2))
                for a, b in itertools.pairwise(widths)
            )
        )
        self.grid, self.fc = nn.AdaptiveAvgPool2d((7, 7)), nn.Linear(8 * 49, 5)

    def forward(self, x):
        return self.fc(torch.flatten(self.grid(self.features(x)), 1))


class TwoPools(nn.Module):
    """Two branches with a pool each, for one head or for one each. `shape` is that of the scores of a picture."""

    def __init__(self, heads: int, shape: tuple[int, ...] = (5,)) -> None:
        super().__init__()
        self.shape = shape
        self.branches = nn.ModuleList(nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1)) for _ in range(2))
        self.heads = nn.ModuleList(nn.Linear(16 // heads, math.prod(shape)) for _ in range(heads))

    def forward(self, x):
        pooled = [branch(x).flatten(1) for branch in self.branches]
        parts = pooled if len(self.heads) == 2 else [torch.cat(pooled, 1)]
        return [head(part).reshape(-1, *self.shape) for head, part in zip(self.heads, parts, strict=True)]


def with_a_hook(pool: nn.Module) -> nn.Module:
    next(m for m in pool.modules() if isinstance(m, nn.AdaptiveAvgPool2d)).register_forward_hook(lambda *_: None)
    return InAModule(pool=pool)


REFUSALS = {
    "two pools, one head": (lambda: TwoPools(1), "depends on the picture also by another way.*check=False"),
    "two pools, one score": (lambda: TwoPools(1, ()), "depends on the picture also by another way"),
    "two pools, scores by task": (lambda: TwoPools(1, (2, 3)), "depends on the picture also by another way"),
    "two pools, two heads": (lambda: TwoPools(2), "depends on the picture also by another way.*check=False"),
    "shared rectifier": (
        lambda: SharedRectifier(relu=nn.ReLU(), second=nn.Conv2d(8, 8, 3)),
        "pools what 'relu' gives, and calls that 2 times",
    ),
    "mean and max": (lambda: MeanAndMax(16), r"pools the same features 2 times \(avg, max\)"),
    "mean and max, modules": (
        lambda: MeanAndMaxModules(16, mean=nn.AdaptiveAvgPool2d(1), max=nn.AdaptiveMaxPool2d(1)),
        "pools the same features 2 times",
    ),
    "catavgmax": (
        lambda: timm.create_model("resnet18", num_classes=5, global_pool="catavgmax"),
        "pools the same features 2 times",
    ),
    "a window on the way": (AverageOnTheWay, "pools all positions of an image of 32 x 32.*but not of one of 64 x 64"),
    "mean and deviation": (lambda: MeanAndDeviation(16), "also change what goes to std"),
    "features returned": (FeaturesBeside, "also change what goes to the model's output"),
    "dropout before": (DropoutBefore, "computes something else in train mode"),
    "shared pool": (lambda: SharedPool(pool=nn.AdaptiveAvgPool2d(1)), "'pool' is called 2 times"),
    "flattened": (Flattened, r"expected nn.AdaptiveAvgPool2d\(1\), or x.mean\(\(2, 3\)\) in place of"),
    "sum": (Sum, "computes something else in eval mode"),
    "not registered": (NotRegistered, "the same output whatever is put in place of the module 'pool'"),
    "class token": (lambda: ClassToken(norm=nn.LayerNorm(8)), "no global spatial pool.*class token"),
    "class token and others": (
        lambda: TokensAndClassToken(norm=nn.LayerNorm(8)),
        "a hook there would also change what goes to __getitem__",
    ),
    "never the same": (lambda: NeverTheSame(pool=nn.AdaptiveAvgPool2d(1)), "another output each time.*check=False"),
    "no values": (lambda: InAFunction().to("meta"), "device meta.*check=False"),
    "scripted": (lambda: torch.jit.script(InAModule(pool=nn.AdaptiveAvgPool2d(1))), "is scripted"),
    "compiled": (lambda: torch.compile(InAFunction()), "is compiled"),
    "compiled in part": (lambda: nn.Sequential(torch.compile(InAFunction())), "is compiled"),
    "lazy": (lambda: nn.Sequential(nn.LazyConv2d(8, 3), nn.AdaptiveAvgPool2d(1)), "expected the model after its first"),
    "with a hook": (lambda: with_a_hook(nn.AdaptiveAvgPool2d(1)), "'pool' has hooks, which would be lost"),
    "with a hook inside": (
        lambda: with_a_hook(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())),
        "'pool' has hooks, which would be lost",
    ),
    "labels": (Labels, "Labels returns no floating-point tensors"),
    "an object": (InAnObject, "InAnObject returns no floating-point tensors"),
    "quantised": (lambda: nn.Sequential(torch.ao.nn.quantized.dynamic.Linear(3, 3)), "is quantised"),
}


@pytest.mark.filterwarnings("ignore")  # torch's, at scripted and quantised modules
@pytest.mark.parametrize("name", REFUSALS)
def test_what_would_be_wrong_is_refused_and_left_alone(name):
    make, reason = REFUSALS[name]
    model = make()

    def state() -> tuple:
        hooks = [len(module._forward_hooks) for module in model.modules()]
        return repr(model), list(model.state_dict()), hooks, [module.training for module in model.modules()]

    before = state()
    with pytest.raises(ValueError, match=reason):
        swap_global_pool(model, SPEC)
    assert state() == before


@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda model: nn.Sequential(nn.Identity(), model)])
def test_a_pool_is_saved_with_the_network_in_a_wrapper(wrap):
    model = InAFunction()
    swap_global_pool(wrap(model), SPEC)
    assert the_pool(model)
    image = torch.randn(2, 3, 24, 24)
    torch.testing.assert_close(swap_global_pool(model, SPEC)(image), swap_global_pool(wrap(model), SPEC)(image))


def test_a_model_that_is_shared_between_processes_is_refused():
    """It would average the gradients of the parameters alone that it had when it was wrapped."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(InAFunction())
        with pytest.raises(ValueError, match="DistributedDataParallel would not share new parameters"):
            swap_global_pool(model, SPEC)
    finally:
        torch.distributed.destroy_process_group()


def test_a_refusal_keeps_an_earlier_swap():
    model = swap_global_pool(PoolsAtWill(), SPEC)
    model.pools = False
    with pytest.raises(ValueError, match="no global spatial pool"):
        swap_global_pool(model, "max")
    assert the_pool(model) and len(model.features._forward_hooks) == 1


@pytest.mark.parametrize("model", ["resnet18", None, InAFunction])
def test_what_is_no_model_is_named(model):
    with pytest.raises(TypeError, match=r"model = .* is invalid; expected a torch.nn.Module"):
        swap_global_pool(model, SPEC)


def test_the_check_can_be_left_out():
    model = swap_global_pool(InAFunction().to("meta"), SPEC, check=False)
    assert the_pool(model).log_t.is_meta


@pytest.mark.parametrize("name", ["resnet18", "convnext_atto", "regnety_002"])
def test_timm_reset_classifier_keeps_the_pool(name):
    model = swap_global_pool(timm.create_model(name, num_classes=10), SPEC)
    log_t = the_pool(model).log_t
    model.reset_classifier(7)
    assert the_pool(model).log_t is log_t
    assert model(torch.randn(2, 3, 96, 96)).shape == (2, 7)
    copied = copy.deepcopy(model)
    copied.reset_classifier(3)
    assert the_pool(copied) is not the_pool(model)
    assert model(torch.randn(2, 3, 96, 96)).shape == (2, 7)
    model.reset_classifier(7, global_pool="max")
    assert not any(isinstance(module, LAEPool) for module in model.modules()), "another pool was asked for by name"


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_swapping_twice_leaves_one_pool(name):
    model = swap_global_pool(swap_global_pool(build(name), SPEC), "lae(t0=2, train=one)")
    assert the_pool(model).temperature.shape == ()
    image = image_for(model, name)
    with torch.no_grad():
        torch.testing.assert_close(pickle.loads(pickle.dumps(model)).eval()(image), model.eval()(image))


def test_average_in_place_of_average_changes_nothing():
    for name in ("resnet18", "densenet121", "mobilenet_v2", "squeezenet1_1"):
        model = build(name).eval()
        image = image_for(model, name)
        with torch.no_grad():
            before = model(image)
            torch.testing.assert_close(swap_global_pool(model, "avg")(image), before)


def timm_families() -> dict[str, str]:
    """The model with the fewest parameters of every timm module, of the five whose names promise the least."""
    families = defaultdict(list)
    for name in timm.list_models():
        families[timm.models.model_entrypoint(name).__module__.rsplit(".", 1)[-1]].append(name)
    for encoder in ("deepseek_vit", "gemma4_vit", "qwen3_vit"):  # of language models: no image classifiers
        families.pop(encoder, None)
    small = (
        "atto",
        "femto",
        "pico",
        "nano",
        "xxs",
        "xx_small",
        "xs",
        "tiny",
        "small",
        "_s",
        "18",
        "26",
        "34",
        "b0",
        "m0",
        "t0",
    )

    def promise(name: str) -> tuple[int, int]:
        return next((i for i, word in enumerate(small) if word in name), len(small)), len(name)

    def parameters(name: str) -> int:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in timm.create_model(name).parameters())

    return {family: min(sorted(names, key=promise)[:5], key=parameters) for family, names in sorted(families.items())}


def swap_all(models: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]]) -> dict:
    """What becomes of each model: swapped, without a global pool, or failed and why."""
    found = {"swapped": [], "without a global pool": [], "failed": {}}
    for name, make in models.items():
        try:
            check_swap(*make())
            found["swapped"].append(name)
        except ValueError as error:
            if "no global spatial pool" not in str(error):
                found["failed"][name] = str(error)[:200]
            else:
                found["without a global pool"].append(name)
        except Exception as error:
            found["failed"][name] = f"{type(error).__name__}: {str(error)[:200]}"
    return found


def check_against_the_committed_counts(library: str, found: dict, capsys) -> None:
    """At least 95 % of the models with a global pool must work, and the committed list says which do."""
    counts = {kind: len(names) for kind, names in found.items()}
    with capsys.disabled():
        print(f"\n{library}: {counts}, failed: {found['failed']}")
    assert counts["swapped"] >= 0.95 * (counts["swapped"] + counts["failed"]), found["failed"]
    committed = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    if os.environ.get("LAE_UPDATE"):
        COUNTS.write_text(json.dumps({**committed, library: {"counts": counts, **found}}, indent=1) + "\n")
    else:
        assert committed[library] == {"counts": counts, **found}, "LAE_UPDATE=1 writes the list anew"


@pytest.mark.long
def test_every_torchvision_classification_model(capsys):
    def make(name):
        model = build(name)
        return model, image_for(model, name)

    names = torchvision.models.list_models(module=torchvision.models)
    found = swap_all({name: functools.partial(make, name) for name in names})
    assert all(name.startswith(tuple(REFUSED)) for name in found["without a global pool"])
    check_against_the_committed_counts("torchvision", found, capsys)


@pytest.mark.long
def test_one_model_of_every_timm_family(capsys):
    def make(name):
        model = timm.create_model(name, num_classes=10)
        return model, torch.randn(2, model.pretrained_cfg["input_size"][0], *timm_size(model))

    found = swap_all({name: functools.partial(make, name) for name in timm_families().values()})
    check_against_the_committed_counts("timm", found, capsys)
