"""A config is checked before anything starts, and names its run for good."""

import json
import re

import numpy as np
import pytest

from lae_core.training.config import _DEFAULTS, RECIPE, RunConfig


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"network": "wnr"}, ["network = 'wnr'", "wrn, pyramidnet, mxresnet", "did you mean 'wrn'"]),
        ({"pool": "lea"}, ["pool = 'lea'", "lae"]),
        ({"squeeze": "average"}, ["squeeze = 'average'", "avg"]),
        ({"depth": 7}, ["depth = 7", "at least 8"]),
        ({"network": "pyramidnet", "depth": 100}, ["depth = 100", "6n + 2"]),
        ({"network": "mxresnet", "depth": 101}, ["depth = 101", "10, 18, 34 or 50"]),
        ({"lr": 0}, ["lr = 0.0", "above 0"]),
        ({"lr": "0.1"}, ["lr = '0.1'", "finite number"]),
        ({"lr": float("nan")}, ["lr = nan", "finite number"]),
        ({"epochs": 2.5}, ["epochs = 2.5", "integer"]),
        ({"epochs": True}, ["epochs = True", "integer"]),
        ({"momentum": 1.0}, ["momentum = 1.0", "not including, 1"]),
        ({"schedule": "step", "milestones": [0.7, 0.2]}, ["milestones = (0.7, 0.2)", "rising"]),
        ({"input_sizes": 32}, ["input_sizes = 32", "list of ints"]),
        ({"input_sizes": [32, 4]}, ["input_sizes = (32, 4)", "at least 8"]),
        ({"batch": 33, "processes": 2}, ["batch = 33", "multiple of processes = 2"]),
        ({"data": "imagewoof"}, ["data = 'imagewoof'", "imagewoof-160"]),
        ({"fold": -1}, ["fold = -1", "at least 0"]),
        ({"seed": -1}, ["seed = -1", "from 0"]),
        ({"attention": 1}, ["attention = 1", "True or False"]),
        ({"label_smoothing": 1}, ["label_smoothing = 1.0"]),
        ({"network": "speed"}, ["depth = 18", "8 for speed"]),
        ({"network": "speed", "depth": 8, "width": 0.005}, ["width = 0.005", "more than 0.0078125 for speed"]),
        ({"width": 0.03}, ["width = 0.03", "more than 0.03125 for wrn"]),
        ({"network": "speed", "depth": 8, "image_size": 8}, ["image_size = 8", "at least 9 pixels for speed"]),
        ({"network": "speed", "depth": 8, "early_size": 8}, ["early_size = 8", "at least 9 pixels"]),
        ({"network": "speed", "depth": 8, "input_sizes": [16, 8]}, ["input_sizes = (16, 8)", "at least 9 pixels"]),
        ({"network": "pyramidnet", "depth": 8, "image_size": 34}, ["image_size = 34", "a multiple of 4"]),
        ({"network": "pyramidnet", "depth": 8, "input_sizes": [43]}, ["input_sizes = (43,)", "a multiple of 4"]),
        ({"strides": [1, 2]}, ["strides = (1, 2)", "three numbers"]),
        ({"strides": [1, 2, 3]}, ["strides = (1, 2, 3)", "1 or 2"]),
        ({"stem": "pach"}, ["stem = 'pach'", "did you mean 'patch'"]),
        ({"pad": -1}, ["pad = -1", "from 0 pixels"]),
        ({"pad": 32}, ["pad = 32", "image_size"]),
        ({"early_size": 32}, ["early_size = 32", "less than image_size = 32"]),
        ({"early_size": 24, "early_share": 1.5}, ["early_share = 1.5", "0 to 1"]),
        ({"micro_batch": 100}, ["micro_batch = 100", "divisor of the 256"]),
        ({"micro_batch": 256}, ["micro_batch = 256", "less than all of them"]),
        ({"head_lr": -1}, ["head_lr = -1.0", "at least 0"]),
        ({"nesterov": True, "momentum": 0}, ["nesterov = True", "momentum is 0"]),
        ({"optimiser": "moun"}, ["optimiser = 'moun'", "did you mean 'muon'"]),
        ({"fill": 256}, ["fill = 256", "0 to 255"]),
        ({"cutout": 33}, ["cutout = 33", "image_size"]),
        ({"valid_crop": 0, "augment": "resize-crop"}, ["valid_crop = 0.0", "above 0"]),
        ({"lookahead_steps": 0, "optimiser": "ranger"}, ["lookahead_steps = 0", "at least 1"]),
        ({"lookahead_alpha": 1.5, "optimiser": "ranger"}, ["lookahead_alpha = 1.5", "at most 1"]),
        ({"decay_slopes": True, "decay_norm": True}, ["decay_slopes = True", "decay_norm"]),
        ({"decay_slopes": True, "last_activation": "relu"}, ["decay_slopes = True", "PReLU"]),
        ({"stem_stride": 3, "network": "mxresnet", "depth": 18}, ["stem_stride = 3", "4, or 2"]),
    ],
)
def test_a_bad_field_is_refused_with_its_name_value_and_what_would_do(fields, says):
    with pytest.raises(ValueError, match=re.escape(says[0])) as refusal:
        RunConfig(**fields)
    for words in says:
        assert words in str(refusal.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"tail": "bn-pool-bn-relu"},
        {"survival": 0.9},
        {"stem_stride": 2},
        {"eps": 1e-4},
        {"flat": 0.5},
        {"milestones": [0.2]},
        {"crop_scale": 0.1},
        {"valid_crop": 0.8},
        {"augment": "flip-crop", "fill": 128},
        {"augment": "none", "cutout": 16},
        {"lookahead_steps": 5},
        {"lookahead_alpha": 0.8},
        {"squeeze_ratio": 4},
        {"early_share": 0.3},
        {"muon_momentum": 0.9},
        {"optimiser": "ranger", "nesterov": True},
        {"augment": "resize-crop", "pad": 2},
        {"augment": "none", "flip": "alternate"},
        {"network": "speed", "depth": 8, "stem": "patch"},
        {"network": "speed", "depth": 8, "zero_init": False},
        {"network": "pyramidnet", "depth": 110, "strides": [1, 2, 2]},
        {"network": "mxresnet", "depth": 18, "squeeze": "avg"},
        {"network": "mxresnet", "depth": 18, "last_activation": "relu"},
    ],
)
def test_a_field_without_effect_is_refused_so_that_one_run_has_one_name(fields):
    with pytest.raises(ValueError, match="default"):
        RunConfig(**fields)


