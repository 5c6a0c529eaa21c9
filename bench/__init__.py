"""Measures Diwan beside other document stores: workloads, targets, reports. Run as `python -m bench` from the repository's root."""
