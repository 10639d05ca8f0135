"""What would build a wrong pool is refused, and the message says what is accepted."""

import pytest

from lae_core import make_pool


@pytest.mark.parametrize("spec", ["lae(train=channel)", "lae(train=context-channel)", "mixed(train=channel)"])
@pytest.mark.parametrize("channels", [None, 0, -3, 2.5, "64", True])
def test_parameters_per_channel_need_a_number_of_channels(spec, channels):
    with pytest.raises(ValueError, match=f"channels = {channels!r} is invalid for .*whole number of at least 1"):
        make_pool(spec, channels)


def test_other_pools_do_without_a_number_of_channels():
    assert make_pool("lae(t0=4)", None).temperature == 4
    with pytest.raises(ValueError, match="channels = -1 is invalid"):
        make_pool("avg", -1)


@pytest.mark.parametrize("a0", ["5", "-0.1", "1.001", "nan", "inf", "half"])
def test_a_mixing_factor_is_a_share(a0):
    with pytest.raises(ValueError, match=f"a0 in .* is {a0!r}; it takes a number from 0 to 1"):
        make_pool(f"mixed(a0={a0})", 8)


@pytest.mark.parametrize("a0", [0, 0.25, 1])
def test_both_ends_are_shares(a0):
    assert make_pool(f"mixed(a0={a0})", 8).alpha.item() == a0
