"""Measures Diwan beside other document stores: workloads, targets, reports. Run as `python -m bench` from the repository's root."""

# MySQL's client brings a libssl that fits no other libcrypto: where Python's has been loaded, Python's libssl has to be, too. It also needs
# thread-local storage that is laid out when it is loaded, of which numpy leaves too little. So these two come first.
import ssl  # noqa: F401  isort: skip

import _mysql_connector  # noqa: F401
