"""The part of the build that pyproject.toml cannot describe: the CPU kernel, a C library that Python loads with ctypes.

The environment variable LAE_KERNEL: `required` makes a kernel that cannot be built an error, `off` leaves it out (the
wheel is then pure). By default the package installs without it where there is no C compiler, and is slower there.
"""

import os
import sys

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

MODE = os.environ.get("LAE_KERNEL", "")
KERNEL = Extension(
    "lae_core.pooling._kernel",
    ["lae_core/pooling/kernel.c"],
    # never -ffast-math: it reorders the sums that keep the result exact
    extra_compile_args=["-std=gnu11", "-O3", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math"],
    libraries=[] if sys.platform == "win32" else ["m"],
    optional=MODE != "required",
)


class Library(build_ext):
    """A library for ctypes: no Python in it, so no initialisation function and no Python version in its name."""

    def get_export_symbols(self, ext):
        return ["lae_run"]

    def get_ext_filename(self, fullname):
        return os.path.join(*fullname.split(".")) + (".dll" if sys.platform == "win32" else ".so")


class Wheel(bdist_wheel):
    """One wheel for all versions of Python: py3-none-<platform>, or py3-none-any without the kernel."""

    def get_tag(self):
        kernel = os.path.join(self.bdist_dir, self.get_finalized_command("build_ext").get_ext_filename(KERNEL.name))
        self.root_is_pure = not os.path.exists(kernel)  # it may have failed to build
        return "py3", "none", super().get_tag()[2]


setup(ext_modules=[] if MODE == "off" else [KERNEL], cmdclass={"build_ext": Library, "bdist_wheel": Wheel})
