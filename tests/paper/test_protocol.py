"""The printed protocol: every row of the paper's hyperparameter tables arrives in its config, and no other does."""

import inspect
import re
from pathlib import Path

import pytest

from lae_core.book.notebooks import all_notebooks
from lae_core.paper import protocol, tables
from lae_core.pooling import PoolSpec
from lae_core.training.config import RunConfig

REPO = Path(__file__).resolve().parents[2]

FIELDS = {"flat_share": "flat"}
NUMBERS = ("lr", "weight_decay", "momentum", "beta2", "eps", "flat_share", "lr_decay")


def made(table, row):
    if table == "hyper_wrn":
        return protocol.wrn(row.pool, row.data)
    if table == "hyper_se":
        return protocol.squeeze_excite(row.pool, row.squeeze_pool, row.data)
    if table == "hyper_mxresnet":
        return protocol.mxresnet(row.pool, row.data, row.size)
    return protocol.pyramidnet_retuned(row.pool, row.data)


@pytest.mark.parametrize("table", ["hyper_wrn", "hyper_se", "hyper_mxresnet", "hyper_pyramidnet"])
def test_every_printed_row_arrives_whole(table):
    frame = tables()[table].frame()
    configs = [made(table, row) for row in frame.itertuples()]
    assert len({config.key() for config in configs}) == len(frame) > 0
    for row, config in zip(frame.itertuples(), configs, strict=True):
        assert config.pool == row.pool and config.data.startswith(row.data)
        assert config.squeeze == getattr(row, "squeeze_pool", None)
        for name in set(NUMBERS) & set(frame.columns):
            assert getattr(config, FIELDS.get(name, name)) == getattr(row, name), name


def test_the_recipes_are_those_of_the_text():
    wrn = protocol.wrn("avg", "cifar10")
    assert (wrn.depth, wrn.width, wrn.last_activation, wrn.augment) == (18, 6, "prelu", "autoaugment")
    assert (wrn.epochs, wrn.batch, wrn.schedule, wrn.ramp_up * wrn.epochs) == (48, 256, "ramp", 6)
    pyramid = protocol.pyramidnet("avg", "cifar100")
    assert (pyramid.depth, pyramid.width, pyramid.tail, pyramid.augment) == (110, 200, "bn-pool-bn-relu", "autoaugment")
    assert (pyramid.epochs, pyramid.batch, pyramid.lr, pyramid.momentum) == (300, 128, 0.1, 0.9)
    assert [share * pyramid.epochs for share in pyramid.milestones] == [150, 225]
    assert (pyramid.weight_decay, pyramid.lr_decay, pyramid.last_activation) == (1e-4, 0.1, "relu")
    assert protocol.pyramidnet("avg", "cifar10", lr=0.5).lr == 0.5
    mx = protocol.mxresnet("avg", "imagewoof", 256)
    assert (mx.depth, mx.width, mx.stem_stride, mx.attention, mx.image_size) == (50, 1, 4, True, 256)
    assert (mx.epochs, mx.batch, mx.optimiser, mx.schedule) == (5, 64, "ranger", "flat-cosine")


def test_where_the_paper_is_silent_the_cited_code_is_followed():
    for config in (protocol.wrn("avg", "cifar10"), protocol.squeeze_excite("avg", "lae", "cifar100")):
        assert (config.fill, config.decay_slopes, config.decay_norm, config.cutout) == (128, True, False, 0)
    pyramid = protocol.pyramidnet("avg", "cifar10")
    assert (pyramid.fill, pyramid.decay_norm, pyramid.nesterov, pyramid.cutout) == (128, True, True, 0)
    for size, share in ((128, 0.8), (256, 8 / 9)):
        mx = protocol.mxresnet("avg", "imagewoof", size)
        assert (mx.data, mx.precision, mx.valid_crop) == ("imagewoof-full", "fp16", pytest.approx(share))
        assert (mx.lookahead_steps, mx.lookahead_alpha) == (6, 0.5)


def test_the_choices_are_arguments():
    mx = protocol.mxresnet("avg", "imagenette", 128, archive="small", precision="fp32")
    assert (mx.data, mx.precision) == ("imagenette-160", "fp32")
    assert protocol.mxresnet("avg", "imagenette", 256, archive="small").data == "imagenette-320"
    with pytest.raises(ValueError, match="archive = 'big' is invalid; expected 'full' or 'small'"):
        protocol.mxresnet("avg", "imagenette", 256, archive="big")


