"""The compiled module that bridge/python/build_bridge.py makes. Only ars._native imports it."""

from typing import Any

ffi: Any
lib: Any