def test_unknown_fields_are_refused_by_name():
    with pytest.raises(ValueError, match="no field 'momentun': did you mean 'momentum'"):
        RunConfig.from_dict({"momentun": 0.9})
    with pytest.raises(ValueError, match="no field 'learning_rate'"):
        RunConfig().replace(learning_rate=0.1)


def test_it_survives_json_and_is_hashable():
    config = RunConfig(pool="lae(t0=4, train=one)", input_sizes=[16, 32], schedule="step", milestones=[0.3], seed=7)
    again = RunConfig.from_dict(json.loads(json.dumps(config.to_dict())))
    assert again == config and hash(again) == hash(config) and again.key() == config.key()


def test_the_key_does_not_depend_on_how_a_value_is_written():
    key = RunConfig(lr=1.0, pool="lae(t0=4, train=one)").key()
    assert RunConfig(lr=1, pool="lae( train=one,t0=4.0 )").key() == key
    assert RunConfig(lr=np.float64(1), pool="lae(t0=4, train=one)").key() == key
    assert RunConfig(lr=1, pool="lae(t0=4, train=one)", seed=np.int64(0)).key() == key


def test_the_key_depends_on_every_field_but_the_device():
    base = RunConfig(squeeze="avg", optimiser="ranger", augment="resize-crop", processes=2)
    other = {
        "depth": 8, "width": 2, "pool": "max", "squeeze": "max", "squeeze_ratio": 8, "squeeze_place": "shortcut",
        "last_activation": "relu", "data": "digits", "image_size": 64, "subset": 100, "fold": 3, "eval_subset": 9,
        "eval_every": 2, "input_sizes": [32], "crop_scale": 0.5, "label_smoothing": 0.1, "epochs": 3, "batch": 64,
        "lr": 0.2, "ramp_up": 0.2, "momentum": 0.8, "beta2": 0.9, "eps": 1e-5, "weight_decay": 0.1, "decay_norm": True,
        "temperature_lr": 3.0, "seed": 5, "precision": "fp64", "processes": 4, "recipe": RECIPE + 1,
        "valid_crop": 0.8, "lookahead_steps": 5, "lookahead_alpha": 0.8, "decay_slopes": True,
    }  # fmt: skip
    keys = {name: base.replace(**{name: value}).key() for name, value in other.items()}
    assert len(set(keys.values()) | {base.key()}) == len(other) + 1
    assert base.replace(device="cpu").key() == base.key()
    plain = RunConfig()
    assert len({plain.key(), plain.replace(fill=128).key(), plain.replace(cutout=16).key()}) == 3


def test_keys_of_published_records_never_change():
    # Committed records bear these names; a change here orphans them.
    assert RunConfig().key() == "eab378d84d29de91"
    assert RunConfig(depth=8, width=1, pool="lae(t0=4, train=one)", seed=3).key() == "dca952dbcdf1f65e"


def test_a_field_added_later_leaves_old_names_alone():
    # the name is made of what differs from the defaults, so a field at its default is not in it
    written = {"depth": 8, "lr": 0.1}
    assert RunConfig.from_dict(written).key() == RunConfig.from_dict(_DEFAULTS | written).key()
