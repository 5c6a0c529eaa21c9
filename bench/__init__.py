"""Measures Diwan beside other document stores: workloads, targets, reports. Run as `python -m bench` from the repository's root."""

# MySQL's client needs thread-local storage that is laid out when it is loaded, of which numpy leaves too little: so it comes first.
import _mysql_connector  # noqa: F401
