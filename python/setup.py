"""Makes a wheel for one platform if it carries the program: scripts/wheel.sh puts that into src/stagewise/bin and names the platform."""

import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

PLATFORM = os.environ.get("STAGEWISE_WHEEL_PLATFORM")


class Platform(Distribution):
    """A distribution whose files are of one platform if it carries the program."""

    def has_ext_modules(self) -> bool:
        return bool(PLATFORM)


class Wheel(bdist_wheel):
    """A wheel for any Python 3: the program is data, not an extension."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", PLATFORM or "any"


setup(distclass=Platform, cmdclass={"bdist_wheel": Wheel})
