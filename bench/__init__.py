"""Measures Diwan beside other document stores: workloads, targets, reports. Run as `python -m bench` from the repository's root."""

# These two imports come first. MySQL's client contains a libssl that works only with its own libcrypto: if Python's libcrypto is loaded, Python's
# libssl must be loaded too. The client also needs static thread-local storage when it is loaded, and numpy would leave too little.
import ssl  # noqa: F401  isort: skip

import _mysql_connector  # noqa: F401