def test_the_searches_are_those_of_the_text():
    walks = protocol.lattice_searches()
    assert len(walks) == len(tables()["hyper_wrn"].frame()) + len(tables()["hyper_se"].frame()) == 26
    start = {"lr": 0.4, "weight_decay": 4e-4, "momentum": 0.9}
    for search in walks.values():
        assert search.settings["lattice"].params((0, 0, 0)) == pytest.approx(start)
        assert search.settings["lattice"].resolution == 1.6 and search.settings["folds"] == 5
        assert (search.config.epochs, search.config.batch, search.config.subset) == (60, 256, None)
        assert {name: getattr(search.config, name) for name in start} == start
    draws = protocol.random_searches()
    assert len(draws) == len(tables()["hyper_mxresnet"].frame()) == 20
    sizes = {("imagewoof-full", 128): ([200, 100, 100], 10), ("imagenette-full", 128): ([100, 100, 100], 10)}
    for search in draws.values():
        samples, top = sizes.get((search.config.data, search.config.image_size), ([40, 50, 50], 5))
        assert search.settings == {"samples": samples, "top": top, "finalists": 5, "means": [5, 10]}
        assert (search.config.epochs, search.config.batch, search.config.fold) == (6, 64, None)
    for found in (walks, draws):
        assert len({search.config.key() for search in found.values()}) == len(found)


@pytest.mark.parametrize(
    ("pool", "printed"),
    [
        ("lae(t0=4)", "lae"),
        ("lae(t0=4, train=one)", "lae(train=one)"),
        ("lae(t0=0.25, train=channel, dtype=float64)", "lae(train=channel)"),
        ("lae(form=textbook, dtype=float16)", "lae"),
        ("mixed(train=channel)", "mixed(train=channel)"),
        ("avg", "avg"),
    ],
)
def test_a_pool_without_a_row_takes_that_of_its_kind(pool, printed):
    assert protocol.printed_pool(pool) == printed
    assert protocol.printed_pool(printed) == printed


def test_t0_of_4_has_its_own_pool_and_the_numbers_of_t0_of_1():
    ours, printed = (protocol.mxresnet(f"lae({t0}train=one)", "imagewoof", 128) for t0 in ("t0=4, ", ""))
    assert ours.pool == "lae(t0=4, train=one)"
    assert ours.replace(pool=printed.pool) == printed


def test_hyperparameters_may_be_another_pools():
    borrowed = protocol.wrn("lae", "cifar100", tuned_for="avg")
    assert borrowed == protocol.wrn("avg", "cifar100").replace(pool="lae") != protocol.wrn("lae", "cifar100")


def test_what_is_not_printed_is_an_error_that_names_what_is():
    with pytest.raises(ValueError, match=r"pool = 'max'.*avg.*lae\(train=one\)"):
        protocol.wrn("max", "cifar10")
    with pytest.raises(ValueError, match=r"data = 'digits'.*cifar10, cifar100"):
        protocol.wrn("avg", "digits")
    with pytest.raises(ValueError, match="squeeze_pool = 'max'"):
        protocol.squeeze_excite("avg", "max", "cifar10")
    with pytest.raises(ValueError, match=r"data = 'cifar10'.*cifar100"):
        protocol.pyramidnet_retuned("avg", "cifar10")
    with pytest.raises(ValueError, match=r"size = 64.*128.*256"):
        protocol.mxresnet("avg", "imagewoof", 64)


def test_every_choice_of_the_page_names_an_argument_that_exists():
    """The table of choices in book/training.md: what stands in its brackets can be set."""
    text = (REPO / "book" / "training.md").read_text(encoding="utf-8")
    table = text[text.index(":name: tab-training-choices") :].split("```")[0]
    named = {
        name for brackets in re.findall(r"\(([^()]*`[^()]*)\)", table) for name in re.findall(r"`(\w+)`", brackets)
    }
    known = set(RunConfig.model_fields) | {"mixed"}
    known |= set(inspect.signature(protocol.mxresnet).parameters)
    known |= {name for notebook in all_notebooks(REPO) for name in notebook.parameters}
    for argument in ("a0=0.75", "bounds=unit"):
        known |= {name for name, _ in PoolSpec.parse(f"mixed({argument})").arguments}
    assert named - known == set()
    wanted = {"nesterov", "archive", "precision", "valid_crop", "decay_slopes", "fill", "cutout", "a0", "bounds"}
    assert wanted | {"lookahead_steps", "lookahead_alpha", "rates", "pools"} <= named
